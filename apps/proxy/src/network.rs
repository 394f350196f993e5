//! Networks of IP addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use serde::Deserialize;
use std::fmt;

/// A network, such as `10.0.0.0/8` or `fc00::/7`. A single address is a network with the full prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Returns the network that contains an address, with this prefix length. A length beyond the maximum counts as the
    /// maximum.
    pub const fn of(address: IpAddr, bits: u8) -> Self {
        match address {
            IpAddr::V4(v4) => {
                let bits = if bits > 32 { 32 } else { bits };
                let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
                Self { address: IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask)), bits }
            }
            IpAddr::V6(v6) => {
                let bits = if bits > 128 { 128 } else { bits };
                let mask = if bits == 0 { 0 } else { u128::MAX << (128 - bits) };
                Self { address: IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask)), bits }
            }
        }
    }

    /// Returns the first address of the network.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the prefix length in bits.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// True for IPv4, false for IPv6.
    pub const fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// True if the network contains all addresses of its family.
    pub const fn is_all(&self) -> bool {
        self.bits == 0
    }

    /// Returns the network that counts as one source for limits: an IPv4 address, or the /64 of an IPv6 address, since
    /// an IPv6 host can use all addresses of its /64.
    pub const fn of_host(address: IpAddr) -> Self {
        match address.to_canonical() {
            v4 @ IpAddr::V4(_) => Self::of(v4, 32),
            v6 @ IpAddr::V6(_) => Self::of(v6, 64),
        }
    }

    /// True if the network contains the address.
    pub const fn contains(&self, address: IpAddr) -> bool {
        match (self.address, Self::of(address, self.bits).address) {
            (IpAddr::V4(first), IpAddr::V4(other)) => first.to_bits() == other.to_bits(),
            (IpAddr::V6(first), IpAddr::V6(other)) => first.to_bits() == other.to_bits(),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a network; write for example 10.0.0.0/8 or fc00::/7");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let max_bits = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(max_bits), |bits| bits.parse::<u8>().map_err(|_| wrong()))?;
        if bits > max_bits {
            return Err(wrong());
        }
        let network = Self::of(address, bits);
        if network.address == address {
            Ok(network)
        } else {
            Err(format!("\"{text}\" is an address inside a network; write the network {network}"))
        }
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().expect("a network")
    }

    #[test]
    fn network_contains_its_addresses() {
        let private = network("172.16.0.0/12");
        for (address, inside) in [
            ("172.16.0.0", true),
            ("172.31.255.255", true),
            ("172.32.0.0", false),
            ("::ffff:172.16.0.1", false),
        ] {
            assert_eq!(private.contains(address.parse().unwrap()), inside, "{address}");
        }
        assert!(network("0.0.0.0/0").contains("255.1.2.3".parse().unwrap()));
        assert!(network("::/0").contains("2001:db8::1".parse().unwrap()));
        let alone = network("2001:db8::1");
        assert!(alone.contains("2001:db8::1".parse().unwrap()));
        assert!(!alone.contains("2001:db8::2".parse().unwrap()));
        assert_eq!(alone.to_string(), "2001:db8::1/128");
    }

    #[test]
    fn malformed_network_is_reported() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "ten/8"] {
            assert!(text.parse::<Network>().expect_err(text).contains("is not a network"));
        }
        let inside = "10.1.0.0/8".parse::<Network>().expect_err("an address inside");
        assert_eq!(inside, "\"10.1.0.0/8\" is an address inside a network; write the network 10.0.0.0/8");
    }
}
