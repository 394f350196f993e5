//! Dynamic right-sizing of buffers (Fisk and Feng 2001), as Linux does it (`tcp_rcv_space_adjust`,
//! `tcp_sndbuf_expand`).
//!
//! Once a round trip the receiver counts the bytes that the application has read. A window of twice that amount
//! allows a sender in slow start to double once more. If the amount has grown since the last round trip, the window
//! is enlarged further by the same proportion. The sender keeps room for two congestion windows: one in flight, and
//! one waiting behind it.

use anabranch_base::time::{Duration, Time};

/// Initial size of a buffer, bytes (the middle of Linux's `tcp_rmem`, rounded).
const INITIAL_BUFFER_BYTES: u64 = 128_000;

/// Segments added to twice the bytes read, so that a small window still admits the peer's initial window.
const SPARE_SEGMENTS: u64 = 16;

/// The size of a receive buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveSpace {
    size: u64,
    max: u64,
    /// Maximum of bytes read in a counted round trip.
    per_round: u64,
    /// Start of the current round trip, and number of bytes read before it.
    round: (Time, u64),
}

impl ReceiveSpace {
    /// Creates a buffer of `max` bytes, or one that grows to `max`.
    pub(super) fn new(max: u64, grows: bool) -> Self {
        let size = if grows { INITIAL_BUFFER_BYTES.min(max) } else { max };
        Self { size, max, per_round: size / 4, round: (Time::ZERO, 0) }
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Adjusts the size after a read. `read` is the total of bytes read, `rtt` the round-trip time, and `mss` the
    /// payload of a segment.
    pub(super) fn on_read(&mut self, now: Time, read: u64, (rtt, mss): (Option<Duration>, u32)) {
        let (began, before) = self.round;
        let Some(rtt) = rtt.filter(|&rtt| self.size < self.max && now.since(began) >= rtt) else { return };
        let copied = read - before;
        // If the application pauses, its reads span several round trips and do not show the rate of the sender.
        if copied > self.per_round && now.since(began) < rtt.saturating_mul(2) {
            let needed = 2 * copied + SPARE_SEGMENTS * u64::from(mss);
            let ahead = u128::from(needed) * u128::from(2 * (copied - self.per_round))
                / u128::from(self.per_round.max(1));
            let ahead = u64::try_from(ahead).unwrap_or(self.max);
            self.size = self.size.max(needed.saturating_add(ahead)).min(self.max);
            self.per_round = copied;
        }
        self.round = (now, read);
    }
}

/// Size of a send buffer of `max` bytes, or of one that grows to `max` with the congestion window.
pub(super) fn send_space(max: u64, grows: bool, window: u64) -> u64 {
    if grows { (2 * window).max(INITIAL_BUFFER_BYTES).min(max) } else { max }
}

/// The round-trip time as the receiver of data measures it: the age of the timestamps that data echoes (RFC 7323
/// §3.2), at the resolution of their clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EchoAge {
    last: Option<u32>,
    smoothed: Option<Duration>,
}

impl EchoAge {
    /// Processes data that echoes `echo`, when the local clock shows `clock`.
    pub(super) fn seen(&mut self, echo: u32, clock: u32) {
        // A repeated echo is older by the time between the two segments, which may include a pause of the sending
        // application.
        if self.last.replace(echo) == Some(echo) {
            return;
        }
        let sample = Duration::from_millis(u64::from(clock.wrapping_sub(echo).max(1)));
        let (new, part) = (sample.as_nanos(), 8);
        self.smoothed = Some(self.smoothed.map_or(sample, |old| {
            let old = old.as_nanos();
            Duration::from_nanos(old - old / part + new / part)
        }));
    }

    pub(super) const fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// The size after each round trip; `reads` contains the bytes read in each.
    fn sizes(reads: &[u64], pause: Duration) -> Vec<u64> {
        let mut space = ReceiveSpace::new(10_000_000, true);
        let (mut now, mut read) = (Time::ZERO, 0);
        reads
            .iter()
            .map(|&bytes| {
                (now, read) = (now + RTT + pause, read + bytes);
                space.on_read(now, read, (Some(RTT), 1000));
                space.size()
            })
            .collect()
    }

    #[test]
    fn window_stays_ahead_of_a_doubling_sender() {
        let reads = [20_000, 40_000, 80_000, 160_000, 320_000];
        for (size, read) in sizes(&reads, Duration::ZERO).into_iter().zip(reads) {
            // The next round trip brings twice as much, and half of the data of the round trip after that may be in
            // flight.
            assert!(size >= 3 * read, "{size} after {read}");
        }
    }

    #[test]
    fn steady_and_pausing_readers_keep_their_buffer_size() {
        let steady = sizes(&[500_000; 20], Duration::ZERO);
        assert_eq!(steady[1], steady[19]);
        assert_eq!(sizes(&[500_000; 20], RTT.saturating_mul(3))[19], INITIAL_BUFFER_BYTES);
    }

    #[test]
    fn buffer_size_has_a_maximum() {
        assert_eq!(sizes(&[1 << 40], Duration::ZERO), [10_000_000]);
        assert_eq!(ReceiveSpace::new(5_000, true).size(), 5_000);
        assert_eq!(ReceiveSpace::new(4_000_000, false).size(), 4_000_000);
        assert_eq!(
            [1_000, 90_000, 1 << 40].map(|window| send_space(1_000_000, true, window)),
            [INITIAL_BUFFER_BYTES, 180_000, 1_000_000]
        );
    }

    #[test]
    fn timestamp_echo_gives_one_round_trip_sample() {
        let mut age = EchoAge::default();
        age.seen(1_000, 1_100);
        age.seen(1_000, 5_000);
        assert_eq!(age.smoothed(), Some(RTT));
        age.seen(1_050, 1_230);
        assert_eq!(age.smoothed(), Some(Duration::from_millis(110)));
    }
}
