//! Sending rate of a path: a window of bytes in flight that follows the queueing delay, as LEDBAT does (RFC 6817 §2.4.2).
//! A path is filled without further losses, and datagrams that no path has room for
//! wait in one queue at the proxy.

use super::frame::Report;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Queueing delay that the window aims at. RFC 6817 §2.5 permits at most 100 ms; each path adds it to its delay, so it
/// must be smaller than the time for which the receiver holds datagrams. A datagram that is sent in two fragments takes two
/// places in a queue, so that queues of 100 packets overflow at 60 ms and 10 Mbit/s.
const TARGET_S: f64 = 0.025;
/// Window at the start, and the smallest window, bytes (RFC 6928; two datagrams).
const INITIAL_WINDOW: f64 = 14_600.0;
const MIN_WINDOW: f64 = 2_920.0;
/// The largest window, bytes: 200 ms at 160 Mbit/s.
const MAX_WINDOW: f64 = 4e6;
/// Size of a full datagram, bytes.
const SEGMENT: f64 = 1_460.0;
/// Factor of the window after a loss (RFC 9438 §4.6).
const DECREASE: f64 = 0.7;
/// Growth per round trip at an empty queue, datagrams (`GAIN` of RFC 6817).
const GAIN: f64 = 1.0;
/// Time for which the smallest round-trip time counts (`BASE_HISTORY` of RFC 6817 is ten minutes; routes of mobile links
/// change more often).
const BASE_TIME: Duration = Duration::from_secs(60);

/// The present round-trip time is the smallest one in this time (`CURRENT_FILTER` of RFC 6817). So the jitter of a radio
/// link or of a busy machine does not count as a queue.
const CURRENT_TIME: Duration = Duration::from_millis(50);

/// Sending state of a path.
#[derive(Debug)]
pub struct PathControl {
    window: f64,
    is_slow_start: bool,
    /// Numbers and sizes of datagrams that no report has covered.
    in_flight: VecDeque<(u32, usize)>,
    in_flight_bytes: usize,
    last_number: u32,
    /// Number of received datagrams in the last report.
    received: u32,
    rtt_s: Option<f64>,
    /// Smallest round-trip times of this period and of the one before, and the start of this period.
    base_s: [f64; 2],
    base_since: Option<Instant>,
    /// Round-trip times of the last [`CURRENT_TIME`].
    recent_s: VecDeque<(Instant, f64)>,
    /// Losses of datagrams up to this number have reduced the window.
    recover: u32,
    /// True if the window has prevented a datagram from being sent since the last report.
    is_limited: bool,
}

impl PathControl {
    /// Creates the state of a path on which nothing has been sent.
    pub const fn new() -> Self {
        Self {
            window: INITIAL_WINDOW,
            is_slow_start: true,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            last_number: 0,
            received: 0,
            rtt_s: None,
            base_s: [f64::INFINITY; 2],
            base_since: None,
            recent_s: VecDeque::new(),
            recover: 0,
            is_limited: false,
        }
    }

