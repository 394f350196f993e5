//! An endpoint on real packets.

use crate::network::Network;
use core::net::{IpAddr, SocketAddr};
use multipath::time::Time;
use std::io;
use transport::drive::{Driver, drive};
use transport::{Bytes, Endpoint, Event, Placement, Report, Socket};
use wire::{Buffer, Packet};

/// Packets that are taken in before the timers have their turn.
const BATCH: usize = 64;

/// Who uses a connection.
pub trait Application {
    /// Something happened to the connection.
    fn event(&mut self, event: Event);

    /// The application's turn: it writes, reads and closes as it likes, without waiting. Whether it did anything.
    fn turn(&mut self, socket: &mut Socket<'_>) -> bool;
}

/// A connection on a network: an endpoint, its bytes, and who uses it.
pub struct Connection<A> {
    endpoint: Box<dyn Endpoint>,
    bytes: Bytes,
    /// Who uses it.
    pub application: A,
    /// The port that the next further path is from.
    next_port: u16,
    closed: bool,
}

impl<A: Application> Connection<A> {
    /// Opens the connection if `endpoint` is one that connects; otherwise it waits for a peer.
    pub fn new(network: &mut Network, mut endpoint: Box<dyn Endpoint>, application: A) -> Self {
        endpoint.connect(network.now());
        Self { endpoint, bytes: Bytes::default(), application, next_port: 49_152, closed: false }
    }

    /// State and counters.
    pub fn report(&self) -> Report {
        self.endpoint.report()
    }

    /// Runs until the connection has ended, or to the time `limit` at most; whether it has ended.
    ///
    /// # Errors
    /// If a device is broken or gone.
    pub fn run(&mut self, network: &mut Network, limit: Time) -> io::Result<bool> {
        let mut buffer = Vec::new();
        self.settle(network, network.now(), None)?;
        while !self.closed {
            let now = network.now();
            if now >= limit {
                break;
            }
            let due = self.endpoint.next_timeout();
            if due.is_some_and(|due| due <= now) {
                self.endpoint.handle_timeout(now);
                self.settle(network, now, None)?;
            }
            let mut received = 0;
            while received < BATCH
                && let Some(packet) = network.receive(&mut buffer)?
            {
                received += 1;
                let (now, content) = (network.now(), Buffer(&buffer));
                self.endpoint.handle_packet(now, packet, &content);
                self.settle(network, now, Some(content))?;
            }
            if received < BATCH {
                network.wait(self.endpoint.next_timeout().map_or(Some(limit), |due| Some(due.min(limit))))?;
            }
        }
        Ok(self.closed)
    }

    /// Does all that there is to do at this moment; `packet` is what was just handed in.
    fn settle(&mut self, network: &mut Network, now: Time, packet: Option<Buffer<'_>>) -> io::Result<()> {
        let Self { bytes, application, next_port, closed, .. } = self;
        let mut turn = Turn { network, bytes, application, next_port, closed, now, packet, result: Ok(()) };
        drive(&mut *self.endpoint, now, &mut turn);
        let result = turn.result;
        self.bytes.release(&*self.endpoint);
        result
    }
}

/// What a connection's endpoint says at one moment, and who hears it.
struct Turn<'a, A> {
    network: &'a mut Network,
    bytes: &'a mut Bytes,
    application: &'a mut A,
    next_port: &'a mut u16,
    closed: &'a mut bool,
    now: Time,
    packet: Option<Buffer<'a>>,
    /// The first thing that went wrong with a device.
    result: io::Result<()>,
}

impl<A: Application> Driver<dyn Endpoint> for Turn<'_, A> {
    fn place(&mut self, placement: Placement) {
        self.bytes.place(placement, self.packet.expect("only a packet has something to place"));
    }

    fn transmit(&mut self, packet: Packet) {
        let bytes = &*self.bytes;
        let sent = self.network.send(&packet, &mut |payload, out| bytes.fill(payload, out));
        if self.result.is_ok() {
            self.result = sent;
        }
    }

    fn event(&mut self, event: Event) {
        *self.closed |= matches!(event, Event::Closed(_));
        self.application.event(event);
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
