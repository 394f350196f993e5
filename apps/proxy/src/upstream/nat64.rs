//! NAT64 prefixes: a gateway translates IPv6 addresses with such a prefix to IPv4 (RFC 6052 §2.2).

use crate::network::Network;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::Deserialize;

/// Valid prefix lengths, bits.
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// Number of bits after bit 71. Bits 64 to 71 are zero; they are no part of the IPv4 address unless the prefix has 96
/// bits.
const BITS_BELOW_OCTET: u32 = 56;

/// An IPv6 prefix that a NAT64 gateway translates, such as `2001:db8:64::/96`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Nat64(Network);

impl Nat64 {
    /// The well-known prefix (RFC 6052 §2.1).
    pub const WELL_KNOWN: Self =
        Self(Network::of(IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)), 96));

    /// Returns the IPv4 address to which the gateway translates an IPv6 address; `None` if the address does not have
    /// the prefix.
    pub fn inner(self, address: IpAddr) -> Option<IpAddr> {
        let IpAddr::V6(v6) = address else { return None };
        if !self.0.contains(address) {
            return None;
        }
        let bits = v6.to_bits();
        let v4 = if self.0.bits() == 96 {
            bits as u32
        } else {
            let low = bits & ((1 << BITS_BELOW_OCTET) - 1);
            let without_octet = (bits >> 64 << BITS_BELOW_OCTET) | low;
            (without_octet >> (64 + BITS_BELOW_OCTET - u32::from(self.0.bits()) - 32)) as u32
        };
        Some(Ipv4Addr::from_bits(v4).into())
    }
}

impl TryFrom<String> for Nat64 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network: Network = text.parse()?;
        if network.is_ipv4() || !LENGTHS.contains(&network.bits()) {
            return Err(format!(
                "\"{text}\" is not a NAT64 prefix; write an IPv6 network with a prefix of 32, 40, 48, 56, 64 or 96 bits"
            ));
        }
        Ok(Self(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Result<Nat64, String> {
        Nat64::try_from(text.to_owned())
    }

    /// The addresses are from the table of RFC 6052 §2.4.
    #[test]
    fn addresses_are_found_behind_each_length() {
        for (network, address) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let inner = prefix(network).expect(network).inner(address.parse().expect(address));
            assert_eq!(inner, Some(IpAddr::from([192, 0, 2, 33])), "{network}");
        }
        let outside = Nat64::WELL_KNOWN.inner("64:ff9c::1".parse().expect("an address"));
        assert_eq!(outside, None);
    }

    #[test]
    fn other_networks_are_refused() {
        for wrong in ["10.0.0.0/8", "2001:db8::/33", "::/0", "2001:db8::1", "x"] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }
}
