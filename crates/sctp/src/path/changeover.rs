//! Change of the primary path while data is in flight (SFR-CACC: Iyengar et al., Making SCTP more robust to
//! changeover, 2003, draft-iyengar-sctp-cacc).
//!
//! Data on the new path overtakes data in flight on a slower one. Acknowledgements of the new data would add missing
//! reports to the old data, and cause spurious retransmissions on each path. Therefore missing reports are counted
//! per path until all data sent before the change is acknowledged, as with concurrent multipath transfer: a SACK adds
//! missing reports only to paths of which it newly acknowledges data.

use anabranch_multipath::PathId;

/// Current path of new data, and the TSN at the last change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changeover {
    carrier: Option<u8>,
    /// First TSN sent after the last change (`next_tsn_at_change`).
    until: u64,
}

impl Changeover {
    /// Records that new data, from TSN `next` on, will be sent on this path.
    pub fn note_carrier(&mut self, path: PathId, next: u64) {
        let before = self.carrier.replace(path.0);
        if before.is_some_and(|before| before != path.0) {
            self.until = next;
        }
    }

    /// True while a chunk sent before the last change is unacknowledged; `base` is the lowest unacknowledged TSN
    /// (`CHANGEOVER_ACTIVE`).
    pub const fn is_active(&self, base: u64) -> bool {
        base < self.until
    }
}
