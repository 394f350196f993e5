//! Data of one direction of a TCP connection or of a Multipath TCP connection, by unwrapped numbers.

use crate::ranges::Seen;
use crate::series::{Pieces, Series};
use crate::view::View;

/// Maximum distance of two 64-bit numbers that belong to the same data: the largest receive window.
pub(crate) const MAX_DISTANCE: u64 = 1 << 30;

/// State and counts of the data of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    pub view: View,
    pub delivered: Series,
    pub pieces: Pieces,
    pub has_fin: bool,
    /// Times of the first and the last data.
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    pub seen: Option<Seen>,
    pub acked: Option<u64>,
}

impl Data {
    /// Number of different bytes that the capture contains.
    pub fn distinct(&self) -> u64 {
        self.seen.as_ref().map_or(0, Seen::count)
    }

    /// Number of bytes that were acknowledged or skipped but that the capture does not contain.
    pub fn unseen(&self) -> u64 {
        self.seen.as_ref().zip(self.acked).map_or(0, |(seen, acked)| seen.missing_below(acked))
    }

    /// Bytes acknowledged since the first number; `None` if no acknowledgement was seen.
    pub fn acknowledged(&self) -> Option<u64> {
        let start = self.seen.as_ref()?.start();
        self.acked.map(|acked| acked.saturating_sub(start))
    }

    /// The first number that was seen.
    pub fn start(&self) -> Option<u64> {
        self.seen.as_ref().map(Seen::start)
    }

    /// A number near to which the next numbers of this direction are expected.
    pub fn reference(&self) -> Option<u64> {
        self.seen.as_ref().map(Seen::end).or(self.acked)
    }

    /// Processes an acknowledgement; returns the acknowledged number before it and after it. `may_skip` is true if
    /// the acknowledgement may cover data that the capture does not contain.
    pub fn acknowledge(&mut self, now_ns: u64, number: u64, may_skip: bool) -> (u64, u64) {
        let seen = self.seen.get_or_insert_with(|| Seen::new(number));
        // A jump of more than the largest receive window shows a damaged packet, not an acknowledgement of data
        // missing in the capture.
        if may_skip && number > seen.end() && number - seen.end() < MAX_DISTANCE {
            seen.skip_to(number);
        }
        let number = number.min(seen.end());
        let before = *self.acked.get_or_insert(number.min(seen.start()));
        if number > before {
            self.delivered.add(now_ns, number - before);
            self.acked = Some(number);
        }
        (before, number)
    }
}
