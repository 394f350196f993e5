//! One direction of the data of a Multipath TCP connection, over all subflows.

use crate::data::{Data, MAX_DISTANCE};
use crate::ranges::{Added, Seen};
use anabranch_wire::tcp::mptcp::{DataNumber, Key};

/// Maximum distance of two 32-bit numbers that belong to the same data. Unrelated numbers are that near to each other
/// with a probability of 3.1 %.
const MAX_SHORT_DISTANCE: u32 = 1 << 26;
/// Number at which the unwrapping begins for numbers of which only the low 32 bits are known.
const UNWRAP_BASE: u64 = 1 << 32;

/// State and counts of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub key: Option<Key>,
    pub reinjected: u64,
    pub data: Data,
    /// True if all 64 bits of the numbers are known.
    is_exact: bool,
}

impl Stream {
    /// The first number of the data: the one derived from the key, or the lowest one in the capture.
    pub fn start(&self) -> Option<u64> {
        match self.key {
            Some(key) => Some(key.idsn.wrapping_add(1)),
            None => self.data.start(),
        }
    }

    /// True if no number of this direction is known.
    pub fn is_blank(&self) -> bool {
        self.data.seen.is_none() && self.data.acked.is_none()
    }

    /// A number near to which the next numbers of this direction are expected.
    fn reference(&self) -> Option<u64> {
        self.data.reference().or_else(|| self.key.map(|key| key.idsn.wrapping_add(1)))
    }

    /// True if a number very probably belongs to this direction.
    pub fn is_near(&self, number: DataNumber) -> bool {
        let Some(reference) = self.reference() else { return false };
        match number {
            DataNumber::Long(number) if self.is_exact || self.key.is_some() => {
                reference.abs_diff(number) < MAX_DISTANCE
            }
            DataNumber::Long(number) => is_near_short(reference as u32, number as u32),
            DataNumber::Short(number) => is_near_short(reference as u32, number),
        }
    }

    /// True if a number has 64 bits and all 64 bits of this direction's numbers are known.
    pub fn is_exact(&self, number: DataNumber) -> bool {
        matches!(number, DataNumber::Long(_)) && (self.is_exact || self.key.is_some())
    }

    /// The 64-bit number that corresponds to a number on the wire.
    pub fn unwrap(&mut self, number: DataNumber) -> u64 {
        match (number, self.reference()) {
            // If the first numbers had 32 bits, later ones keep the upper bits that were assumed for them.
            (DataNumber::Long(long), Some(reference)) if !self.is_exact && self.key.is_none() => {
                DataNumber::Short(long as u32).unwrap_near(reference)
            }
            (DataNumber::Long(long), _) => {
                self.is_exact = true;
                long
            }
            (short, Some(reference)) => short.unwrap_near(reference),
            (DataNumber::Short(short), None) => UNWRAP_BASE | u64::from(short),
        }
    }

    /// Processes data that a subflow sends for the first time.
    pub fn on_data(&mut self, now_ns: u64, (from, to): (u64, u64)) -> Added {
        let Some(to) = (to > from).then_some(to) else { return Added::default() };
        let data = &mut self.data;
        let seen = data.seen.get_or_insert_with(|| Seen::new(from));
        // A number far from all others shows a damaged or forged packet. If it counted, everything in between would
        // be a gap.
        if from.abs_diff(seen.end()) > 4 * MAX_DISTANCE {
            return Added::default();
        }
        let added = seen.add((from, to), now_ns, 0);
        self.reinjected += added.repeated;
        data.view.on_data(now_ns, (seen.start(), seen.end()), ((to - from) as u32, false));
        data.first_ns.get_or_insert(now_ns);
        data.last_ns = now_ns;
        added
    }

    /// Processes an acknowledgement of this direction's data, which reaches the sender `delay_ns` later. `window` is
    /// the receive window of the segment, if its scale is known.
    pub fn on_ack(&mut self, now_ns: u64, (number, window): (DataNumber, Option<u64>), delay_ns: u64) {
        let number = self.unwrap(number);
        let may_skip = !self.data.has_fin;
        let (_, number) = self.data.acknowledge(now_ns, number, may_skip);
        self.data.view.on_ack(now_ns, (number, window), delay_ns);
    }
}

fn is_near_short(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).min(other.wrapping_sub(one)) < MAX_SHORT_DISTANCE
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
        assert_eq!(
            (stream.data.distinct(), stream.reinjected, stream.data.acknowledged()),
            (200, 100, Some(150))
        );
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
    fn distant_number_changes_nothing() {
        let mut stream = Stream::default();
        stream.on_data(0, (100, 200));
        assert_eq!(stream.on_data(1, (1 << 60, (1 << 60) + 9)), Added::default());
        assert_eq!((stream.data.distinct(), stream.data.unseen()), (100, 0));
    }
}
