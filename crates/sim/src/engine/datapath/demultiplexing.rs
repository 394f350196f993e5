//! Would the hosts find the flow of every packet by what is in it?
//!
//! The engine knows the end that a packet goes to, and no table is asked for it. With the check of packets on, every one is
//! held against what a host would go by: no two flows may use the same two ends.

use super::EndId;
use core::net::SocketAddr;
use std::collections::BTreeMap;
use wire::{Body, Packet};

/// Transport, source and destination.
type Key = (u8, SocketAddr, SocketAddr);

/// Who uses which ends.
#[derive(Debug, Default)]
pub(super) struct Demultiplexing {
    users: BTreeMap<Key, EndId>,
}

impl Demultiplexing {
    /// An end of a flow sends a packet; the end that sent others like it, if that is another one.
    pub(super) fn conflict(&mut self, from: EndId, packet: &Packet) -> Option<EndId> {
        let (transport, source, destination) = match &packet.body {
            Body::Tcp(segment) => (0, segment.source_port, segment.destination_port),
            Body::Sctp(packet) => (1, packet.source_port, packet.destination_port),
            Body::Udp(datagram) => (2, datagram.source_port, datagram.destination_port),
            Body::Icmp(_) => return None,
        };
        let key = (
            transport,
            SocketAddr::new(packet.source, source),
            SocketAddr::new(packet.destination, destination),
        );
        let user = *self.users.entry(key).or_insert(from);
        (user != from).then_some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Ecn, udp};

    #[test]
    fn the_same_ends_are_of_one_flow_only() {
        let packet = |source_port| {
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let datagram = udp::Datagram { source_port, destination_port: 5, ..udp::Datagram::default() };
            Packet { source, destination, ecn: Ecn::NotEct, body: Body::Udp(datagram) }
        };
        let mut ends = Demultiplexing::default();
        for _ in 0..2 {
            assert_eq!(ends.conflict(0, &packet(1)), None);
            assert_eq!(ends.conflict(2, &packet(2)), None);
        }
        assert_eq!(ends.conflict(2, &packet(1)), Some(0));
    }
}
