//! A 4-ary heap of events.
//!
//! Four children fill a cache line, and a heap of depth ⌈log₄ n⌉ is half as deep as a binary one.

use super::entry::Entry;

/// Events in heap order, with the earliest at the root.
#[derive(Debug, Default)]
pub struct Heap {
    heap: Vec<Entry>,
}

impl Heap {
    /// Number of events.
    pub const fn len(&self) -> usize {
        self.heap.len()
    }

    /// The earliest event.
    #[inline]
    pub fn first(&self) -> Option<Entry> {
        self.heap.first().copied()
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1);
    }

    /// Removes and returns the earliest event.
    pub fn pop(&mut self) -> Option<Entry> {
        let first = self.first()?;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sift_down(last);
        }
        Some(first)
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

    /// Moves a hole from the root down to the place of `entry`.
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
