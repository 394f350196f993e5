//! One end of a connection in virtual time: its endpoint, the bytes that it has to send and has received, and its application.

use crate::application::Application;
use anabranch_base::time::Time;
use anabranch_endpoint::drive::{self, Driver, drive};
use anabranch_endpoint::{Bytes, Endpoint, Event, Placement, Reason, Socket};
use anabranch_wire::{Buffer, Packet};
use core::net::{IpAddr, SocketAddr};

/// Maximum number of packets that an end sends at one moment; more would show an endless loop.
pub const MAX_PACKETS_AT_ONCE: usize = 5_000;
/// Local port of the first further path.
const FIRST_FURTHER_PORT: u16 = 49_152;

pub struct End {
    pub endpoint: Box<dyn Endpoint>,
    pub bytes: Bytes,
    pub application: Application,
    pub closed: Option<Reason>,
    next_port: u16,
}

impl End {
    pub fn new(endpoint: Box<dyn Endpoint>, application: Application) -> Self {
        let (bytes, closed, next_port) = (Bytes::default(), None, FIRST_FURTHER_PORT);
        Self { endpoint, bytes, application, closed, next_port }
    }

    /// Handles everything that the end has to do at this moment. `packet` was just received; `transmit` gets each packet,
    /// and the bytes of its payload.
    ///
    /// # Panics
    /// If the end sends without end, or reports an event after the last one.
    pub fn settle(
        &mut self,
        now: Time,
        packet: Option<Buffer<'_>>,
        transmit: &mut dyn FnMut(&Packet, &Bytes),
    ) {
        let (endpoint, mut turn) = self.turn(now, packet, transmit);
        drive(endpoint, now, &mut turn);
        self.bytes.release(&*self.endpoint);
    }

    /// Places the payload of a packet that was just received. The end answers it later.
    pub fn place(&mut self, now: Time, packet: Buffer<'_>) {
        let mut transmit = |_: &Packet, _: &Bytes| {};
        let (endpoint, mut turn) = self.turn(now, Some(packet), &mut transmit);
        drive::place(endpoint, &mut turn);
    }

    fn turn<'a>(
        &'a mut self,
        now: Time,
        packet: Option<Buffer<'a>>,
        transmit: &'a mut dyn FnMut(&Packet, &Bytes),
    ) -> (&'a mut (dyn Endpoint + 'static), Turn<'a>) {
        let Self { endpoint, bytes, application, closed, next_port } = self;
        (&mut **endpoint, Turn { now, bytes, application, closed, next_port, packet, transmit, sent: 0 })
    }
}

/// Handles the packets and events of one end at one moment.
struct Turn<'a> {
    now: Time,
    bytes: &'a mut Bytes,
    application: &'a mut Application,
    closed: &'a mut Option<Reason>,
    next_port: &'a mut u16,
    /// The received packet whose payload may be placed.
    packet: Option<Buffer<'a>>,
    transmit: &'a mut dyn FnMut(&Packet, &Bytes),
    sent: usize,
}

impl Driver<dyn Endpoint> for Turn<'_> {
    fn place(&mut self, placement: Placement) {
        self.bytes.place(placement, self.packet.expect("only a received packet has payload to place"));
    }

    fn forget(&mut self, run: (u64, u32)) {
        self.bytes.fragments.forget(run);
    }

    fn transmit(&mut self, packet: Packet) {
        self.sent += 1;
        assert!(self.sent < MAX_PACKETS_AT_ONCE, "a storm of packets: {packet:?}");
        (self.transmit)(&packet, self.bytes);
    }

    fn event(&mut self, event: Event) {
        assert_eq!(*self.closed, None, "event after the connection closed: {event:?}");
        match event {
            Event::Closed(reason) => *self.closed = Some(reason),
            Event::Connected => self.application.is_connected = true,
            Event::Finished => self.application.finished = true,
            _ => {}
        }
    }

    fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
        let port = *self.next_port;
        *self.next_port = port.checked_add(1)?;
        Some(port)
    }

    fn application(&mut self, endpoint: &mut (dyn Endpoint + 'static)) -> bool {
        self.application.turn(&mut Socket { endpoint, bytes: self.bytes, now: self.now })
    }
}
