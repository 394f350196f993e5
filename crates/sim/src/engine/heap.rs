//! The event queue: a 4-ary heap of 16-byte entries.
//!
//! Events are ordered by time and, at the same time, by the order in which they were scheduled, so that a run never
//! depends on how the heap happens to be arranged. Four children make one cache line, and a heap of depth ⌈log₄ n⌉ is
//! half as deep as a binary one. Cancelling is not supported: whoever owns a component knows when its next event is due
//! and ignores one that comes at another time.

use multipath::time::Time;

/// Bits of an entry's second word that name the component; the rest is the insertion number.
const COMPONENT_BITS: u32 = 24;

/// The most components a run can have.
pub const MAX_COMPONENTS: usize = 1 << COMPONENT_BITS;

/// Time, then insertion number with the component in the low bits: ordered as one 128-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: u64,
    order: u64,
}

impl Entry {
    #[inline]
    const fn key(self) -> u128 {
        ((self.time as u128) << 64) | self.order as u128
    }

    #[inline]
    const fn before(self, other: Self) -> bool {
        self.key() < other.key()
    }
}

/// A queue of (time, component) pairs, earliest first, ties in the order of insertion.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: Vec<Entry>,
    inserted: u64,
}

impl EventQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True without a pending event.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        self.heap
            .first()
            .map(|entry| (Time::from_nanos(entry.time), (entry.order & (MAX_COMPONENTS as u64 - 1)) as u32))
    }

    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, time: Time, component: u32) {
        let entry = self.entry(time, component);
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1);
    }

    /// Takes the earliest event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let top = self.peek()?;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sift_down(last);
        }
        Some(top)
    }

    /// Takes the earliest event out and schedules another one for the same component: one walk instead of two.
    #[inline]
    pub fn replace_top(&mut self, time: Time) {
        let Some((_, component)) = self.peek() else { return };
        let entry = self.entry(time, component);
        self.sift_down(entry);
    }

    #[inline]
    fn entry(&mut self, time: Time, component: u32) -> Entry {
        debug_assert!(
            (component as usize) < MAX_COMPONENTS,
            "component {component} does not fit into an entry"
        );
        self.inserted += 1;
        Entry { time: time.as_nanos(), order: (self.inserted << COMPONENT_BITS) | u64::from(component) }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize) {
        let Some(&entry) = self.heap.get(at) else { return };
        while at > 0 {
            let parent = (at - 1) / 4;
            if !entry.before(self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Puts `entry` where it belongs, starting from a hole at the root.
    #[inline]
    fn sift_down(&mut self, entry: Entry) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let (child, least) = if let Some(children) = heap.get(first..first + 4) {
                // A tournament of four without a data-dependent branch.
                let left = usize::from(children[1].before(children[0]));
                let right = 2 + usize::from(children[3].before(children[2]));
                let best = if children[right].before(children[left]) { right } else { left };
                (first + best, children[best])
            } else {
                let mut rest = heap.iter().copied().enumerate().skip(first);
                let Some(mut best) = rest.next() else { break };
                for candidate in rest {
                    if candidate.1.before(best.1) {
                        best = candidate;
                    }
                }
                best
            };
            if !least.before(entry) {
                break;
            }
            heap[at] = least;
            at = child;
        }
        heap[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ties_break_by_insertion() {
        let mut queue = EventQueue::new();
        for component in [7, 3, 9, 1, 4, 0] {
            queue.push(Time::from_nanos(5), component);
        }
        queue.push(Time::from_nanos(4), 8);
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop()).map(|(_, component)| component).collect();
        assert_eq!(order, [8, 7, 3, 9, 1, 4, 0]);
    }

    #[test]
    fn replacing_the_top_goes_behind_its_equals() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_nanos(1), 1);
        queue.push(Time::from_nanos(2), 2);
        queue.replace_top(Time::from_nanos(2));
        assert_eq!(queue.pop(), Some((Time::from_nanos(2), 2)));
        assert_eq!(queue.pop(), Some((Time::from_nanos(2), 1)));
        assert_eq!(queue.pop(), None);
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(steps in prop::collection::vec((0_u8..3, 0_u64..50, 0_u32..1000), 0..400)) {
            let mut queue = EventQueue::new();
            let mut model = BTreeSet::new();
            for (inserted, (action, time, component)) in steps.into_iter().enumerate() {
                match action {
                    0 => {
                        queue.push(Time::from_nanos(time), component);
                        model.insert((time, inserted, component));
                    }
                    1 => {
                        let expected = model.pop_first().map(|(t, _, c)| (Time::from_nanos(t), c));
                        prop_assert_eq!(queue.pop(), expected);
                    }
                    _ => {
                        queue.replace_top(Time::from_nanos(time));
                        if let Some((_, _, c)) = model.pop_first() {
                            model.insert((time, inserted, c));
                        }
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            while let Some((t, _, c)) = model.pop_first() {
                prop_assert_eq!(queue.pop(), Some((Time::from_nanos(t), c)));
            }
        }
    }
}
