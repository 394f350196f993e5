//! Identification of transport connections by packet headers.

use anabranch_wire::{Body, Packet, ip::protocol};
use core::net::SocketAddr;

/// Transport, source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// Number of the transport in the IP header: UDP for SCTP in UDP.
    pub protocol: u8,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
}

impl FlowKey {
    /// The key of a packet; `None` for ICMP.
    pub fn of(packet: &Packet) -> Option<Self> {
        let (protocol, source, destination) = match &packet.body {
            Body::Tcp(segment) => (protocol::TCP, segment.source_port, segment.destination_port),
            Body::Udp(datagram) => (protocol::UDP, datagram.source_port, datagram.destination_port),
            Body::Sctp(sctp) => match sctp.udp {
                Some(ports) => (protocol::UDP, ports.source, ports.destination),
                None => (protocol::SCTP, sctp.source_port, sctp.destination_port),
            },
            Body::Icmp(_) => return None,
        };
        let source = SocketAddr::new(packet.source, source);
        Some(Self { protocol, source, destination: SocketAddr::new(packet.destination, destination) })
    }
}
