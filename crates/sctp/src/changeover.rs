//! The primary path changes while data is on its way (SFR-CACC: Iyengar et al., Making SCTP more robust to changeover, 2003,
//! draft-iyengar-sctp-cacc).
//!
//! What goes out on the new path overtakes what is still on its way on a slower one, and acknowledgements of it would count
//! that as missing, path after path of spurious retransmissions. So until all that left before the change is acknowledged,
//! missing reports count path by path, as with concurrent transfer: an acknowledgement says nothing of a path of which it
//! acknowledges nothing new.

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
