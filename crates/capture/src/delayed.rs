//! Acknowledgements on their way from the interface to the sender of the data.
//!
//! An interface far from the sender shows an acknowledgement before it reaches the sender, and data only after the
//! sender has sent it. When the sender sent a packet, it therefore knew only those acknowledgements that passed the
//! interface at least one round-trip time between interface and sender before the packet.

use std::collections::VecDeque;

/// Maximum number of kept acknowledgements; a further one makes the oldest count as received early.
const MAX_DELAYED: usize = 2_048;

/// An acknowledgement, with the time from which packets at the interface may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub at_ns: u64,
    /// The acknowledged number.
    pub number: u64,
    /// The number up to which the receiver accepts data; `None` if the window scale is unknown.
    pub edge: Option<u64>,
}

/// The acknowledgements in the order of their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delayed(VecDeque<Due>);

impl Delayed {
    /// Adds an acknowledgement.
    pub fn push(&mut self, due: Due) {
        let at = self.0.iter().rposition(|other| other.at_ns <= due.at_ns).map_or(0, |at| at + 1);
        self.0.insert(at, due);
    }

    /// Removes the next acknowledgement if it is due or if there are too many.
    pub fn pop(&mut self, now_ns: u64) -> Option<Due> {
        let is_due = self.0.front()?.at_ns <= now_ns || self.0.len() > MAX_DELAYED;
        if is_due { self.0.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_come_in_the_order_of_their_times() {
        let due = |at_ns, number| Due { at_ns, number, edge: None };
        let mut delayed = Delayed::default();
        for each in [due(30, 1), due(10, 2), due(20, 3), due(20, 4)] {
            delayed.push(each);
        }
        let found: Vec<u64> = std::iter::from_fn(|| delayed.pop(25)).map(|each| each.number).collect();
        assert_eq!((found, delayed.pop(29), delayed.pop(30)), (vec![2, 3, 4], None, Some(due(30, 1))));
    }

    #[test]
    fn number_of_acknowledgements_is_bounded() {
        let mut delayed = Delayed::default();
        for at in 0..10_000 {
            delayed.push(Due { at_ns: u64::MAX, number: at, edge: None });
            while delayed.pop(0).is_some() {}
        }
        assert_eq!(delayed.0.len(), MAX_DELAYED);
    }
}
