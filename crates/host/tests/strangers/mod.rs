//! This stack's host and a stack that others have written, which exchange encoded packets in virtual time over a network
//! with faults. The other stack is end 0 of each path, this stack is end 1.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

pub mod messages;
#[path = "../transfer/network.rs"]
pub mod network;
pub mod ours;
pub mod sctp;
pub mod stream;

use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::Endpoint;
use anabranch_testkit::contents::Contents;
use anabranch_testkit::paths::path_at;
use anabranch_wire::{Buffer, Packet};
use network::{Faults, Network};
use ours::Ours;

/// End of the other stack, and of this one.
const ENDS: [usize; 2] = [0, 1];
/// Maximum number of packets that an end sends at one moment; more would show an endless loop.
pub const MAX_PACKETS_AT_ONCE: usize = 20_000;

/// Faults of most tests.
pub const FAULTS: Faults = Faults { loss: 0.02, duplication: 0.01, reordering: 0.05, damage: 0.001 };

/// Number of random transfers: 64, or the value of `ANABRANCH_STRANGERS`.
pub fn cases() -> u32 {
    std::env::var("ANABRANCH_STRANGERS").map_or(64, |value| value.parse().expect("a number of transfers"))
}

/// A stack that others have written, with one connection and the application above it.
pub trait Stranger {
    /// Time of the next timer.
    fn next_timeout(&mut self, now: Time) -> Option<Time>;

    /// Handles the timers that are due.
    fn handle_timeout(&mut self, now: Time);

    /// Handles an IP packet.
    fn receive(&mut self, now: Time, packet: &[u8]);

    /// Lets the application act, takes events, and sends IP packets. Returns true if the application may act again.
    fn turn(&mut self, now: Time, send: &mut dyn FnMut(&[u8])) -> bool;

    /// Data that the application has written, and data that it has read.
    fn contents(&self) -> [&Contents; 2];

    /// True once the connection has ended.
    fn is_closed(&self) -> bool;
}

/// Both ends and the network between them.
pub struct Meeting<S> {
    pub now: Time,
    pub stranger: S,
    pub ours: Ours,
    /// Paths that lose all packets.
    pub cut: Vec<u8>,
    network: Network,
}

impl<S: Stranger> Meeting<S> {
    pub fn between(stranger: S, ours: Ours, (faults, rng): (Faults, &Rng)) -> Self {
        let network = Network::new(faults, rng.fork("network"));
        let mut meeting = Self { now: Time::ZERO, stranger, ours, cut: Vec::new(), network };
        meeting.drain_ours(None);
        meeting.drain_stranger();
        meeting
    }

    /// Lets this stack act, and sends its packets; `packet` was just received.
    pub fn drain_ours(&mut self, packet: Option<Buffer<'_>>) {
        let (now, network, cut) = (self.now, &mut self.network, &self.cut);
        self.ours.settle(now, packet, &mut |packet| carry(network, now, (ENDS[0], cut), packet));
    }

    /// Lets the other stack act, and sends its packets.
    pub fn drain_stranger(&mut self) {
        let (now, network, cut) = (self.now, &mut self.network, &self.cut);
        let mut sent = 0;
        let mut send = |packet: &[u8]| {
            sent += 1;
            assert!(sent < MAX_PACKETS_AT_ONCE, "a storm of packets");
            carry(network, now, (ENDS[1], cut), packet);
        };
        while self.stranger.turn(now, &mut send) {}
    }

    /// Advances to the next arrival or timer; false if there is none before `limit`.
    pub fn step(&mut self, limit: Time) -> bool {
        let timers =
            [self.ours.host.next_timeout(), self.stranger.next_timeout(self.now), self.network.next()];
        let Some(next) = timers.into_iter().flatten().min().filter(|&at| at <= limit) else { return false };
        self.now = self.now.max(next);
        while let Some((to, bytes)) = self.network.pop(self.now) {
            if to == ENDS[0] {
                self.stranger.receive(self.now, &bytes);
                self.drain_stranger();
            } else if let Ok(packet) = Packet::parse(&bytes) {
                let content = Buffer(&bytes);
                self.ours.host.handle_packet(self.now, packet, &content);
                self.drain_ours(Some(content));
            }
        }
        if self.ours.host.next_timeout().is_some_and(|due| due <= self.now) {
            self.ours.host.handle_timeout(self.now);
            self.drain_ours(None);
        }
        if self.stranger.next_timeout(self.now).is_some_and(|due| due <= self.now) {
            self.stranger.handle_timeout(self.now);
            self.drain_stranger();
        }
        true
    }

    /// Runs until `done` or the limit in seconds of virtual time; returns the last result of `done`.
    pub fn run_until(&mut self, seconds: f64, done: impl Fn(&Self) -> bool) -> bool {
        self.drain_stranger();
        self.drain_ours(None);
        let limit = Time::from_secs_f64(seconds);
        while !done(self) {
            if !self.step(limit) {
                return false;
            }
        }
        true
    }

    /// Runs for a time in seconds.
    pub fn pass(&mut self, seconds: f64) {
        let end = self.now.as_secs_f64() + seconds;
        self.run_until(end, |_| false);
        self.now = self.now.max(Time::from_secs_f64(end));
    }

    /// Loses all packets for a time in seconds.
    pub fn interrupt(&mut self, seconds: f64) {
        self.cut.push(0);
        self.pass(seconds);
        self.cut.clear();
    }

    /// Acts on this stack's connection.
    pub fn with_ours(&mut self, act: impl FnOnce(&mut (dyn Endpoint + 'static), Time)) {
        act(self.ours.endpoint_mut(), self.now);
        self.drain_ours(None);
    }

    /// Acts on the other stack.
    pub fn with_stranger<T>(&mut self, act: impl FnOnce(&mut S, Time) -> T) -> T {
        let result = act(&mut self.stranger, self.now);
        self.drain_stranger();
        result
    }

    /// True if the network loses packets.
    pub fn has_faults(&self) -> bool {
        self.network.faults.loss > 0.0
    }

    /// Bytes that this stack has received and its application has read.
    pub fn bytes_read(&self) -> u64 {
        self.ours.application.read.bytes
    }

    /// True once both ends have ended their connection.
    pub fn is_over(&self) -> bool {
        self.stranger.is_closed() && self.ours.closed.is_some()
    }

    /// Checks that either end has read exactly the data of the other one, and that each has written at least `bytes`.
    pub fn check_contents(&self, bytes: [u64; 2]) {
        let ([theirs_written, theirs_read], ours) = (self.stranger.contents(), &self.ours.application);
        let read = [ours.read.bytes, theirs_read.bytes];
        assert_eq!(read, [theirs_written.bytes, ours.written.bytes], "after {:?}: {:?}", self.now, self.ours);
        assert!(read[0] >= bytes[0] && read[1] >= bytes[1], "{read:?} of {bytes:?}: {:?}", self.ours);
        assert_eq!(ours.read.digests(), theirs_written.digests(), "from the other stack");
        assert_eq!(theirs_read.digests(), ours.written.digests(), "from this stack");
    }
}

/// Sends a packet on the path of the other stack's address in it.
fn carry(network: &mut Network, now: Time, (to, cut): (usize, &[u8]), bytes: &[u8]) {
    let packet = Packet::parse(bytes).expect("both ends send valid packets");
    let path = path_at(if to == ENDS[0] { packet.destination } else { packet.source });
    if !cut.contains(&path) {
        network.send(now, (path, to), bytes);
    }
}
