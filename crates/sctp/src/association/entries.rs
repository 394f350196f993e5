//! The entries of the receiver's lists that a search from their start passes, for models of a processor's time.

use crate::open::Open;
use crate::receiver::inbound::Inbound;
use crate::receiver::reassembly::Fragment;
use anabranch_wire::sctp::Chunk;

impl Open {
    /// Number of entries before the data of a packet, for each chunk as if it were the only one.
    pub fn entries_before(&self, chunks: &[Chunk]) -> u64 {
        let of_chunk = |chunk: &Chunk| match chunk {
            Chunk::Data(data) => self.inbound.entries_before(&self.fragment(data)),
            Chunk::IData(data) => self.inbound.entries_before(&self.interleaved(data)),
            _ => 0,
        };
        chunks.iter().map(of_chunk).sum()
    }
}

impl Inbound {
    /// Number of received runs of TSNs before a fragment, and of waiting fragments and messages before it.
    fn entries_before(&self, piece: &Fragment) -> u64 {
        if piece.tsn <= self.cumulative() {
            return 0;
        }
        self.runs_before(piece.tsn) + self.waiting_before(piece)
    }
}
