//! Restores the order of datagrams that arrive over several paths. A missing datagram is not repeated: the ones after it
//! are held only as long as it may still arrive over a slower path.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time for which a datagram is held.
pub const MAX_HOLD: Duration = Duration::from_millis(100);
/// Maximum number of held datagrams, and of their payload bytes. If more are held, the missing datagram
/// counts as lost.
const MAX_HELD: usize = 2048;
const MAX_HELD_BYTES: usize = 1 << 20;
/// A path on which nothing has arrived for this time is not awaited. It is longer than the interval of keep-alive probes.
const SILENCE: Duration = Duration::from_secs(20);
/// Time for which an item is awaited beyond the largest recent delay: a burst on a slow path lengthens its queue.
const MARGIN_S: f64 = 0.015;
/// A path's largest delay of this period and of the one before it counts.
const PERIOD: Duration = Duration::from_secs(1);

/// Restores the order of items by their numbers; the first number is 1.
#[derive(Debug)]
pub struct Order<T> {
    /// Number of the next item.
    next: u64,
    held: BTreeMap<u64, Held<T>>,
    /// Deadlines and numbers of the held items.
    deadlines: BTreeSet<(Instant, u64)>,
    held_bytes: usize,
    paths: Vec<Arrivals>,
    /// Items in order, and items that arrived too late.
    released: std::collections::VecDeque<T>,
}

#[derive(Debug)]
struct Held<T> {
    item: T,
    bytes: usize,
    /// Time until which the items before this one are awaited.
    deadline: Instant,
}

/// Arrivals on a path.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// Highest number that has arrived.
    highest: u64,
    last: Option<Instant>,
    /// Largest arrival time minus sending time in this period and in the one before, by two clocks that need not agree,
    /// seconds.
    max_delay_s: [f64; 2],
    /// Start of this period.
    since: Option<Instant>,
}

/// An item that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number of the path.
    pub path: usize,
    /// Number of the item.
    pub number: u64,
    /// Number of payload bytes.
    pub bytes: usize,
    /// Arrival time minus sending time, by two clocks that need not agree, seconds.
    pub delay_s: f64,
}

impl<T> Order<T> {
    /// Creates the state before the first item.
    pub fn new() -> Self {
        Self {
            next: 1,
            held: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            held_bytes: 0,
            paths: Vec::new(),
            released: [].into(),
        }
    }

    /// Adds an item. Each number must be added at most once.
    pub fn add(&mut self, arrival: Arrival, item: T, now: Instant) {
        let Arrival { path, number, bytes, delay_s } = arrival;
        self.record_delay(path, delay_s, now);
        let highest = &mut self.paths[path].highest;
        *highest = number.max(*highest);
        if number < self.next {
            self.released.push_back(item);
            return;
        }
        let deadline = now + self.hold(delay_s, now);
        self.held.insert(number, Held { item, bytes, deadline });
        self.deadlines.insert((deadline, number));
        self.held_bytes += bytes;
        self.release(now);
    }

    /// Records the delay of a path: arrival time minus sending time, by two clocks that need not agree, seconds.
    pub fn record_delay(&mut self, path: usize, delay_s: f64, now: Instant) {
        if self.paths.len() <= path {
            self.paths.resize(path + 1, Arrivals::default());
        }
        self.paths[path].record_delay(delay_s, now);
    }

    /// Returns the next item that is due.
    pub fn next_item(&mut self, now: Instant) -> Option<T> {
        if self.released.is_empty() {
            self.release(now);
        }
        self.released.pop_front()
    }

    /// Returns the time at which held items are due although others before them are missing.
    pub fn due_at(&self) -> Option<Instant> {
        let (earliest, _) = self.deadlines.first()?;
        self.released.is_empty().then_some(*earliest)
    }

    /// Moves the items that are due to `released`.
    fn release(&mut self, now: Instant) {
        // The deadline of a later item may be earlier, because the delays have changed.
        let expired = self.deadlines.range(..=(now, u64::MAX)).map(|(_, number)| *number).max();
        while let Some(first) = self.held.first_entry() {
            let number = *first.key();
            let is_awaited = number > self.next
                && expired.is_none_or(|expired| number > expired)
                && number > self.arrived_everywhere(now)
                && self.held.len() <= MAX_HELD
                && self.held_bytes <= MAX_HELD_BYTES;
            if is_awaited {
                return;
            }
            if let Some(held) = self.held.remove(&number) {
                self.held_bytes -= held.bytes;
                self.deadlines.remove(&(held.deadline, number));
                self.released.push_back(held.item);
            }
            self.next = number + 1;
        }
    }

    /// Returns the highest number such that all paths have delivered this or a higher one. A path keeps the order, so a
    /// missing number below is lost.
    fn arrived_everywhere(&self, now: Instant) -> u64 {
        self.known(now).map(|path| path.highest).min().unwrap_or(0)
    }

    /// Returns the paths on which something has arrived recently.
    fn known(&self, now: Instant) -> impl Iterator<Item = &Arrivals> {
        let is_known = move |path: &&Arrivals| path.last.is_some_and(|last| now < last + SILENCE);
        self.paths.iter().filter(is_known)
    }

