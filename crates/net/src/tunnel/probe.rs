//! Search for the longest message that arrives unfragmented.

use super::message::STATUS_BYTES;

/// Interval between two probes of the same length, nanoseconds.
const INTERVAL_NS: u64 = 100_000_000;

/// Number of probes of a length without an answer, after which it counts as too long.
const MAX_TRIES: u32 = 8;

/// Finds out whether messages of a length arrive, and if they do not, the longest that do.
///
/// Status messages have arrived before the search begins. Answers alone decide, so a network that drops long packets
/// without an error is measured like one that reports them.
#[derive(Debug)]
pub(super) struct Search {
    needed: u16,
    /// A length that arrives, and one that does not.
    arrives: u16,
    fails: u32,
    tries: u32,
    due_ns: u64,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The search continues.
    Nothing,
    /// Messages of the needed length arrive.
    Enough,
    /// The longest message that arrives, below the needed length.
    TooShort(u16),
}

impl Search {
    pub const fn new(needed: u16) -> Self {
        Self { needed, arrives: STATUS_BYTES as u16, fails: needed as u32 + 1, tries: 0, due_ns: 0 }
    }

    /// The length of a probe that is due.
    pub fn due(&mut self, now_ns: u64) -> Option<u16> {
        if self.found() != Found::Nothing || now_ns < self.due_ns {
            return None;
        }
        if self.tries == MAX_TRIES {
            self.too_long();
            if self.found() != Found::Nothing {
                return None;
            }
        }
        self.tries += 1;
        self.due_ns = now_ns + INTERVAL_NS;
        Some(self.length())
    }

    /// The present length does not arrive: the system refuses to send it, or no answer has come.
    pub fn too_long(&mut self) {
        self.fails = self.length().into();
        self.tries = 0;
        self.due_ns = 0;
    }

    /// A probe of this length has arrived.
    pub fn answered(&mut self, length: u16) {
        // An answer may be late: it then shows that a length arrives which had been given up.
        if length > self.arrives && length <= self.needed {
            self.arrives = length;
            self.fails = self.fails.max(u32::from(length) + 1);
            self.tries = 0;
            self.due_ns = 0;
        }
    }

    pub fn found(&self) -> Found {
        if self.arrives >= self.needed {
            Found::Enough
        } else if u32::from(self.arrives) + 1 >= self.fails {
            Found::TooShort(self.arrives)
        } else {
            Found::Nothing
        }
    }

    /// The length of the next probe: first the needed length, then the middle of the remaining range.
    fn length(&self) -> u16 {
        if self.fails > self.needed.into() {
            self.needed
        } else {
            u32::midpoint(self.arrives.into(), self.fails) as u16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches in a network that carries messages of a length, and loses others by an error or silently; the probes of
    /// some numbers are lost as well. Returns the result and the number of probes.
    fn search(needed: u16, carried: u16, (refuses, lost): (bool, &[usize])) -> (Found, usize) {
        let mut search = Search::new(needed);
        let (mut now_ns, mut probes) = (0, 0);
        while search.found() == Found::Nothing {
            let Some(length) = search.due(now_ns) else {
                now_ns += INTERVAL_NS;
                continue;
            };
            probes += 1;
            if length > carried && refuses {
                search.too_long();
            } else if length <= carried && !lost.contains(&probes) {
                search.answered(length);
            }
        }
        (search.found(), probes)
    }

    #[test]
    fn needed_length_is_found_by_one_probe() {
        assert_eq!(search(1500, 1500, (false, &[])), (Found::Enough, 1));
        assert_eq!(search(1500, 65_535, (true, &[])), (Found::Enough, 1));
        assert_eq!(search(1500, 1500, (false, &[1, 2, 3])), (Found::Enough, 4), "lost probes are repeated");
    }

    #[test]
    fn longest_length_is_found_exactly() {
        for carried in [STATUS_BYTES as u16, 112, 575, 1000, 1498, 1499] {
            let (found, probes) = search(1500, carried, (true, &[]));
            assert_eq!(found, Found::TooShort(carried));
            assert!(probes <= 13, "{probes}");
            let (found, probes) = search(1500, carried, (false, &[3, 9]));
            assert_eq!(found, Found::TooShort(carried), "without errors");
            assert!(probes <= 13 * MAX_TRIES as usize, "{probes}");
        }
        assert_eq!(search(65_535, 1472, (true, &[])).0, Found::TooShort(1472));
    }

    #[test]
    fn answers_of_other_lengths_are_ignored() {
        let mut search = Search::new(1500);
        search.answered(1501);
        search.answered(0);
        assert_eq!((search.found(), search.due(0)), (Found::Nothing, Some(1500)));
        search.too_long();
        // The late answer to the first probe.
        search.answered(1500);
        assert_eq!(search.found(), Found::Enough);
    }
}
