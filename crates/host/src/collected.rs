//! A driver of a host that collects its output.

use crate::{ConnectionId, Host, HostDriver};
use anabranch_base::time::Time;
use anabranch_endpoint::{Event, Placement};
use anabranch_wire::Packet;

/// The output of a host at one moment, for programs that keep no payload bytes: simulators and tests.
#[derive(Debug, Default)]
pub struct Collected {
    /// Packets to send, oldest first.
    pub packets: Vec<Packet>,
    /// Events of connections, oldest first.
    pub events: Vec<(ConnectionId, Event)>,
}

impl Collected {
    /// Drains a host into lists.
    pub fn from(host: &mut Host, now: Time) -> Self {
        let mut all = Self::default();
        host.drive(now, &mut all);
        all
    }
}

impl HostDriver for Collected {
    fn place(&mut self, _: ConnectionId, _: Placement) {}

    fn transmit(&mut self, _: Option<ConnectionId>, packet: Packet) {
        self.packets.push(packet);
    }

    fn event(&mut self, connection: ConnectionId, event: Event) {
        self.events.push((connection, event));
    }
}
