//! Data of one direction, by its unwrapped numbers: those of a TCP connection, or of a Multipath TCP connection.

use crate::ranges::Seen;
use crate::series::{Pieces, Series};
use crate::view::View;

/// Distance up to which two numbers of 64 bits belong to the same data. It is the largest receive window.
pub(crate) const NEAR: u64 = 1 << 30;

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
    /// Bytes that were seen, each once.
    pub fn distinct(&self) -> u64 {
        self.seen.as_ref().map_or(0, Seen::count)
    }

    /// Bytes that were acknowledged or skipped, but never seen.
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

    /// A number that others of this direction are near to.
    pub fn reference(&self) -> Option<u64> {
        self.seen.as_ref().map(Seen::end).or(self.acked)
    }

    /// Takes an acknowledgement, and returns the acknowledged number before it and after it. `may_skip` is true if it may
    /// acknowledge data that was not seen.
    pub fn acknowledge(&mut self, now_ns: u64, number: u64, may_skip: bool) -> (u64, u64) {
        let seen = self.seen.get_or_insert_with(|| Seen::new(number));
        // A jump of more than a window's largest size is no acknowledgement of unseen data, but damage.
        if may_skip && number > seen.end() && number - seen.end() < NEAR {
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
