//! One direction of the data of a Multipath TCP connection, over all its subflows.

use crate::ranges::{Added, Seen};
use crate::series::{Point, Points, Series};
use crate::view::View;
use anabranch_wire::tcp::mptcp::{DataNumber, Key};

/// Distance up to which two data sequence numbers of 64 bits belong to the same data.
const NEAR: u64 = 1 << 30;
/// The same for numbers of 32 bits, which are near each other by chance with a probability of 1.6 %.
const NEAR_SHORT: u32 = 1 << 26;
/// Numbers of which only the low 32 bits are known are unwrapped from here on.
const BASE: u64 = 1 << 32;

/// State and counts of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub key: Option<Key>,
    pub reinjected: u64,
    pub view: View,
    pub delivered: Series,
    pub sent: Points,
    pub repeated: Points,
    pub has_fin: bool,
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    seen: Option<Seen>,
    acked: Option<u64>,
    /// Whether all 64 bits of the numbers are known.
    is_exact: bool,
}

impl Stream {
    /// Bytes that were seen, each once.
    pub fn distinct(&self) -> u64 {
        self.seen.as_ref().map_or(0, Seen::count)
    }

    /// Bytes that were acknowledged or skipped, but never seen.
    pub fn unseen(&self) -> u64 {
        self.seen.as_ref().zip(self.acked).map_or(0, |(seen, acked)| seen.missing_below(acked))
    }

    /// Bytes acknowledged since the first one.
    pub fn acknowledged(&self) -> Option<u64> {
        let start = self.seen.as_ref()?.start();
        self.acked.map(|acked| acked.saturating_sub(start))
    }

    /// The first number of the data: that of the key, or the lowest one seen.
    pub fn start(&self) -> Option<u64> {
        match self.key {
            Some(key) => Some(key.idsn.wrapping_add(1)),
            None => self.seen.as_ref().map(Seen::start),
        }
    }

    /// True if nothing is known of its numbers.
    pub fn is_blank(&self) -> bool {
        self.seen.is_none() && self.acked.is_none()
    }

    /// A number that others of this direction are near to.
    fn reference(&self) -> Option<u64> {
        self.seen
            .as_ref()
            .map(Seen::end)
            .or(self.acked)
            .or_else(|| self.key.map(|key| key.idsn.wrapping_add(1)))
    }

    /// Whether a number belongs to this direction with all probability.
    pub fn is_near(&self, number: DataNumber) -> bool {
        let Some(reference) = self.reference() else { return false };
        match number {
            DataNumber::Long(number) if self.is_exact || self.key.is_some() => {
                reference.abs_diff(number) < NEAR
            }
            DataNumber::Long(number) => is_near_short(reference as u32, number as u32),
            DataNumber::Short(number) => is_near_short(reference as u32, number),
        }
    }

    /// Whether a number has all 64 bits, and those of this direction are known.
    pub fn is_exact(&self, number: DataNumber) -> bool {
        matches!(number, DataNumber::Long(_)) && (self.is_exact || self.key.is_some())
    }

    /// The 64-bit number of one on the wire.
    pub fn unwrap(&mut self, number: DataNumber) -> u64 {
        match (number, self.reference()) {
            // Numbers of a short beginning keep their upper bits.
            (DataNumber::Long(long), Some(reference)) if !self.is_exact && self.key.is_none() => {
                DataNumber::Short(long as u32).unwrap_near(reference)
            }
            (DataNumber::Long(long), _) => {
                self.is_exact = true;
                long
            }
            (short, Some(reference)) => short.unwrap_near(reference),
            (DataNumber::Short(short), None) => BASE | u64::from(short),
        }
    }

    /// Data sent on a subflow for the first time there.
    pub fn on_data(&mut self, now_ns: u64, (from, to): (u64, u64)) -> Added {
        let Some(to) = (to > from).then_some(to) else { return Added::default() };
        let seen = self.seen.get_or_insert_with(|| Seen::new(from));
        // Numbers far from all others are damage or forgery, and would make everything between them a gap.
        if from.abs_diff(seen.end()) > 4 * NEAR {
            return Added::default();
        }
        let added = seen.add((from, to), now_ns, 0);
        self.reinjected += added.repeated;
        self.view.on_data(now_ns, (seen.start(), seen.end()), ((to - from) as u32, false));
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        added
    }

    /// Records a piece of data for figures.
    pub fn record(&mut self, point: Point, is_repeated: bool, budget: &mut usize) {
        let list = if is_repeated { &mut self.repeated } else { &mut self.sent };
        list.add(point, budget);
    }

    /// An acknowledgement of this direction's data, which the sender gets `delay_ns` later. `window` is that of the
    /// segment, if its scale is known.
    pub fn on_ack(&mut self, now_ns: u64, (number, window): (DataNumber, Option<u64>), delay_ns: u64) {
        let number = self.unwrap(number);
        let seen = self.seen.get_or_insert_with(|| Seen::new(number));
        if number > seen.end() && number - seen.end() < NEAR && !self.has_fin {
            seen.skip_to(number);
        }
        let number = number.min(seen.end());
        let before = *self.acked.get_or_insert(number.min(seen.start()));
        if number > before {
            self.delivered.add(now_ns, number - before);
            self.acked = Some(number);
        }
        self.view.on_ack(now_ns, (number, window), delay_ns);
    }
}

fn is_near_short(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).min(other.wrapping_sub(one)) < NEAR_SHORT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_on_a_second_path_is_reinjected() {
        let mut stream = Stream::default();
        stream.on_data(1, (100, 200));
        stream.on_data(2, (200, 300));
        assert_eq!(stream.on_data(3, (150, 250)).repeated, 100);
        stream.on_ack(4, (DataNumber::Long(250), None), 0);
        assert_eq!((stream.distinct(), stream.reinjected, stream.acknowledged()), (200, 100, Some(150)));
    }

    #[test]
    fn short_numbers_wrap() {
        let mut stream = Stream::default();
        let first = stream.unwrap(DataNumber::Short(u32::MAX - 10));
        stream.on_data(0, (first, first + 11));
        let second = stream.unwrap(DataNumber::Short(0));
        assert_eq!(second, first + 11);
        assert!(stream.is_near(DataNumber::Short(5)) && !stream.is_near(DataNumber::Short(1 << 31)));
    }

    #[test]
    fn number_far_away_changes_nothing() {
        let mut stream = Stream::default();
        stream.on_data(0, (100, 200));
        assert_eq!(stream.on_data(1, (1 << 60, (1 << 60) + 9)), Added::default());
        assert_eq!((stream.distinct(), stream.unseen()), (100, 0));
    }
}
