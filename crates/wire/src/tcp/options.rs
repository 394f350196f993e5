//! TCP options other than Multipath TCP's: MSS (RFC 9293 §3.7.1), window scale and timestamps (RFC 7323),
//! SACK-permitted and SACK (RFC 2018).

use super::mptcp;
use crate::seq::Serial;

/// The options of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size the sender is ready to receive, bytes; on SYN only.
    pub mss: Option<u16>,
    /// Window scale shift, 0–14; on SYN only.
    pub window_scale: Option<u8>,
    /// The sender understands SACK; on SYN only.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
    /// Multipath TCP options.
    pub mptcp: mptcp::Options,
}

/// RFC 7323 §3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`, the sender's clock.
    pub value: u32,
    /// `TSecr`, the echoed value; significant with ACK.
    pub echo: u32,
}

/// Up to four SACK blocks `[left, right)` (RFC 2018 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Serial, Serial); Self::MAX],
    count: u8,
}

impl SackBlocks {
    /// The most blocks that the option space holds.
    pub const MAX: usize = 4;

    /// Appends a block; does nothing and answers false when there are four.
    pub fn push(&mut self, left: Serial, right: Serial) -> bool {
        let Some(slot) = self.blocks.get_mut(self.count as usize) else { return false };
        *slot = (left, right);
        self.count += 1;
        true
    }

    /// The blocks, in the order in which they were pushed.
    pub fn as_slice(&self) -> &[(Serial, Serial)] {
        &self.blocks[..self.count as usize]
    }

    /// True without a block.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}
