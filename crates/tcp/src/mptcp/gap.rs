//! The gap in the peer's data, and the subflow that carries the missing part.

use super::connection::{Connection, ConnectionPhase};
use anabranch_base::time::Time;

/// Limit of a subflow's mappings that are searched for the missing data. The missing data is in one of the oldest.
const MAX_SEARCHED: usize = 16;

impl Connection {
    /// Records, after an acknowledgement, whether the peer holds data behind a gap.
    #[inline]
    pub(super) fn note_gap(&mut self, now: Time) {
        // This end has sent no data, so none can be missing.
        if self.send.written == 0 {
            return;
        }
        let una = self.send.una;
        let is_behind = self.arrived_to > una || self.subflows.iter().any(|s| s.block.sacked_bytes() > 0);
        if is_behind || !self.gap.is_idle() {
            self.note_first_missing(now, is_behind);
        }
    }

    #[inline(never)]
    fn note_first_missing(&mut self, now: Time, is_behind: bool) {
        let una = self.send.una;
        let is_open = is_behind && !self.is_closed();
        let first = match self.phase {
            ConnectionPhase::Plain => is_open.then(|| self.subflows[0].block.acknowledged()),
            _ => is_open.then_some(una),
        };
        if !self.gap.is_at(first) {
            let carrier = first.and_then(|first| self.carrier(first));
            self.gap.note(now, first, |_| carrier);
        }
    }

    /// The subflow that carried a byte of the data first, among the subflows that have not acknowledged it.
    fn carrier(&self, data: u64) -> Option<usize> {
        if self.phase == ConnectionPhase::Plain {
            return Some(0);
        }
        let mut found = None;
        for (index, subflow) in self.subflows.iter().enumerate().filter(|(_, s)| !s.is_dead()) {
            let mut oldest = subflow.sent.iter().take(MAX_SEARCHED);
            let Some(mapping) = oldest.find(|mapping| mapping.holds(data)) else { continue };
            let sent_at = subflow.block.sent_at(mapping.position_of(data));
            if found.is_none_or(|(earliest, _)| sent_at < earliest) {
                found = Some((sent_at, index));
            }
        }
        found.map(|(_, index)| index)
    }
}
