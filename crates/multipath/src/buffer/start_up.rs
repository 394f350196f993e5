//! Detects the end of a connection's start-up. A setting may switch off the mechanisms against blocking until then
//! (Becke2014 §8.1.1.3, §9.1).
//!
//! While windows still grow, a slower path blocks a shared buffer only because the window of the faster path is still
//! small. Reinjection, rescheduling or penalisation would then act on the wrong path. Start-up ends when the window of
//! the fastest path has reached its maximum: when it shrinks for the first time, by a loss or by its congestion
//! control, or is as large as the buffers. If data never fills the fastest path, start-up does not end, and the
//! mechanisms stay off.

use anabranch_base::time::Duration;

/// Records whether a connection's start-up has ended. It ends at most once.
#[derive(Debug)]
pub struct StartUp {
    over: bool,
    /// The largest window that each path has had, bytes, by path index.
    largest: Vec<u64>,
}

impl StartUp {
    /// Creates the state at the beginning of a connection. If `at_once` is true, there is no start-up: the mechanisms
    /// are active from the beginning.
    pub const fn new(at_once: bool) -> Self {
        Self { over: at_once, largest: Vec::new() }
    }

    /// True if start-up has ended, so the mechanisms may be active.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Updates the state. `paths` contains for each path its congestion window in bytes, and its smoothed round-trip
    /// time if the path is in use and has been measured. `room` is the maximum number of unacknowledged bytes in the
    /// whole connection.
    pub fn observe(&mut self, paths: impl Iterator<Item = (Option<Duration>, u64)>, room: u64) {
        if self.over {
            return;
        }
        let mut fastest = None;
        for (index, (srtt, window)) in paths.enumerate() {
            if self.largest.len() == index {
                self.largest.push(window);
            }
            let largest = self.largest[index].max(window);
            self.largest[index] = largest;
            if let Some(srtt) = srtt
                && fastest.is_none_or(|(shortest, _)| srtt < shortest)
            {
                fastest = Some((srtt, window < largest || window >= room));
            }
        }
        self.over = fastest.is_some_and(|(_, reached)| reached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns, after each of these observations of two paths of 20 and 150 ms, whether start-up has ended.
    fn is_over_after_each(windows: &[[u64; 2]], room: u64) -> Vec<bool> {
        let mut start_up = StartUp::new(false);
        let look = |&[fast, slow]: &[u64; 2]| {
            let of = |millis, window| (Some(Duration::from_millis(millis)), window);
            start_up.observe([of(20, fast), of(150, slow)].into_iter(), room);
            start_up.is_over()
        };
        windows.iter().map(look).collect()
    }

    #[test]
    fn start_up_ends_when_the_fastest_window_shrinks() {
        // A loss on the slower path, from 40 to 20 kB, has no effect. A loss on the faster path ends start-up for the
        // rest of the connection.
        let windows =
            [[10, 10], [20, 40], [40, 20], [40, 20], [39, 20], [80, 20]].map(|pair| pair.map(|kb| kb * 1000));
        assert_eq!(is_over_after_each(&windows, 1_000_000), [false, false, false, false, true, true]);
    }

    #[test]
    fn start_up_ends_when_window_equals_the_buffer() {
        assert_eq!(is_over_after_each(&[[49_999, 60_000], [50_000, 60_000]], 50_000), [false, true]);
    }

    #[test]
    fn unused_or_unmeasured_path_is_not_the_fastest() {
        let mut start_up = StartUp::new(false);
        start_up.observe([(None, 20_000), (Some(Duration::from_millis(150)), 10_000)].into_iter(), 100_000);
        start_up.observe([(None, 10_000), (Some(Duration::from_millis(150)), 10_000)].into_iter(), 100_000);
        assert!(!start_up.is_over());
        // When its round-trip time has been measured, the first path is the fastest. Its window of 10 kB is smaller
        // than its earlier one of 20 kB, which ends start-up.
        start_up.observe([(Some(Duration::from_millis(20)), 10_000)].into_iter(), 100_000);
        assert!(start_up.is_over());
    }

    #[test]
    fn mechanisms_from_the_start_disable_start_up() {
        assert!(StartUp::new(true).is_over());
    }
}
