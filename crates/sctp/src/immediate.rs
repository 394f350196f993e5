//! The I bit as a sender sets it (RFC 7053 §5.1): the peer is not to delay the SACK for which this end would wait.

use super::common::Core;
use super::config::ImmediateSack;
use super::outbound::Outbound;
use anabranch_wire::sctp::{Chunk, DataFlags};

impl Outbound {
    /// Before a packet with data is sent on path `at`: sets the I bit on its last chunk if an immediate SACK
    /// is worth it.
    pub fn ask_at_once(&self, core: &Core, at: usize, chunks: &mut [Chunk]) {
        let asks = match core.config.immediate_sack {
            ImmediateSack::Never => false,
            ImmediateSack::End => self.pauses(core),
            ImmediateSack::Window => self.pauses(core) || self.fills_window(core, at),
        };
        if asks {
            match chunks.last_mut() {
                Some(Chunk::Data(data)) => data.flags |= DataFlags::IMMEDIATE,
                Some(Chunk::IData(data)) => data.flags |= DataFlags::IMMEDIATE,
                _ => {}
            }
        }
    }

    /// Nothing follows this packet before a SACK or the application lets it: not the rest that waits to be a full packet, and
    /// nothing else, unless a write was refused and is about to come again.
    fn pauses(&self, core: &Core) -> bool {
        let nothing_lost = self.sent.totals().lost_chunks() == 0;
        nothing_lost && self.refused.is_none() && (self.queue.bytes() == 0 || self.held_back(core))
    }

    /// The next chunk has to wait for the congestion window of its path or for the receive window.
    fn fills_window(&self, core: &Core, at: usize) -> bool {
        let path = &core.paths[at];
        let len = self.next_len().unwrap_or(path.mss);
        u64::from(len) > self.window() || !core.window_admits(path, len)
    }
}
