//! The event queue: a calendar.
//!
//! Events are ordered by time and, at one moment, by component. So a run depends neither on how the queue happens to be
//! arranged nor on the order in which events were scheduled. Cancelling is not supported: whoever owns a component knows
//! when its next event is due and ignores one that comes at another time.
//!
//! Time is cut into days of equal length, a few events long. Only the events of *today* are sorted. Those of the days
//! that the calendar has pages for lie on these pages in no order, and what is due still later waits in a heap. An event
//! then costs a few steps however many there are; in a heap of thousands it costs a walk that the processor cannot
//! foresee. A small queue is all today.

use super::entry::Entry;
use super::heap::Heap;
use multipath::time::Time;

/// Pages of the calendar.
const PAGES: usize = 2048;

/// While there are no more events than this, all are today's.
const SMALL: usize = 32;

/// Today is cut short when it has more events than this.
const LARGE: usize = 4 * SMALL;

/// Days begun, at least, between two looks at their length.
const REVIEW: u64 = 1024;

/// The end of a page.
const NOTHING: u32 = u32::MAX;

/// An event on a page, and where the next one is.
#[derive(Clone, Copy, Debug)]
struct Note {
    entry: Entry,
    next: u32,
}

/// A queue of (time, component) pairs, the least first.
#[derive(Debug)]
pub struct EventQueue {
    /// All events of the days before `tomorrow`, latest first.
    today: Vec<Entry>,
    /// The first day that is not today.
    tomorrow: u64,
    /// Length of a day: its logarithm to base two, in nanoseconds.
    length: u32,
    /// The first note of each page; a day's page is its remainder.
    pages: Vec<u32>,
    /// One bit a page: it has a note.
    written: [u64; PAGES / 64],
    /// The notes of all pages, and those that are free.
    notes: Vec<Note>,
    free: u32,
    /// How many notes are on pages.
    noted: usize,
    /// Events of days that have no page yet.
    later: Heap,
    review: Review,
}

/// What was seen since the last look at the length of a day.
#[derive(Clone, Copy, Debug, Default)]
struct Review {
    /// Days that began, and the events on their pages.
    days: u64,
    events: u64,
    /// Events that were scheduled for a day without a page.
    later: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            today: Vec::new(),
            tomorrow: 0,
            length: 16,
            pages: vec![NOTHING; PAGES],
            written: [0; PAGES / 64],
            notes: Vec::new(),
            free: NOTHING,
            noted: 0,
            later: Heap::default(),
            review: Review::default(),
        }
    }
}

