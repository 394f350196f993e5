//! Waiting frames, and statistics of their number over time.

use crate::Frame;
use anabranch_base::time::Time;
use std::collections::VecDeque;

/// Waiting frames, in the order of their admission.
#[derive(Clone, Debug)]
pub struct Backlog<F> {
    frames: VecDeque<F>,
    bytes: u64,
}

impl<F> Default for Backlog<F> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), bytes: 0 }
    }
}

impl<F: Frame> Backlog<F> {
    /// Number of waiting packets.
    #[inline]
    pub fn packets(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Bytes of the waiting frames.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The frame at a position, counted from the oldest.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&F> {
        self.frames.get(place)
    }

    /// Appends a frame.
    #[inline]
    pub fn push(&mut self, frame: F) {
        self.bytes += u64::from(frame.wire_len());
        self.frames.push_back(frame);
    }

    /// Removes and returns the oldest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<F> {
        let frame = self.frames.pop_front()?;
        self.bytes -= u64::from(frame.wire_len());
        Some(frame)
    }

    /// Calls `visit` for every frame, oldest first.
    pub fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
        self.frames.iter_mut().for_each(visit);
    }

    /// Removes and returns all frames, oldest first, each with `now`.
    pub fn take_all(&mut self, now: Time) -> Vec<(Time, F)> {
        self.bytes = 0;
        self.frames.drain(..).map(|frame| (now, frame)).collect()
    }

    /// Moves all frames to `frames`, oldest first.
    pub fn clear(&mut self, frames: &mut Vec<F>) {
        frames.extend(self.frames.drain(..));
        self.bytes = 0;
    }
}

/// Occupancy of a queue over time: integer sums, so that reading them does not change the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Sum of packets · nanoseconds.
    pub packet_nanos: u128,
    /// Sum of bytes · nanoseconds.
    pub byte_nanos: u128,
    /// Maximum number of packets.
    pub max_packets: u64,
    /// Maximum number of bytes.
    pub max_bytes: u64,
    /// The time up to which waiting frames are in the sums.
    since: Time,
    packets: u64,
    bytes: u64,
}

impl Occupancy {
    /// Adds the waiting time of the present frames up to now.
    #[inline]
    pub fn account(&mut self, now: Time) {
        if self.packets > 0 {
            let nanos = u128::from(now.since(self.since).as_nanos());
            // A product of 64 bits overflows for 4 GB queued for 5 s, so it is widened first.
            self.packet_nanos += u128::from(self.packets) * nanos;
            self.byte_nanos += u128::from(self.bytes) * nanos;
        }
        self.since = now;
    }

    /// Sets the number of waiting packets and bytes.
    #[inline]
    pub fn set(&mut self, now: Time, packets: u64, bytes: u64) {
        self.account(now);
        (self.packets, self.bytes) = (packets, bytes);
        self.max_packets = self.max_packets.max(packets);
        self.max_bytes = self.max_bytes.max(bytes);
    }

    /// Resets the maxima to the present occupancy.
    pub fn restart_maxima(&mut self) {
        (self.max_packets, self.max_bytes) = (self.packets, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_mean_over_time() {
        let mut seen = Occupancy::default();
        seen.set(Time::from_nanos(10), 1, 100);
        seen.set(Time::from_nanos(20), 2, 150);
        seen.set(Time::from_nanos(25), 1, 50);
        seen.account(Time::from_nanos(40));
        // One packet for 10 ns, two for 5, one for 15; 100 B, 150 B, 50 B.
        assert_eq!(seen.packet_nanos, 10 + 2 * 5 + 15);
        assert_eq!(seen.byte_nanos, 100 * 10 + 150 * 5 + 50 * 15);
        assert_eq!((seen.max_packets, seen.max_bytes), (2, 150));
        seen.restart_maxima();
        assert_eq!((seen.max_packets, seen.max_bytes), (1, 50));
    }
}
