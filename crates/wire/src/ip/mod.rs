//! IPv4 and IPv6 headers, and the pseudo-header that the transports' checksums cover.

pub mod ipv4;
pub mod ipv6;
pub mod network_option;
pub mod option;
mod option_list;
pub mod source_route;
#[cfg(test)]
mod tests;

use crate::checksum::Checksum;
use core::net::IpAddr;

/// Time to live and hop limit of the packets that Anabranch's hosts send (RFC 1700's recommendation, and Linux's
/// default).
pub const HOP_LIMIT: u8 = 64;

/// Upper-layer protocol numbers.
pub mod protocol {
    /// ICMP, in IPv4.
    pub const ICMP: u8 = 1;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// GRE.
    pub const GRE: u8 = 47;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// The two addresses of a packet, which the transports' checksums cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
}

impl Addresses {
    /// A checksum that covers the pseudo-header (RFC 9293 §3.1; RFC 8200 §8.1) of `len` bytes of `protocol`.
    pub fn pseudo_header(&self, protocol: u8, len: u32) -> Checksum {
        let sum = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Checksum::new().bytes(&source.octets()).bytes(&destination.octets())
            }
            (source, destination) => Checksum::new().bytes(&to_v6(source)).bytes(&to_v6(destination)),
        };
        // The pseudo-headers of the two families have the protocol and the length at different offsets, but
        // the sums are equal.
        sum.bytes(&len.to_be_bytes()).bytes(&[0, 0, 0, protocol])
    }
}

/// Sixteen octets for either family, so that a pair of mixed families (which no packet can have) also has a defined
/// checksum.
fn to_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
