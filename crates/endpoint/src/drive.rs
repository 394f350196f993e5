//! The loop that drives an endpoint; simulator, hosts and tests share it.

use crate::endpoint::{Endpoint, Event, Placement};
use anabranch_base::time::Time;
use anabranch_wire::Packet;
use core::net::{IpAddr, SocketAddr};

/// Receives the output of an endpoint.
pub trait Driver<E: Endpoint + ?Sized> {
    /// Stores a part of the last packet's payload at the given place.
    fn place(&mut self, placement: Placement);

    /// Placed fragments that will never be read: the first key and their number. A driver that keeps no fragments ignores
    /// them.
    fn forget(&mut self, run: (u64, u32)) {
        let _ = run;
    }

    /// Sends a packet.
    fn transmit(&mut self, packet: Packet);

    /// Handles an event.
    fn event(&mut self, event: Event);

    /// Returns a local port for another path from `local` to `remote`, or `None` if no port is free.
    fn port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16>;

    /// Lets the application act on an endpoint whose output is empty. Returns whether it called the endpoint, which may
    /// have further output then.
    fn application(&mut self, endpoint: &mut E) -> bool;

    /// Endpoint and application are quiet: the last call before the next packet, timeout or event.
    fn settled(&mut self, endpoint: &E) {
        let _ = endpoint;
    }
}

/// Drains an endpoint in the order that [`Endpoint`] requires: placements, which only a packet creates, then packets, ports
/// and events; then it calls the application, and repeats until both are quiet. Call it after each change of the endpoint,
/// then wait for [`next_timeout`](Endpoint::next_timeout).
#[inline]
pub fn drive<E, D>(endpoint: &mut E, now: Time, driver: &mut D)
where
    E: Endpoint + ?Sized,
    D: Driver<E> + ?Sized,
{
    place(endpoint, driver);
    loop {
        while let Some(packet) = endpoint.poll_transmit(now) {
            driver.transmit(packet);
        }
        if let Some((local, remote)) = endpoint.port_wanted() {
            endpoint.give_port(now, driver.port(local, remote));
            continue;
        }
        while let Some(event) = endpoint.poll_event() {
            driver.event(event);
        }
        if !driver.application(endpoint) {
            break;
        }
    }
    driver.settled(endpoint);
}

/// Drains the placements of a packet that was just handled. Further packets that have arrived may be handled before
/// [`drive`], if this follows each.
#[inline]
pub fn place<E, D>(endpoint: &mut E, driver: &mut D)
where
    E: Endpoint + ?Sized,
    D: Driver<E> + ?Sized,
{
    while let Some(placement) = endpoint.poll_placement() {
        driver.place(placement);
    }
    while let Some(run) = endpoint.poll_forgotten() {
        driver.forget(run);
    }
}

/// A driver that collects all output in lists.
#[derive(Debug)]
pub struct Collected {
    /// Placements since the last packet that was handed in.
    pub placements: Vec<Placement>,
    /// Fragments that were placed and will never be read.
    pub forgotten: Vec<(u64, u32)>,
    /// Packets to send, oldest first.
    pub packets: Vec<Packet>,
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// Port for the next further path.
    pub next_port: u16,
}

impl Default for Collected {
    fn default() -> Self {
        let (placements, forgotten, packets, events) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { placements, forgotten, packets, events, next_port: 49_152 }
    }
}

impl Collected {
    /// Maximum number of packets at one moment; an endpoint that sends more is in an endless loop.
    const MAX_PACKETS_AT_ONCE: usize = 1_000_000;

    /// Drains an endpoint into lists.
    pub fn from<E: Endpoint + ?Sized>(endpoint: &mut E, now: Time) -> Self {
        let mut all = Self::default();
        drive(endpoint, now, &mut all);
        all
    }
}

impl<E: Endpoint + ?Sized> Driver<E> for Collected {
    fn place(&mut self, placement: Placement) {
        self.placements.push(placement);
    }

    fn forget(&mut self, run: (u64, u32)) {
        self.forgotten.push(run);
    }

