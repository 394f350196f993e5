//! When a copy of data that a slow path has under way is worth its place on a faster one.

use anabranch_base::time::Duration;

/// Whether a buffer holds the fast path back: it carries more alone, while data of the slow path is under way, than the buffer
/// admits in that time.
///
/// Data that leaves on the slow path is acknowledged a round trip of that path later, and the connection carries one `window`
/// meanwhile. If the fast path carries no more than that, the window opens soon enough without copies, and each copy takes the
/// place of new data. `fast` is the congestion window and the round-trip time of the fast path.
pub fn holds_back(window: u64, slow: Duration, (cwnd, fast): (u64, Duration)) -> bool {
    let carried = cwnd.min(window) as f64 * slow.as_secs_f64() / fast.as_secs_f64();
    (window as f64) < carried
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// DSL with 64 kB in 41 ms carries 1.1 MB in the 0.7 s that LTE takes; the window is 4 MB.
    #[test]
    fn a_window_of_several_round_trips_holds_nobody_back() {
        assert!(!holds_back(4_000_000, ms(700), (64_000, ms(41))));
        assert!(holds_back(1_000_000, ms(700), (64_000, ms(41))));
    }

    /// 100 kB in 100 ms are 2 MB in 2 s, and 0.9 MB in 0.9 s.
    #[test]
    fn a_slow_path_counts_by_its_round_trip() {
        assert!(holds_back(1_000_000, ms(2_000), (100_000, ms(100))));
        assert!(!holds_back(1_000_000, ms(900), (100_000, ms(100))));
    }

    #[test]
    fn a_congestion_window_above_the_buffer_counts_as_the_buffer() {
        assert!(holds_back(100_000, ms(300), (8_000_000, ms(200))));
        assert!(!holds_back(100_000, ms(200), (8_000_000, ms(200))));
    }
}
