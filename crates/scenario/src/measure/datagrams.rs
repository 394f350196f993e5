//! Measurements of datagrams at their receiver.

use super::voice::{Rating, Voice};
use anabranch_base::time::{Duration, Time};

/// Counts of the datagrams that were sent in the measured part, the jitter of their arrivals, and their rating as a call.
#[derive(Clone, Debug, Default)]
pub struct Datagrams {
    received: u64,
    lost: u64,
    /// Further copies of received datagrams.
    duplicated: u64,
    /// Received datagrams that arrived too late to be played.
    late: u64,
    /// The last delay, and the jitter in nanoseconds.
    jitter: Option<(Duration, f64)>,
    voice: Option<Voice>,
    /// Start of the measured part.
    since: Time,
    /// Delay from the sending of a datagram until it is played; `None` before the first.
    played_after: Option<Duration>,
}

impl Datagrams {
    /// Starts without datagrams. With `voice`, the datagrams are rated as a call.
    pub fn new(voice: Option<Voice>) -> Self {
        Self { voice, ..Self::default() }
    }

    /// A datagram was received.
    pub fn received(&mut self, sent: Time, now: Time) {
        if sent < self.since {
            return;
        }
        let delay = now.since(sent);
        self.received += 1;
        // RFC 3550 §6.4.1: the difference of the delays of successive datagrams.
        self.jitter = Some(self.jitter.map_or((delay, 0.0), |(last, jitter)| {
            let difference = delay.as_nanos().abs_diff(last.as_nanos()) as f64;
            (delay, jitter + (difference - jitter) / 16.0)
        }));
        if let Some(voice) = self.voice {
            let deadline = *self.played_after.get_or_insert(delay + voice.playout);
            self.late += u64::from(delay > deadline);
        }
    }

    /// A datagram was lost. Losses may be reported late or ahead of time.
    pub fn lost(&mut self, sent: Time) {
        self.lost += u64::from(sent >= self.since);
    }

    /// A further copy of a received datagram arrived.
    pub const fn duplicated(&mut self) {
        self.duplicated += 1;
    }

    /// Starts the measured part: forgets everything.
    pub fn restart(&mut self, now: Time) {
        *self = Self { since: now, ..Self::new(self.voice) };
    }

    /// Share of datagrams that were lost, of those whose fate is known; `None` if there are none.
    pub fn lost_share(&self) -> Option<f64> {
        self.share(self.lost)
    }

    /// Number of further copies, relative to the same datagrams.
    pub fn duplicated_share(&self) -> Option<f64> {
        self.share(self.duplicated)
    }

    fn share(&self, part: u64) -> Option<f64> {
        let all = self.received + self.lost;
        (all > 0).then(|| part as f64 / all as f64)
    }

    /// The interarrival jitter after the last datagram, seconds; `None` before the second.
    pub fn jitter_s(&self) -> Option<f64> {
        self.jitter.filter(|_| self.received > 1).map(|(_, jitter)| jitter / 1e9)
    }

    /// The rating as a call; `None` without one, or without a received datagram.
    pub fn rating(&self) -> Option<Rating> {
        Some(Rating::new(self.voice?.codec, self.played_after?, self.share(self.lost + self.late)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Codec;
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const SENT: Time = Time::from_nanos(7_000_000_000);

    /// Receives a datagram after a delay in milliseconds.
    fn receive(datagrams: &mut Datagrams, delay: u64) {
        datagrams.received(SENT, SENT + ms(delay));
    }

    #[test]
    fn jitter_equals_values_computed_by_hand() {
        let mut datagrams = Datagrams::default();
        receive(&mut datagrams, 10);
        assert_eq!(datagrams.jitter_s(), None);
        // |D| = 16 ms: J = 1 ms. Then 0 ms: J = 15/16 ms. Then 31 ms backwards: J = 15/16 + (31 - 15/16) / 16 ms.
        for (delay, jitter_ms) in [(26, 1.0), (26, 0.9375), (57, 0.9375 + (31.0 - 0.9375) / 16.0)] {
            receive(&mut datagrams, delay);
            let found = datagrams.jitter_s().unwrap();
            assert!((found - jitter_ms / 1e3).abs() < 1e-12, "{found}");
        }
        receive(&mut datagrams, 57 - 31);
        assert!(datagrams.jitter_s().unwrap() > 0.004, "the sign does not matter");
    }

    #[test]
    fn shares_count_datagrams_with_known_fate() {
        let mut datagrams = Datagrams::default();
        assert_eq!((datagrams.lost_share(), datagrams.duplicated_share()), (None, None));
        (0..6).for_each(|_| receive(&mut datagrams, 1));
        (0..2).for_each(|_| datagrams.lost(SENT));
        datagrams.duplicated();
        assert_eq!((datagrams.lost_share(), datagrams.duplicated_share()), (Some(0.25), Some(0.125)));
        assert_eq!(datagrams.rating(), None, "no call");
        datagrams.restart(SENT + ms(1));
        datagrams.lost(SENT);
        receive(&mut datagrams, 5);
        assert_eq!(datagrams.lost_share(), None, "sent before the measured part");
    }

    #[test]
    fn datagram_after_the_playout_delay_is_lost() {
        let voice = Voice { codec: Codec::G711, playout: ms(60) };
        let mut datagrams = Datagrams::new(Some(voice));
        assert_eq!(datagrams.rating(), None);
        for delay in [40, 100, 101, 39] {
            receive(&mut datagrams, delay);
        }
        let expected = Rating::new(Codec::G711, ms(100), 0.25);
        assert_eq!(datagrams.rating(), Some(expected), "100 ms are just in time");
        (0..4).for_each(|_| datagrams.lost(SENT));
        assert_eq!(datagrams.rating(), Some(Rating::new(Codec::G711, ms(100), 5.0 / 8.0)));
    }
}
