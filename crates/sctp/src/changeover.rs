//! The primary path changes while data is on its way (SFR-CACC: Iyengar et al., Making SCTP more robust to changeover, 2003,
//! draft-iyengar-sctp-cacc).
//!
//! Data sent on the new path overtakes data still in flight on a slower one. Acknowledgements of the new data
//! would count the old data as missing, and cause spurious retransmissions on path after path. So until all
//! data sent before the change is acknowledged, missing reports count per path, as with concurrent transfer:
//! an acknowledgement adds missing reports only to paths of which it newly acknowledges data.

use anabranch_multipath::PathId;

/// Which path carries new data, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changeover {
    carrier: Option<u8>,
    /// Chunks below left before the last change (`next_tsn_at_change`).
    until: u64,
}

impl Changeover {
    /// New data, from TSN `next` on, is about to leave on a path.
    pub fn note_carrier(&mut self, path: PathId, next: u64) {
        let before = self.carrier.replace(path.0);
        if before.is_some_and(|before| before != path.0) {
            self.until = next;
        }
    }

    /// Something that left before a change of the path is not acknowledged, as far as all below `base` is (`CHANGEOVER_ACTIVE`).
    pub const fn is_active(&self, base: u64) -> bool {
        base < self.until
    }
}
