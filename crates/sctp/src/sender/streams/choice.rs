//! Restrictions of the next stream: one stream in a packet (RFC 8260 §3.3), and streams with fixed paths.

use super::{Message, SendQueue};
use crate::config::Config;
use anabranch_settings::policy::StreamScheduler;

impl SendQueue {
    /// Fixes the path of each stream: stream i uses the path at index i modulo the number of paths.
    pub fn fix_paths(&mut self, paths: impl Iterator<Item = u8>) {
        self.homes.paths.clear();
        self.homes.paths.extend(paths);
        if core::mem::take(&mut self.single) {
            self.enlist_first();
        }
    }

    /// The front messages of all streams that may be next, in the order of the scheduler, with their fixed paths.
    pub fn candidates(&self) -> impl Iterator<Item = (&Message, usize)> {
        let ready = self.ready.iter().map(|&(_, stream)| stream);
        let next = self.current.into_iter().chain(ready.filter(|_| self.current.is_none()));
        let next = next.filter(|&stream| !self.waits(stream));
        next.filter_map(|stream| {
            let front = self.streams[usize::from(stream)].queue.front()?;
            Some((front, usize::from(self.homes.of(stream)?)))
        })
    }

    /// Restricts the next packet to streams with this fixed path.
    pub fn begin_packet_on(&mut self, at: usize) {
        self.homes.at = Some(at as u8);
    }

    /// Ends the current packet, so that the next one may carry other streams.
    pub const fn end_packet(&mut self) {
        (self.packet, self.homes.at) = (None, None);
    }

    /// Returns true if a message of this stream may be sent next.
    pub(super) fn has_message(&self, stream: u16) -> bool {
        let queue = &self.streams[usize::from(stream)].queue;
        !queue.is_empty() && self.homes.admit(stream) && !self.waits(stream)
    }

    /// Virtual bytes of a fragment for the fair schedulers: its length, divided by the weight of its stream.
    pub(super) fn cost(&self, stream: u16, len: u32) -> u64 {
        if self.scheduler != StreamScheduler::WeightedFair {
            return u64::from(len);
        }
        let weight = self.numbers.get(usize::from(stream)).map_or(1, |&weight| weight.max(1));
        (u64::from(len) << WEIGHT_BITS) / u64::from(weight)
    }
}

/// The numbers that the stream scheduler uses for the first streams: priorities or weights.
pub(crate) fn numbers(config: &Config) -> &[u16] {
    match config.stream_scheduler {
        StreamScheduler::Priority => &config.stream_priorities,
        StreamScheduler::WeightedFair => &config.stream_weights,
        _ => &[],
    }
}

/// Fractional bits of virtual bytes with weights.
const WEIGHT_BITS: u32 = 16;
