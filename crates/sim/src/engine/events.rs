//! The event queue: a calendar queue (R. Brown: Calendar queues: a fast O(1) priority queue implementation for the simulation
//! event set problem, Communications of the ACM 31(10), 1988).
//!
//! Events are ordered by time and, at equal times, by component. So a run depends neither on the queue's
//! internal state nor on the order in which events were scheduled. Events cannot be cancelled: the owner of a
//! component stores the time of its next event and ignores one that occurs at another time.
//!
//! Time is divided into intervals of equal width, each with a few events and a bucket; buckets are reused for
//! later intervals in a circle. Only the events of the *current* interval are sorted. The events of other
//! intervals with a bucket are unsorted, and later events are in an overflow heap. Each event takes a few
//! steps, independently of the number of events; in a heap of thousands it would take a chain of
//! unpredictable memory accesses. In a small queue all events are current.

use super::entry::Entry;
use super::heap::Heap;
use anabranch_base::time::Time;

/// Buckets of the calendar.
const BUCKET_COUNT: usize = 2048;

/// A queue with at most this number of events has only current events.
const MAX_EVENTS_ALL_CURRENT: usize = 32;

/// The current interval is split if it has more events than this.
const MAX_CURRENT_EVENTS: usize = 4 * MAX_EVENTS_ALL_CURRENT;

/// Minimum number of intervals between two updates of the width.
const MIN_INTERVALS_PER_RESIZE: u64 = 1024;

/// The end of a bucket.
const END_OF_BUCKET: u32 = u32::MAX;

/// An event in a bucket, and the index of the next one.
#[derive(Clone, Copy, Debug)]
struct Node {
    entry: Entry,
    next: u32,
}

/// A queue of (time, component) pairs; the smallest pair is first.
#[derive(Debug)]
pub struct EventQueue {
    /// Events of all intervals before `next_interval`, the latest first.
    current: Vec<Entry>,
    /// The first interval that is not current yet.
    next_interval: u64,
    /// Base-2 logarithm of an interval's width in nanoseconds.
    width_log2: u32,
    /// The first node of each bucket; the bucket of an interval is its remainder.
    buckets: Vec<u32>,
    /// One bit per bucket; set if the bucket is not empty.
    occupied: [u64; BUCKET_COUNT / 64],
    /// The nodes of all buckets, and free nodes.
    nodes: Vec<Node>,
    free: u32,
    /// Number of events in buckets.
    stored: usize,
    /// Events of intervals that have no bucket yet.
    overflow: Heap,
    statistics: Statistics,
}

/// Counts since the last update of the width.
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    /// Number of opened intervals; `events` is the number of events in their buckets.
    intervals: u64,
    events: u64,
    /// Number of events that were scheduled for an interval without a bucket.
    overflow: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            next_interval: 0,
            width_log2: 16,
            buckets: vec![END_OF_BUCKET; BUCKET_COUNT],
            occupied: [0; BUCKET_COUNT / 64],
            nodes: Vec::new(),
            free: END_OF_BUCKET,
            stored: 0,
            overflow: Heap::default(),
            statistics: Statistics::default(),
        }
    }
}

