//! `NR-SACK`: selective acknowledgement that tells what will not be discarded (draft-natarajan-tsvwg-sctp-nrsack §4).

use super::{GapBlock, Sack};

/// An `NR-SACK` chunk: a SACK whose gap blocks come in two lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrSack {
    /// Everything that a SACK says too. Its `gaps` are the renegable ones.
    pub sack: Sack,
    /// Received TSNs behind the first gap that the receiver will not discard; the sender may free them.
    pub nr_gaps: Vec<GapBlock>,
}

impl NrSack {
    /// Bytes before the gap blocks, chunk header included.
    pub const HEADER_LEN: u32 = 20;

    /// The chunk's length field, bytes; always a multiple of 4.
    pub fn length(&self) -> u32 {
        let entries = self.sack.gaps.len() + self.nr_gaps.len() + self.sack.duplicates.len();
        Self::HEADER_LEN + Sack::ENTRY_LEN * entries as u32
    }
}
