//! TCP options other than Multipath TCP's: MSS (RFC 9293 §3.7.1), window scale and timestamps (RFC 7323),
//! SACK-permitted and SACK (RFC 2018).
//!
//! # Canonical layout
//! Options are written as Linux writes them, every group filling whole 32-bit words:
//!
//! | order | group | bytes |
//! |---|---|---|
//! | 1 | MSS | 4 |
//! | 2 | SACK-permitted and timestamps together: `04 02 08 0a …` | 12 |
//! |   | timestamps alone: `NOP NOP 08 0a …` | 12 |
//! |   | SACK-permitted alone: `NOP NOP 04 02` | 4 |
//! | 3 | window scale: `NOP 03 03 shift` | 4 |
//! | 4 | SACK, n blocks: `NOP NOP 05 len …` | 4 + 8 n |
//! | 5 | DSS, `NOP`s behind it up to a whole word | 4–28 |
//! | 6 | every other Multipath TCP option, in order, `NOP`s behind each up to a whole word | 4–28 each |
//!
//! So a SYN takes 20 bytes, a data segment with timestamps 12, an acknowledgement with timestamps takes at most three
//! SACK blocks. If these groups need more than the 40 bytes of the option space ([`Options::MAX_LEN`]), the same options
//! are written in the same order without any `NOP` in between and padded only at the end ("dense"), which lets for
//! example timestamps and an `ADD_ADDR` of 28 bytes share a segment. What does not fit even so is the caller's mistake.

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

impl Options {
    /// The option space of a TCP header, bytes (RFC 9293 §3.1: a data offset of 15 words, less the fixed header).
    pub const MAX_LEN: u32 = 40;

    /// Exact length in the header, padding included: a multiple of 4. More than [`Self::MAX_LEN`] for options that do
    /// not fit into a segment; use it to find out before sending.
    pub fn wire_len(&self) -> u32 {
        let aligned = self.aligned_len();
        if aligned <= Self::MAX_LEN { aligned } else { self.dense_len().next_multiple_of(4) }
    }

    /// How many more SACK blocks fit beside what is already there, in the aligned layout.
    pub fn sack_room(&self) -> usize {
        let blocks = u32::from(self.sack.count);
        let head = if blocks == 0 { 4 } else { 0 };
        let free = Self::MAX_LEN.saturating_sub(self.aligned_len() + head) / 8;
        free.min(SackBlocks::MAX as u32 - blocks) as usize
    }

    /// Length in whole words per group, as the table above has it.
    pub(super) fn aligned_len(&self) -> u32 {
        let stamped = self.timestamps.is_some();
        let blocks = u32::from(self.sack.count);
        4 * u32::from(self.mss.is_some())
            + 12 * u32::from(stamped)
            + 4 * u32::from(self.sack_permitted && !stamped)
            + 4 * u32::from(self.window_scale.is_some())
            + 8 * blocks
            + 4 * u32::from(blocks != 0)
            + self.mptcp.aligned_len()
    }

    /// Length without any padding.
    pub(super) fn dense_len(&self) -> u32 {
        let blocks = u32::from(self.sack.count);
        4 * u32::from(self.mss.is_some())
            + 10 * u32::from(self.timestamps.is_some())
            + 2 * u32::from(self.sack_permitted)
            + 3 * u32::from(self.window_scale.is_some())
            + 8 * blocks
            + 2 * u32::from(blocks != 0)
            + self.mptcp.dense_len()
    }
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