    /// True if the window has room for a datagram.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = (self.in_flight_bytes + bytes) as f64 <= self.window || self.in_flight.is_empty();
        self.is_limited |= !has_room;
        has_room
    }

    /// Counts a datagram as sent; returns its number on the path. The first number is 1.
    pub fn send(&mut self, bytes: usize) -> u32 {
        self.last_number = self.last_number.wrapping_add(1);
        self.in_flight.push_back((self.last_number, bytes));
        self.in_flight_bytes += bytes;
        self.last_number
    }

    /// Returns the smoothed round-trip time; infinity before the first report.
    pub fn rtt_s(&self) -> f64 {
        self.rtt_s.unwrap_or(f64::INFINITY)
    }

    /// Forgets datagrams in flight after the path has failed, and starts again with a small window.
    pub fn restart(&mut self) {
        self.in_flight.clear();
        (self.in_flight_bytes, self.window, self.is_slow_start) = (0, INITIAL_WINDOW, true);
        (self.base_s, self.base_since) = ([f64::INFINITY; 2], None);
    }

    /// Adapts the window to a report, with its round-trip time.
    pub fn receive(&mut self, report: &Report, rtt_s: f64, now: Instant) {
        let queueing_s = self.record_rtt(rtt_s, now);
        let (mut covered, mut bytes) = (0_u32, 0);
        while let Some(&(number, size)) = self.in_flight.front() {
            if report.highest.wrapping_sub(number).cast_signed() < 0 {
                break;
            }
            self.in_flight.pop_front();
            covered += 1;
            bytes += size;
        }
        self.in_flight_bytes -= bytes;
        let received = report.received.wrapping_sub(self.received);
        self.received = report.received;
        if covered > received && report.highest.wrapping_sub(self.recover).cast_signed() > 0 {
            self.window = (self.window * DECREASE).max(MIN_WINDOW);
            self.recover = self.last_number;
            self.is_slow_start = false;
        } else if covered > 0 {
            self.follow_delay(bytes as f64, queueing_s);
        }
        self.is_limited = false;
    }

    /// Moves the window toward the one at which the queueing delay is the target.
    fn follow_delay(&mut self, bytes: f64, queueing_s: f64) {
        if self.is_slow_start && queueing_s > TARGET_S / 2.0 {
            self.is_slow_start = false;
        }
        let off_target = ((TARGET_S - queueing_s) / TARGET_S).clamp(-1.0, 1.0);
        let change =
            if self.is_slow_start { bytes } else { GAIN * off_target * bytes * SEGMENT / self.window };
        // A window that has not been used must not grow (RFC 7661 §4.3).
        if change < 0.0 || self.is_limited {
            self.window = (self.window + change).clamp(MIN_WINDOW, MAX_WINDOW);
        }
    }

    /// Stores a round-trip time; returns the present queueing delay, seconds.
    fn record_rtt(&mut self, rtt_s: f64, now: Instant) -> f64 {
        self.rtt_s = Some(self.rtt_s.map_or(rtt_s, |mean| mean + (rtt_s - mean) / 8.0));
        if self.base_since.is_none_or(|since| now >= since + BASE_TIME) {
            self.base_s = [f64::INFINITY, self.base_s[0]];
            self.base_since = Some(now);
        }
        self.base_s[0] = self.base_s[0].min(rtt_s);
        self.recent_s.push_back((now, rtt_s));
        while self.recent_s.front().is_some_and(|(at, _)| *at + CURRENT_TIME < now) {
            self.recent_s.pop_front();
        }
        let current_s = self.recent_s.iter().map(|(_, rtt_s)| *rtt_s).fold(f64::INFINITY, f64::min);
        current_s - self.base_s[0].min(self.base_s[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(highest: u32, received: u32) -> Report {
        Report { highest, received, ..Report::default() }
    }

    #[test]
    fn window_doubles_per_round_trip_until_a_queue_forms() {
        let (mut path, now) = (PathControl::new(), Instant::now());
        for number in 1..=10 {
            assert!(path.has_room(1460));
            assert_eq!(path.send(1460), number);
        }
        assert!(!path.has_room(1460));
        path.receive(&report(10, 10), 0.1, now);
        assert!((path.window - 29_200.0).abs() < 1e-6 && path.in_flight_bytes == 0);
        for _ in 11..=30 {
            assert!(path.has_room(1460));
            path.send(1460);
        }
        assert!(!path.has_room(1460));
        // The queueing delay of 37.5 ms exceeds the target of 25 ms by half of the target, so the window shrinks by half a
        // datagram per round trip.
        path.receive(&report(30, 30), 0.1375, now + 2 * CURRENT_TIME);
        assert!((path.window - (29_200.0 - 730.0)).abs() < 1e-6, "{}", path.window);
    }

    #[test]
    fn loss_reduces_the_window_once_per_round_trip() {
        let (mut path, now) = (PathControl::new(), Instant::now());
        for _ in 1..=10 {
            path.send(1460);
        }
        path.receive(&report(4, 3), 0.1, now);
        assert!((path.window - 10_220.0).abs() < 1e-6);
        path.receive(&report(10, 8), 0.1, now);
        assert!((path.window - 10_220.0).abs() < 1e-6 && path.in_flight.is_empty());
        path.send(1460);
        path.receive(&report(11, 8), 0.1, now);
        assert!((path.window - 7_154.0).abs() < 1e-6);
    }

    #[test]
    fn unused_window_does_not_grow() {
        let (mut path, now) = (PathControl::new(), Instant::now());
        for number in 1..100 {
            assert!(path.has_room(1460));
            path.send(1460);
            path.receive(&report(number, number), 0.1, now);
        }
        assert!((path.window - INITIAL_WINDOW).abs() < 1e-6);
    }
}