    /// Returns the time for which an item with this delay is held. Items with lower numbers were sent before it, so they
    /// arrive until the largest recent delay of a path has passed since it was sent.
    fn hold(&self, delay_s: f64, now: Instant) -> Duration {
        let longest_s = self.known(now).flat_map(|path| path.max_delay_s).fold(f64::NEG_INFINITY, f64::max);
        Duration::from_secs_f64((longest_s + MARGIN_S - delay_s).clamp(0.0, MAX_HOLD.as_secs_f64()))
    }
}

impl Arrivals {
    fn record_delay(&mut self, delay_s: f64, now: Instant) {
        if self.last.is_none_or(|last| now >= last + SILENCE) {
            (self.max_delay_s, self.since) = ([f64::NEG_INFINITY; 2], Some(now));
        } else if self.since.is_none_or(|since| now >= since + PERIOD) {
            (self.max_delay_s, self.since) = ([f64::NEG_INFINITY, self.max_delay_s[0]], Some(now));
        }
        self.max_delay_s[0] = self.max_delay_s[0].max(delay_s);
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    /// Adds an item with a path's usual delay: 10 ms on path 0, 50 ms on path 1.
    fn add(order: &mut Order<u64>, path: usize, number: u64, now: Instant) {
        let delay_s = [0.010, 0.050][path];
        order.add(Arrival { path, number, bytes: 1, delay_s }, number, now);
    }

    fn released(order: &mut Order<u64>, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| order.next_item(now)).collect()
    }

    #[test]
    fn slower_path_is_awaited_as_long_as_delays_differ() {
        // The delays differ by 40 ms, and 15 ms are the margin.
        let (begin, mut order) = (Instant::now(), Order::new());
        add(&mut order, 1, 1, begin);
        add(&mut order, 0, 2, begin);
        assert_eq!(released(&mut order, begin), [1, 2]);
        add(&mut order, 0, 4, begin);
        assert_eq!((released(&mut order, begin), order.due_at()), (vec![], Some(begin + 55 * MS)));
        add(&mut order, 1, 3, begin + 54 * MS);
        assert_eq!(released(&mut order, begin + 54 * MS), [3, 4]);
        // Number 5 does not arrive in time. When it arrives later, it is passed on at once.
        add(&mut order, 0, 6, begin + 54 * MS);
        assert_eq!(released(&mut order, begin + 108 * MS), [0; 0]);
        assert_eq!(released(&mut order, begin + 109 * MS), [6]);
        add(&mut order, 1, 5, begin + 110 * MS);
        assert_eq!(released(&mut order, begin + 110 * MS), [5]);
    }

    #[test]
    fn loss_on_a_single_path_holds_nothing() {
        let (begin, mut order) = (Instant::now(), Order::new());
        for number in [1, 2, 4, 7] {
            add(&mut order, 0, number, begin);
        }
        assert_eq!((released(&mut order, begin), order.due_at()), (vec![1, 2, 4, 7], None));
    }

    #[test]
    fn datagram_that_all_paths_have_overtaken_is_lost() {
        let (begin, mut order) = (Instant::now(), Order::new());
        add(&mut order, 0, 1, begin);
        add(&mut order, 1, 2, begin);
        add(&mut order, 0, 4, begin);
        assert_eq!(released(&mut order, begin), [1, 2]);
        add(&mut order, 1, 5, begin + MS);
        assert_eq!(released(&mut order, begin + MS), [4, 5]);
    }

    #[test]
    fn hold_is_limited() {
        let (begin, mut order) = (Instant::now(), Order::new());
        order.add(Arrival { path: 0, number: 1, bytes: 1, delay_s: -7.0 }, 1, begin);
        order.add(Arrival { path: 1, number: 2, bytes: 1, delay_s: 7.0 }, 2, begin);
        order.add(Arrival { path: 0, number: 4, bytes: 1, delay_s: -7.0 }, 4, begin);
        assert_eq!((released(&mut order, begin), order.due_at()), (vec![1, 2], Some(begin + MAX_HOLD)));
        for number in 5..5 + MAX_HELD as u64 {
            order.add(Arrival { path: 0, number, bytes: 1, delay_s: -7.0 }, number, begin);
        }
        assert_eq!(released(&mut order, begin).len(), MAX_HELD + 1);
    }

    proptest! {
        /// Each item is released once, at most 100 ms after its arrival; nothing is held after that.
        #[test]
        fn items_are_released_once_and_in_time(
            steps in prop::collection::vec((0..2_usize, any::<prop::sample::Index>(), 0..60_u64), 1..200)
        ) {
            let (mut now, mut order, mut left) = (Instant::now(), Order::new(), (1..=200).collect::<Vec<u64>>());
            let (mut arrived, mut seen) = (BTreeMap::new(), Vec::new());
            for (path, index, wait_ms) in steps {
                let number = left.remove(index.index(left.len().min(12)));
                arrived.insert(number, now);
                add(&mut order, path, number, now);
                for item in released(&mut order, now) {
                    prop_assert!(now <= arrived[&item] + MAX_HOLD + 60 * MS);
                    seen.push(item);
                }
                now += u32::try_from(wait_ms).expect("the number fits 32 bits") * MS;
            }
            seen.extend(released(&mut order, now + MAX_HOLD));
            seen.sort_unstable();
            prop_assert_eq!(seen, arrived.into_keys().collect::<Vec<_>>());
        }
    }
}