    fn transmit(&mut self, packet: Packet) {
        assert!(
            self.packets.len() < Self::MAX_PACKETS_AT_ONCE,
            "the endpoint does not stop sending: {packet:?}"
        );
        self.packets.push(packet);
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
        let port = self.next_port;
        self.next_port = port.checked_add(1)?;
        Some(port)
    }

    fn application(&mut self, _: &mut E) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delivery, Limits, NetworkEvent, PathReport, Place, Report, Write};
    use anabranch_multipath::PathId;
    use anabranch_wire::{Body, Content, Ecn, Payload, udp};

    /// An endpoint with one output of each kind; a write causes another packet, port request and event.
    #[derive(Debug, Default)]
    struct Scripted {
        placement: bool,
        packets: u32,
        port: bool,
        event: bool,
    }

    impl Scripted {
        fn arm(&mut self) {
            (self.packets, self.port, self.event) = (1, true, true);
        }
    }

    impl Endpoint for Scripted {
        fn handle_packet(&mut self, _: Time, _: Packet, _: &dyn Content) {}
        fn poll_placement(&mut self) -> Option<Placement> {
            let payload = Payload::new(0, 1);
            core::mem::take(&mut self.placement)
                .then_some(Placement { payload, place: Place::Stream { offset: 0 } })
        }
        fn handle_network(&mut self, _: Time, _: NetworkEvent) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time) -> Option<Packet> {
            self.packets = self.packets.checked_sub(1)?;
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            Some(Packet { source, destination, ecn: Ecn::NotEct, body: Body::Udp(udp::Datagram::default()) })
        }
        fn next_timeout(&self) -> Option<Time> {
            None
        }
        fn poll_event(&mut self) -> Option<Event> {
            core::mem::take(&mut self.event).then_some(Event::Connected)
        }
        fn connect(&mut self, _: Time) {}
        fn send_space(&self) -> u64 {
            0
        }
        fn write(&mut self, _: Time, _: Write) -> u64 {
            self.arm();
            0
        }
        fn readable(&self) -> u64 {
            0
        }
        fn read(&mut self, _: Time, _: u64) -> Option<Delivery> {
            None
        }
        fn window_update_due(&self) -> bool {
            false
        }
        fn released(&self) -> u64 {
            0
        }
        fn port_wanted(&self) -> Option<(IpAddr, SocketAddr)> {
            self.port.then_some(([10, 0, 0, 1].into(), ([10, 0, 0, 2], 80).into()))
        }
        fn give_port(&mut self, _: Time, port: Option<u16>) {
            assert_eq!(port, Some(7));
            self.port = false;
            self.packets += 1;
        }
        fn close(&mut self, _: Time) {}
        fn abort(&mut self, _: Time) {}
        fn report(&self) -> Report {
            Report::default()
        }
        fn limits(&self, _: Time) -> Limits {
            Limits::default()
        }
        fn path(&self, _: PathId) -> Option<PathReport> {
            None
        }
    }

    #[derive(Debug, Default)]
    struct Log(Vec<&'static str>, u32);

    impl Driver<Scripted> for Log {
        fn place(&mut self, _: Placement) {
            self.0.push("place");
        }
        fn transmit(&mut self, _: Packet) {
            self.0.push("transmit");
        }
        fn event(&mut self, _: Event) {
            self.0.push("event");
        }
        fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
            self.0.push("port");
            Some(7)
        }
        fn application(&mut self, endpoint: &mut Scripted) -> bool {
            self.0.push("application");
            self.1 += 1;
            self.1 < 2 && {
                endpoint.write(Time::ZERO, Write::bytes(1));
                true
            }
        }
    }

    #[test]
    fn drive_drains_ports_and_their_packets_before_events() {
        let mut endpoint = Scripted { placement: true, ..Scripted::default() };
        endpoint.arm();
        let mut log = Log::default();
        drive(&mut endpoint, Time::ZERO, &mut log);
        let round = ["transmit", "port", "transmit", "event", "application"];
        assert_eq!(log.0, [&["place"][..], &round, &round].concat());
    }
}
