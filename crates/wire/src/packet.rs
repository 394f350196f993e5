//! A packet: network addresses, the ECN field, and a transport body.

use crate::{sctp, tcp, udp};
use core::net::IpAddr;

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 01.
    Ect1 = 1,
    /// ECN-capable, codepoint 10.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

/// What an IP packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// An SCTP packet.
    Sctp(sctp::Packet),
    /// A UDP datagram.
    Udp(udp::Datagram),
}

/// An IP packet as a value. Both addresses are of the same family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// ECN field.
    pub ecn: Ecn,
    /// Transport header and payload.
    pub body: Body,
}

impl Packet {
    /// Exact length of the IP packet in bytes: an IPv4 header of 20 or an IPv6 header of 40 bytes, neither with
    /// options, and the transport's header and payload.
    pub fn wire_len(&self) -> u32 {
        let network = if self.source.is_ipv4() { 20 } else { 40 };
        network
            + match &self.body {
                Body::Tcp(segment) => segment.wire_len(),
                Body::Sctp(packet) => packet.wire_len(),
                Body::Udp(datagram) => datagram.wire_len(),
            }
    }
}
