//! The machines of a testbed, and the tunnels between them.

use anabranch_wire::gre::{Gre, protocol_type};
use anabranch_wire::ip::{ipv4, ipv6};
use anabranch_wire::udp::Datagram;
use core::net::IpAddr;

/// Names of the machines, in the order of [`Machines`].
pub const MACHINES: [&str; 2] = ["a", "b"];

/// The nodes on each of the two machines of a testbed. Other worlds ignore them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines(pub [Vec<String>; 2]);

impl Machines {
    /// The index of the machine with a node.
    pub fn of(&self, node: &str) -> Option<usize> {
        self.0.iter().position(|nodes| nodes.iter().any(|other| other == node))
    }
}

/// The tunnel of a link between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The encapsulation.
    pub kind: TunnelKind,
    /// Address of the machine with the link's first node.
    pub local: IpAddr,
    /// Address of the machine with the link's second node.
    pub remote: IpAddr,
    /// The key of its packets.
    pub key: Option<u32>,
}

/// The encapsulation of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunnelKind {
    /// GRE (RFC 2784), with a key by RFC 2890.
    Gre,
    /// GRE with a key in UDP (RFC 8086).
    Udp,
}

impl Tunnel {
    /// Bytes of its headers in front of each packet.
    pub const fn overhead(&self) -> u32 {
        let ip = if self.local.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        let udp = match self.kind {
            TunnelKind::Gre => 0,
            TunnelKind::Udp => Datagram::HEADER_LEN,
        };
        ip + udp + Gre { key: self.key, protocol_type: protocol_type::IPV4 }.wire_len()
    }
}
