//! The I bit (RFC 7053 §5.1): the sender requests an immediate SACK because it would wait for a delayed one.

use super::outbound::Outbound;
use crate::common::Core;
use crate::config::ImmediateSack;
use anabranch_wire::sctp::{Chunk, DataFlags};

impl Outbound {
    /// Sets the I bit on the last chunk of a packet for path `at` if an immediate SACK is useful.
    pub fn set_immediate_bit(&self, core: &Core, at: usize, chunks: &mut [Chunk]) {
        let asks = match core.config.immediate_sack {
            ImmediateSack::Never => false,
            ImmediateSack::End => self.pauses_after_packet(core),
            ImmediateSack::Window => self.pauses_after_packet(core) || self.fills_window(core, at),
        };
        if asks {
            match chunks.last_mut() {
                Some(Chunk::Data(data)) => data.flags |= DataFlags::IMMEDIATE,
                Some(Chunk::IData(data)) => data.flags |= DataFlags::IMMEDIATE,
                _ => {}
            }
        }
    }

    /// Returns true if the sender must pause after this packet until a SACK arrives or the application writes: no
    /// chunk is lost, no write was refused, and the queue is empty or contains only a partial packet that is held
    /// back.
    fn pauses_after_packet(&self, core: &Core) -> bool {
        let nothing_lost = self.sent.totals().lost_chunks() == 0;
        nothing_lost && self.refused.is_none() && (self.queue.bytes() == 0 || self.held_back(core))
    }

    /// True if the next chunk must wait for the congestion window of its path or for the receive window.
    fn fills_window(&self, core: &Core, at: usize) -> bool {
        let path = &core.paths[at];
        let len = self.next_len().unwrap_or(path.mss);
        u64::from(len) > self.window() || !core.window_admits(path, len)
    }
}
