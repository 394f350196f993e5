//! The end of a connection's start-up, before which its mechanisms against blocking may have to stay out (Becke2014 §8.1.1.3, §9.1).
//!
//! While windows still open, a slower path holds up a shared buffer because the faster one has not got going yet. What is
//! resent, moved or penalised then is not to blame. Start-up is over once the window of the fastest path has reached its
//! maximum: it has shrunk for the first time, by a loss or as its control wants, or it is as large as the buffers. A fastest
//! path that data never fills stays in start-up, and the mechanisms stay out.

use anabranch_base::time::Duration;

/// Whether a connection's start-up is over; that happens once.
#[derive(Debug)]
pub struct StartUp {
    over: bool,
    /// The largest window that each path has been seen with, bytes, by its place among the paths.
    largest: Vec<u64>,
}

impl StartUp {
    /// At the beginning of a connection; one whose mechanisms work `at_once` has no start-up.
    pub const fn new(at_once: bool) -> Self {
        Self { over: at_once, largest: Vec::new() }
    }

    /// The mechanisms may work.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Looks at the paths: of each the smoothed round-trip time, where it is in use and has been measured, and the congestion
    /// window in bytes. `room` is what may be unacknowledged at once in the whole connection, bytes.
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

    /// Whether start-up is over after each of these looks at two paths of 20 and 150 ms.
    fn looks(windows: &[[u64; 2]], room: u64) -> Vec<bool> {
        let mut start_up = StartUp::new(false);
        let look = |&[fast, slow]: &[u64; 2]| {
            let of = |millis, window| (Some(Duration::from_millis(millis)), window);
            start_up.observe([of(20, fast), of(150, slow)].into_iter(), room);
            start_up.is_over()
        };
        windows.iter().map(look).collect()
    }

    #[test]
    fn it_ends_when_the_fastest_window_shrinks() {
        // The slower path's loss, from 40 to 20 kB, is no matter; the faster one's is, and what comes later changes nothing.
        let windows =
            [[10, 10], [20, 40], [40, 20], [40, 20], [39, 20], [80, 20]].map(|pair| pair.map(|kb| kb * 1000));
        assert_eq!(looks(&windows, 1_000_000), [false, false, false, false, true, true]);
    }

    #[test]
    fn it_ends_when_the_fastest_window_is_as_large_as_the_buffer() {
        assert_eq!(looks(&[[49_999, 60_000], [50_000, 60_000]], 50_000), [false, true]);
    }

    #[test]
    fn a_path_that_is_not_in_use_or_not_measured_is_not_the_fastest() {
        let mut start_up = StartUp::new(false);
        start_up.observe([(None, 20_000), (Some(Duration::from_millis(150)), 10_000)].into_iter(), 100_000);
        start_up.observe([(None, 10_000), (Some(Duration::from_millis(150)), 10_000)].into_iter(), 100_000);
        assert!(!start_up.is_over());
        // Its turn once it has been measured: 20 kB was more.
        start_up.observe([(Some(Duration::from_millis(20)), 10_000)].into_iter(), 100_000);
        assert!(start_up.is_over());
    }

    #[test]
    fn mechanisms_that_work_at_once_know_no_start_up() {
        assert!(StartUp::new(true).is_over());
    }
}