impl EventQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events are pending.
    pub const fn len(&self) -> usize {
        self.today.len() + self.noted + self.later.len()
    }

    /// True without a pending event.
    pub const fn is_empty(&self) -> bool {
        self.today.is_empty()
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        self.today.last().map(|entry| (Time::from_nanos(entry.time), entry.component))
    }

    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, time: Time, component: u32) {
        self.place(Entry { time: time.as_nanos(), component });
        if self.today.is_empty() {
            self.begin_day();
        }
    }

    /// Takes the earliest event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let first = self.peek();
        self.today.pop();
        if self.today.is_empty() {
            self.begin_day();
        }
        first
    }

    /// Takes the earliest event out and schedules another one for the same component.
    #[inline]
    pub fn replace_top(&mut self, time: Time) {
        if let Some(Entry { component, .. }) = self.today.pop() {
            self.push(time, component);
        }
    }

    /// Puts an event where it belongs.
    #[inline]
    fn place(&mut self, entry: Entry) {
        let day = entry.time >> self.length;
        let small = self.noted == 0 && self.later.len() == 0 && self.today.len() < SMALL;
        if day < self.tomorrow || small {
            self.tomorrow = self.tomorrow.max(day + 1);
            self.insert(entry);
        } else if day - self.tomorrow < PAGES as u64 {
            self.note(day, entry);
        } else {
            self.review.later += 1;
            self.later.push(entry);
        }
    }

    /// Puts an event among today's.
    #[inline]
    fn insert(&mut self, entry: Entry) {
        let mut at = self.today.len();
        self.today.push(entry);
        while at > 0 && self.today[at - 1].before(entry) {
            self.today[at] = self.today[at - 1];
            at -= 1;
        }
        self.today[at] = entry;
        if self.today.len() > LARGE {
            self.cut_short();
        }
    }

    /// Puts an event on its day's page.
    #[inline]
    fn note(&mut self, day: u64, entry: Entry) {
        let page = day as usize % PAGES;
        let note = Note { entry, next: self.pages[page] };
        let place = self.free;
        if let Some(free) = self.notes.get_mut(place as usize) {
            self.free = free.next;
            *free = note;
            self.pages[page] = place;
        } else {
            self.pages[page] = self.notes.len() as u32;
            self.notes.push(note);
        }
        self.written[page / 64] |= 1 << (page % 64);
        self.noted += 1;
    }

    /// Makes the next day that has an event today, if there is one.
    fn begin_day(&mut self) {
        while self.today.is_empty() && (self.noted > 0 || self.later.len() > 0) {
            let day = match self.next_written() {
                Some(day) => day,
                None => self.later.first().map_or(self.tomorrow, |first| first.time >> self.length),
            };
            self.tomorrow = day;
            // Before the day itself begins: it may be one that had no page.
            self.write_pages();
            self.tomorrow = day + 1;
            self.tear_off(day);
            self.today.sort_unstable_by_key(|entry| core::cmp::Reverse(entry.key()));
            self.review.days += 1;
            self.review.events += self.today.len() as u64;
        }
        // Copying all events must not become a habit.
        if self.review.days >= REVIEW.max(self.len() as u64) {
            self.reconsider();
        }
    }

    /// The first day from tomorrow on whose page has a note.
    #[inline]
    fn next_written(&self) -> Option<u64> {
        let first = self.tomorrow as usize % PAGES;
        let (word, bit) = (first / 64, first % 64);
        let words = self.written.len();
        let rest = self.written[word] & (u64::MAX << bit);
        let (steps, bits) = if rest != 0 {
            (0, rest)
        } else {
            // The last step looks at the part of the first word that lies before its beginning.
            (1..=words)
                .map(|step| (step, self.written[(word + step) % words]))
                .find(|&(_, bits)| bits != 0)?
        };
        Some(self.tomorrow - bit as u64 + 64 * steps as u64 + u64::from(bits.trailing_zeros()))
    }

    /// Moves the events of a page's day among today's. A page may also have notes of a day one round later.
    fn tear_off(&mut self, day: u64) {
        let page = day as usize % PAGES;
        let mut place = core::mem::replace(&mut self.pages[page], NOTHING);
        self.written[page / 64] &= !(1 << (page % 64));
        while let Some(&Note { entry, next }) = self.notes.get(place as usize) {
            self.notes[place as usize].next = self.free;
            self.free = place;
            self.noted -= 1;
            place = next;
            if entry.time >> self.length == day {
                self.today.push(entry);
            } else {
                self.note(entry.time >> self.length, entry);
            }
        }
    }

    /// Moves events from the heap to the pages that have come to their days.
    #[inline]
    fn write_pages(&mut self) {
        while let Some(first) = self.later.first() {
            let day = first.time >> self.length;
            if day - self.tomorrow >= PAGES as u64 {
                break;
            }
            self.later.pop();
            self.note(day, first);
        }
    }

    /// Ends today after the earlier half of its events; the others are for the days to come.
    #[cold]
    fn cut_short(&mut self) {
        let middle = self.today[self.today.len() / 2].time >> self.length;
        let keep = self.today.partition_point(|entry| entry.time >> self.length > middle);
        let rest: Vec<Entry> = self.today.drain(..keep).collect();
        if !rest.is_empty() {
            self.tomorrow = middle + 1;
            for entry in rest {
                self.place(entry);
            }
        }
    }

    /// Makes days shorter or longer, so that one has a few events and nearly all of them a page.
    #[cold]
    fn reconsider(&mut self) {
        let Review { days, events, later } = core::mem::take(&mut self.review);
        let length = if events > 16 * days {
            self.length.saturating_sub(1)
        } else if 8 * later > events {
            (self.length + 1).min(40)
        } else {
            return;
        };
        // Today ends where it ended, or a little later if that is within a longer day.
        let end = self.tomorrow << self.length;
        let mut all: Vec<Entry> = core::iter::from_fn(|| self.later.pop()).collect();
        for page in &mut self.pages {
            let mut place = core::mem::replace(page, NOTHING);
            while let Some(&Note { entry, next }) = self.notes.get(place as usize) {
                all.push(entry);
                place = next;
            }
        }
        self.notes.clear();
        (self.free, self.noted, self.written) = (NOTHING, 0, [0; PAGES / 64]);
        self.length = length;
        self.tomorrow = (end >> length) + u64::from(end.trailing_zeros() < length);
        for entry in all {
            self.place(entry);
        }
        self.review = Review::default();
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
    fn replacing_the_top_puts_it_among_its_equals() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_nanos(1), 2);
        queue.push(Time::from_nanos(2), 1);
        queue.push(Time::from_nanos(2), 3);
        queue.replace_top(Time::from_nanos(2));
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop()).map(|(_, component)| component).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    /// Moments close together and far apart.
    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..50, 0_u64..1_000_000, 0_u64..10_000_000_000, 0..1_u64 << 60]
    }

    /// Four thousand components, each of which mostly has its next event about a millisecond later.
    #[test]
    fn a_large_queue_stays_in_order_while_the_length_of_a_day_is_found() {
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
            assert!(queue.today.len() <= LARGE + 1, "{} events a day", queue.today.len());
        }
        assert!(queue.length < 16, "days of 2^{} ns", queue.length);
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(steps in prop::collection::vec((0_u8..6, times(), 0_u32..1000), 0..4000)) {
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