impl EventQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of pending events.
    pub const fn len(&self) -> usize {
        self.current.len() + self.stored + self.overflow.len()
    }

    /// True without a pending event.
    pub const fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        self.current.last().map(|entry| (Time::from_nanos(entry.time), entry.component))
    }

    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, time: Time, component: u32) {
        self.place(Entry { time: time.as_nanos(), component });
        if self.current.is_empty() {
            self.open_interval();
        }
    }

    /// Removes and returns the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let first = self.peek();
        self.current.pop();
        if self.current.is_empty() {
            self.open_interval();
        }
        first
    }

    /// Removes the earliest event and schedules another one for the same component.
    #[inline]
    pub fn replace_top(&mut self, time: Time) {
        if let Some(Entry { component, .. }) = self.current.pop() {
            self.push(time, component);
        }
    }

    /// Puts an event among the current events, into a bucket, or into the overflow heap.
    #[inline]
    fn place(&mut self, entry: Entry) {
        let interval = entry.time >> self.width_log2;
        let small =
            self.stored == 0 && self.overflow.len() == 0 && self.current.len() < MAX_EVENTS_ALL_CURRENT;
        if interval < self.next_interval || small {
            self.next_interval = self.next_interval.max(interval + 1);
            self.insert(entry);
        } else if interval - self.next_interval < BUCKET_COUNT as u64 {
            self.store(interval, entry);
        } else {
            self.statistics.overflow += 1;
            self.overflow.push(entry);
        }
    }

    /// Puts an event among the current ones.
    #[inline]
    fn insert(&mut self, entry: Entry) {
        let mut at = self.current.len();
        self.current.push(entry);
        while at > 0 && self.current[at - 1].before(entry) {
            self.current[at] = self.current[at - 1];
            at -= 1;
        }
        self.current[at] = entry;
        if self.current.len() > MAX_CURRENT_EVENTS {
            self.split_current();
        }
    }

    /// Puts an event into the bucket of its interval.
    #[inline]
    fn store(&mut self, interval: u64, entry: Entry) {
        let bucket = interval as usize % BUCKET_COUNT;
        let node = Node { entry, next: self.buckets[bucket] };
        let place = self.free;
        if let Some(free) = self.nodes.get_mut(place as usize) {
            self.free = free.next;
            *free = node;
            self.buckets[bucket] = place;
        } else {
            self.buckets[bucket] = self.nodes.len() as u32;
            self.nodes.push(node);
        }
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.stored += 1;
    }

    /// Makes the next interval with an event the current one.
    fn open_interval(&mut self) {
        while self.current.is_empty() && (self.stored > 0 || self.overflow.len() > 0) {
            let interval = match self.next_occupied() {
                Some(interval) => interval,
                None => {
                    self.overflow.first().map_or(self.next_interval, |first| first.time >> self.width_log2)
                }
            };
            self.next_interval = interval;
            // The overflow heap is emptied first: the interval may have had no bucket when its events were scheduled.
            self.empty_overflow();
            self.next_interval = interval + 1;
            self.dequeue_bucket(interval);
            self.current.sort_unstable_by_key(|entry| core::cmp::Reverse(entry.key()));
            self.statistics.intervals += 1;
            self.statistics.events += self.current.len() as u64;
        }
        // A change of the width copies all events, so it must be rare.
        if self.statistics.intervals >= MIN_INTERVALS_PER_RESIZE.max(self.len() as u64) {
            self.resize();
        }
    }

    /// The first later interval with a bucket that is not empty.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        let first = self.next_interval as usize % BUCKET_COUNT;
        let (word, bit) = (first / 64, first % 64);
        let words = self.occupied.len();
        let rest = self.occupied[word] & (u64::MAX << bit);
        let (steps, bits) = if rest != 0 {
            (0, rest)
        } else {
            // The last step examines the part of the first word before the start of the search.
            (1..=words)
                .map(|step| (step, self.occupied[(word + step) % words]))
                .find(|&(_, bits)| bits != 0)?
        };
        Some(self.next_interval - bit as u64 + 64 * steps as u64 + u64::from(bits.trailing_zeros()))
    }

    /// Moves the events of an interval from its bucket to the current ones. A bucket may also contain nodes
    /// of an interval one circle later.
    fn dequeue_bucket(&mut self, interval: u64) {
        let bucket = interval as usize % BUCKET_COUNT;
        let mut place = core::mem::replace(&mut self.buckets[bucket], END_OF_BUCKET);
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        while let Some(&Node { entry, next }) = self.nodes.get(place as usize) {
            self.nodes[place as usize].next = self.free;
            self.free = place;
            self.stored -= 1;
            place = next;
            if entry.time >> self.width_log2 == interval {
                self.current.push(entry);
            } else {
                self.store(entry.time >> self.width_log2, entry);
            }
        }
    }

    /// Moves events from the heap to buckets whose intervals they now belong to.
    #[inline]
    fn empty_overflow(&mut self) {
        while let Some(first) = self.overflow.first() {
            let interval = first.time >> self.width_log2;
            if interval - self.next_interval >= BUCKET_COUNT as u64 {
                break;
            }
            self.overflow.pop();
            self.store(interval, first);
        }
    }

    /// Ends the current interval after the earlier half of its events; the others go to the following
    /// intervals.
    #[cold]
    fn split_current(&mut self) {
        let middle = self.current[self.current.len() / 2].time >> self.width_log2;
        let keep = self.current.partition_point(|entry| entry.time >> self.width_log2 > middle);
        let rest: Vec<Entry> = self.current.drain(..keep).collect();
        if !rest.is_empty() {
            self.next_interval = middle + 1;
            for entry in rest {
                self.place(entry);
            }
        }
    }

    /// Changes the width so that an interval has a few events and nearly all events have a bucket.
    #[cold]
    fn resize(&mut self) {
        let Statistics { intervals, events, overflow } = core::mem::take(&mut self.statistics);
        let width = if events > 16 * intervals {
            self.width_log2.saturating_sub(1)
        } else if 8 * overflow > events {
            (self.width_log2 + 1).min(40)
        } else {
            return;
        };
        // The current interval ends where it ended before, or slightly later if that lies within a wider interval.
        let end = self.next_interval << self.width_log2;
        let mut all: Vec<Entry> = core::iter::from_fn(|| self.overflow.pop()).collect();
        for bucket in &mut self.buckets {
            let mut place = core::mem::replace(bucket, END_OF_BUCKET);
            while let Some(&Node { entry, next }) = self.nodes.get(place as usize) {
                all.push(entry);
                place = next;
            }
        }
        self.nodes.clear();
        (self.free, self.stored, self.occupied) = (END_OF_BUCKET, 0, [0; BUCKET_COUNT / 64]);
        self.width_log2 = width;
        self.next_interval = (end >> width) + u64::from(end.trailing_zeros() < width);
        for entry in all {
            self.place(entry);
        }
        self.statistics = Statistics::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ties_break_by_component() {
        let mut queue = EventQueue::new();
        for component in [7, 3, 9, 1, 4, 0] {
            queue.push(Time::from_nanos(5), component);
        }
        queue.push(Time::from_nanos(4), 8);
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop()).map(|(_, component)| component).collect();
        assert_eq!(order, [8, 0, 1, 3, 4, 7, 9]);
    }

    #[test]
    fn replaced_top_is_ordered_among_equal_times() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_nanos(1), 2);
        queue.push(Time::from_nanos(2), 1);
        queue.push(Time::from_nanos(2), 3);
        queue.replace_top(Time::from_nanos(2));
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop()).map(|(_, component)| component).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    /// Times close together and far apart.
    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..50, 0_u64..1_000_000, 0_u64..10_000_000_000, 0..1_u64 << 60]
    }

    /// Four thousand components, whose next event is usually about a millisecond later.
    #[test]
    fn large_queue_stays_in_order_while_width_adapts() {
        let mut queue = EventQueue::new();
        let mut model = BTreeSet::new();
        for component in 0..4000_u32 {
            let time = u64::from(component) * 250_000;
            queue.push(Time::from_nanos(time), component);
            model.insert((time, component, 0));
        }
        for inserted in 4000..400_000 {
            let (time, component, _) = model.pop_first().unwrap();
            assert_eq!(queue.peek(), Some((Time::from_nanos(time), component)));
            let next = time + 900_000 + inserted * 7919 % 200_000 + inserted % 50 / 49 * 200_000_000;
            queue.replace_top(Time::from_nanos(next));
            model.insert((next, component, inserted));
            assert!(
                queue.current.len() <= MAX_CURRENT_EVENTS + 1,
                "{} events per interval",
                queue.current.len()
            );
        }
        assert!(queue.width_log2 < 16, "intervals of 2^{} ns", queue.width_log2);
    }

    proptest! {
        #[test]
        fn queue_equals_an_ordered_set(steps in prop::collection::vec((0_u8..6, times(), 0_u32..1000), 0..4000)) {
            let mut queue = EventQueue::new();
            let mut model = BTreeSet::new();
            for (inserted, (action, time, component)) in steps.into_iter().enumerate() {
                match action {
                    0..=2 => {
                        queue.push(Time::from_nanos(time), component);
                        model.insert((time, component, inserted));
                    }
                    3 => {
                        let expected = model.pop_first().map(|(t, c, _)| (Time::from_nanos(t), c));
                        prop_assert_eq!(queue.pop(), expected);
                    }
                    _ => {
                        queue.replace_top(Time::from_nanos(time));
                        if let Some((_, c, _)) = model.pop_first() {
                            model.insert((time, c, inserted));
                        }
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            while let Some((t, c, _)) = model.pop_first() {
                prop_assert_eq!(queue.pop(), Some((Time::from_nanos(t), c)));
            }
        }
    }
}
