//! The queue in front of a link.
//!
//! Frames are kept in one place, first in, first out; a *discipline* decides what happens to an arriving frame. The frame
//! being transmitted has left the queue.

pub mod fifo;
pub mod red;

use crate::link::{Cause, Frame};
use crate::scenario::model;
use multipath::rng::Rng;
use multipath::time::{Duration, Time};
use std::collections::VecDeque;
use wire::Ecn;

/// The disciplines by the name used in scenarios, with what they do.
pub const KINDS: &[(&str, &str)] = &[fifo::ENTRY, red::ENTRY];

/// What a discipline may know when a frame arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Now.
    pub now: Time,
    /// Length of the arriving packet, bytes.
    pub len: u32,
    /// ECN field of the arriving packet.
    pub ecn: Ecn,
    /// Packets in the queue.
    pub packets: u64,
    /// Bytes in the queue.
    pub bytes: u64,
    /// How long the link has had nothing to do; `None` while it is transmitting.
    pub idle: Option<Duration>,
}

impl Arrival {
    /// Whether a queue of this limit has no room for the packet. An idle link takes it at once.
    #[inline]
    pub fn overflows(&self, limit: model::QueueLimit) -> bool {
        self.idle.is_none()
            && match limit {
                model::QueueLimit::Packets(most) => self.packets >= most,
                model::QueueLimit::Bytes(most) => self.bytes + u64::from(self.len) > most,
            }
    }
}

/// What a discipline decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet joins the queue.
    Accept,
    /// The packet joins the queue with "congestion experienced".
    Mark,
    /// The packet is dropped, and why.
    Drop(Cause),
}

/// A queue discipline with its state.
#[derive(Clone, Debug)]
pub enum Discipline {
    /// Drop-tail.
    Fifo(fifo::Fifo),
    /// Random early detection.
    Red(Box<red::Red>),
}

impl Discipline {
    /// The discipline that a scenario asks for. `typical` is how long a packet of [`red::MEAN_PACKET`] bytes takes to
    /// leave; `mtu` the largest packet.
    pub fn new(model: &model::Queue, typical: Duration, mtu: u32, rng: Rng) -> Self {
        match *model {
            model::Queue::Fifo { limit } => Self::Fifo(fifo::Fifo::new(limit)),
            model::Queue::Red { limit, min, max, max_p, weight, ecn } => {
                let parameters = red::Parameters { limit, min, max, max_p, weight, ecn, typical, mtu };
                Self::Red(Box::new(red::Red::new(parameters, rng)))
            }
        }
    }

    /// What happens to an arriving packet.
    #[inline]
    pub fn admit(&mut self, arrival: &Arrival) -> Verdict {
        match self {
            Self::Fifo(fifo) => fifo.admit(arrival),
            Self::Red(red) => red.admit(arrival),
        }
    }

    /// The link's rate changed.
    pub fn set_typical(&mut self, typical: Duration) {
        match self {
            Self::Fifo(_) => {}
            Self::Red(red) => red.set_typical(typical),
        }
    }
}

/// How full a queue was over time: integer sums, so that asking does not change the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Sum of packets · nanoseconds.
    pub packet_nanos: u128,
    /// Sum of bytes · nanoseconds.
    pub byte_nanos: u128,
    /// Most packets.
    pub max_packets: u64,
    /// Most bytes.
    pub max_bytes: u64,
}

/// The frames that wait for the link.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    frames: VecDeque<Frame>,
    bytes: u64,
    since: Time,
    occupancy: Occupancy,
}

impl Backlog {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// True without a frame.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Packets in the queue.
    #[inline]
    pub fn packets(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Bytes in the queue.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The frame in a place, counted from the oldest.
    #[inline]
    pub fn get(&self, place: usize) -> Option<Frame> {
        self.frames.get(place).copied()
    }

    /// Appends a frame.
    #[inline]
    pub fn push(&mut self, now: Time, frame: Frame) {
        self.account(now);
        self.bytes += u64::from(frame.len);
        self.frames.push_back(frame);
        let most = &mut self.occupancy;
        most.max_packets = most.max_packets.max(self.frames.len() as u64);
        most.max_bytes = most.max_bytes.max(self.bytes);
    }

    /// Takes the oldest frame out.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.account_with(now, self.frames.len() as u64 + 1);
        self.bytes -= u64::from(frame.len);
        Some(frame)
    }

    /// How full it was until `now`.
    pub fn occupancy(&mut self, now: Time) -> Occupancy {
        self.account(now);
        self.occupancy
    }

    /// Forgets the maxima, at the end of the warm-up.
    pub fn restart_maxima(&mut self) {
        self.occupancy.max_packets = self.frames.len() as u64;
        self.occupancy.max_bytes = self.bytes;
    }

    #[inline]
    fn account(&mut self, now: Time) {
        self.account_with(now, self.frames.len() as u64);
    }

    #[inline]
    fn account_with(&mut self, now: Time, packets: u64) {
        let nanos = now.since(self.since).as_nanos();
        self.since = now;
        // A product of 64 bits overflows for 4 GB queued for 5 s: widen first.
        self.occupancy.packet_nanos += u128::from(packets) * u128::from(nanos);
        self.occupancy.byte_nanos += u128::from(self.bytes) * u128::from(nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_a_mean_over_time() {
        let mut backlog = Backlog::new();
        let frame = |len| Frame { id: 0, len, next: 0, ecn: Ecn::NotEct };
        backlog.push(Time::from_nanos(10), frame(100));
        backlog.push(Time::from_nanos(20), frame(50));
        backlog.pop(Time::from_nanos(25));
        let seen = backlog.occupancy(Time::from_nanos(40));
        // One packet for 10 ns, two for 5, one for 15; 100 B, 150 B, 50 B.
        assert_eq!(seen.packet_nanos, 10 + 2 * 5 + 15);
        assert_eq!(seen.byte_nanos, 100 * 10 + 150 * 5 + 50 * 15);
        assert_eq!((seen.max_packets, seen.max_bytes), (2, 150));
        backlog.restart_maxima();
        assert_eq!(backlog.occupancy(Time::from_nanos(40)).max_packets, 1);
    }
}
