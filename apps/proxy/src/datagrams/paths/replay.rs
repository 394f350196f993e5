//! Window of received numbers: each number is accepted once (as in RFC 4303 §3.4.3).

/// A number is still accepted if it is less than this below the highest one received. At 100 Mbit/s, packets on a slow
/// path may thus arrive more than a second after later ones on a fast path.
const WINDOW: u64 = 16_384;
const WORDS: usize = (WINDOW / 64) as usize;

/// Received numbers. The first number is 1.
#[derive(Clone, Debug)]
pub struct Replay {
    highest: u64,
    /// Bits of the numbers from `highest - WINDOW + 1` to `highest`, each at its number modulo the window.
    seen: Vec<u64>,
}

impl Replay {
    /// Creates a window in which no number has been received.
    pub fn new() -> Self {
        Self { highest: 0, seen: vec![0; WORDS] }
    }

    /// Records a number as received. Returns false if it was received before or is below the window.
    pub fn accept(&mut self, number: u64) -> bool {
        if number == 0 || number.saturating_add(WINDOW) <= self.highest {
            return false;
        }
        if number > self.highest {
            if number - self.highest >= WINDOW {
                self.seen.fill(0);
            } else {
                for skipped in self.highest + 1..number {
                    self.set(skipped, false);
                }
            }
            self.highest = number;
            self.set(number, true);
            return true;
        }
        let (word, bit) = Self::place(number);
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new
    }

    fn set(&mut self, number: u64, value: bool) {
        let (word, bit) = Self::place(number);
        if value {
            self.seen[word] |= bit;
        } else {
            self.seen[word] &= !bit;
        }
    }

    const fn place(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn number_is_accepted_once() {
        let mut window = Replay::new();
        let steps = [(1, true), (1, false), (3, true), (2, true), (2, false), (0, false)];
        for (number, expected) in steps {
            assert_eq!(window.accept(number), expected, "{number}");
        }
        assert!(window.accept(WINDOW + 3));
        assert!(!window.accept(3) && window.accept(4) && !window.accept(4));
        assert!(window.accept(u64::MAX) && !window.accept(u64::MAX) && !window.accept(9 * WINDOW));
    }

    proptest! {
        /// The window equals a set of all received numbers.
        #[test]
        fn window_equals_set(steps in prop::collection::vec((0..40_000_u64, 0..3_u64), 1..300)) {
            let (mut window, mut seen, mut base) = (Replay::new(), BTreeSet::new(), 0);
            for (offset, jump) in steps {
                base += jump * WINDOW / 5;
                let number = base + offset % 20_000;
                let highest = seen.last().copied().unwrap_or(0);
                let is_new = number > 0 && number + WINDOW > highest && seen.insert(number);
                prop_assert_eq!(window.accept(number), is_new, "{}", number);
            }
        }
    }
}
