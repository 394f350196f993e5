//! Time of a path by cause: at each moment one cause limits the sending on the path. Every moment from the first call
//! of [`LimitClock::set`] to [`LimitClock::end`] counts for exactly one [`Limit`], so that the times add up to the
//! life of the path.

use anabranch_base::time::{Duration, Time};

/// The cause that limits the sending on a path.
///
/// The order defines the cause of a connection: the first of the causes of its paths, that is, the cause of the path
/// that is nearest to sending ([`LimitClock::follow`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// All written data has been sent, and the send buffer has room.
    Application,
    /// All written data has been sent, and the send buffer, or the path's share of it, has no free space. The
    /// congestion window has free space.
    SendBuffer,
    /// The peer's receive window, or the path's share of it, is full. The congestion window has free space.
    ReceiveWindow,
    /// Data waits and the path could carry it, but the scheduler chose another path or no path.
    Scheduler,
    /// The congestion window has free space, but the pacing rate or a burst limit does not permit a packet yet.
    Pacing,
    /// The congestion window is full, in congestion avoidance.
    Avoidance,
    /// The congestion window is full, in slow start.
    SlowStart,
    /// The congestion window is full, while losses are being repaired.
    Recovery,
    /// All data in flight was lost: from the start of the retransmission timer that expired to the acknowledgement of
    /// the retransmission, or to the second timeout in a row.
    Timeout,
    /// The path is a backup, used only while no other path is usable.
    Backup,
    /// The path is being established.
    Opening,
    /// The path does not answer (two timeouts in a row), is closed, or has no address.
    Unusable,
}

impl Limit {
    /// Number of causes.
    pub const COUNT: usize = 12;

    /// Every cause once, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Application,
        Self::SendBuffer,
        Self::ReceiveWindow,
        Self::Scheduler,
        Self::Pacing,
        Self::Avoidance,
        Self::SlowStart,
        Self::Recovery,
        Self::Timeout,
        Self::Backup,
        Self::Opening,
        Self::Unusable,
    ];

    /// The name in results; stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::SendBuffer => "send-buffer",
            Self::ReceiveWindow => "receive-window",
            Self::Scheduler => "scheduler",
            Self::Pacing => "pacing",
            Self::Avoidance => "congestion-avoidance",
            Self::SlowStart => "slow-start",
            Self::Recovery => "recovery",
            Self::Timeout => "timeout",
            Self::Backup => "backup",
            Self::Opening => "opening",
            Self::Unusable => "unusable",
        }
    }
}

/// Time of a path or of a connection by cause, up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Time, in the order of [`Limit::ALL`].
    pub spent: [Duration; Limit::COUNT],
    /// Bytes that the free part of the congestion window would have permitted: the free bytes per smoothed round-trip
    /// time, integrated over that time.
    pub missed: [u64; Limit::COUNT],
}

impl Limited {
    /// Sum of the times: the age of the path or the connection.
    pub fn life(&self) -> Duration {
        self.spent.iter().fold(Duration::ZERO, |sum, &spent| sum + spent)
    }

    /// Time of one cause.
    pub const fn by(&self, limit: Limit) -> Duration {
        self.spent[limit as usize]
    }

    /// Difference between these times and the earlier times `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        let mut charged_back = Duration::ZERO;
        for at in 0..Limit::COUNT {
            since.spent[at] = self.spent[at].saturating_sub(before.spent[at]);
            charged_back += before.spent[at].saturating_sub(self.spent[at]);
            since.missed[at] = self.missed[at].saturating_sub(before.missed[at]);
        }
        // `before` counted this time for another cause; a later timeout has moved it to its own.
        let timeout = &mut since.spent[Limit::Timeout as usize];
        *timeout = timeout.saturating_sub(charged_back);
        since
    }

    /// Time by the causes' names.
    pub fn times(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        Limit::ALL.map(Limit::name).into_iter().zip(self.spent)
    }

    /// Missed bytes by the causes' names.
    pub fn bytes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Limit::ALL.map(Limit::name).into_iter().zip(self.missed)
    }
}

/// Times of one end up to some moment. The current cause counts up to that moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Times by cause for the whole connection.
    pub connection: Limited,
    /// Times by cause for each path, in the order of [`Report::paths`](crate::Report::paths).
    pub paths: Vec<Limited>,
    /// SCTP: time for which every path that may carry data waited for a buffer, by the occupancy of the buffer.
    pub buffers: crate::blocked::Spent,
    /// Time for which the receiver waited for missing data of each path, in the order of `paths`.
    pub gaps: Vec<Duration>,
}

/// A stopwatch for each cause, of which one runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitClock {
    done: Limited,
    current: Option<Limit>,
    /// End of the time that has been counted: the last change of the cause or of the free window.
    counted_to: Time,
    /// Start of the current cause.
    began: Time,
    /// Free congestion window in bytes since `counted_to`, and the smoothed round-trip time in nanoseconds.
    room: u64,
    round: u64,
    changed: bool,
    ended: bool,
}

impl LimitClock {
    /// Sets `limit` as the cause from `now` on; `room` bytes of the congestion window are free, and the smoothed
    /// round-trip time is `round`.
    #[inline]
    pub fn set(&mut self, now: Time, limit: Limit, (room, round): (u64, Option<Duration>)) {
        if self.current != Some(limit) || self.room != room {
            self.change(now, limit, (room, round));
        }
    }

    fn change(&mut self, now: Time, limit: Limit, (room, round): (u64, Option<Duration>)) {
        if self.ended {
            return;
        }
        self.count(now);
        if self.current != Some(limit) {
            (self.current, self.began, self.changed) = (Some(limit), now, true);
        }
        let round = round.map_or(0, Duration::as_nanos);
        (self.room, self.round) = if round > 0 { (room, round) } else { (0, 0) };
    }

    /// Counts the time since `from` for `limit` instead of the current cause, as far as it has not been counted yet.
    #[cold]
    pub fn charge_back(&mut self, now: Time, from: Time, limit: Limit) {
        let spared = matches!(self.current, None | Some(Limit::Backup | Limit::Opening | Limit::Unusable));
        if self.current == Some(limit) || spared {
            return;
        }
        let from = from.max(self.counted_to).min(now);
        self.change(from, limit, (0, None));
    }

    /// Ends the measurement with the path or the connection.
    pub fn end(&mut self, now: Time) {
        if !self.ended {
            self.count(now);
            (self.current, self.changed, self.ended) = (None, true, true);
        }
    }

    /// Sets the connection's cause to the first of its paths' causes in the order of [`Limit`]. A timeout counts for
    /// the connection from the latest start of its paths' causes, because before it another path could still send.
    pub fn follow<'a>(&mut self, now: Time, paths: impl Iterator<Item = &'a Self> + Clone) {
        let Some(limit) = paths.clone().filter_map(|path| path.current).min() else { return };
        if limit == Limit::Timeout {
            let from = paths.filter(|path| path.current.is_some()).map(|path| path.began).max();
            self.charge_back(now, from.unwrap_or(now), limit);
        }
        self.set(now, limit, (0, None));
    }

    /// True if the cause has changed since the last call.
    #[inline]
    pub const fn take_change(&mut self) -> bool {
        core::mem::replace(&mut self.changed, false)
    }

    /// The current cause.
    #[inline]
    pub const fn current(&self) -> Option<Limit> {
        self.current
    }

    /// Times up to `now`.
    pub fn up_to(&self, now: Time) -> Limited {
        let mut copy = *self;
        copy.count(now);
        copy.done
    }

    /// Adds the time since the last change.
    fn count(&mut self, now: Time) {
        if let Some(limit) = self.current {
            let span = now.since(self.counted_to);
            self.done.spent[limit as usize] += span;
            if self.room > 0 {
                let bytes = u128::from(self.room) * u128::from(span.as_nanos()) / u128::from(self.round);
                self.done.missed[limit as usize] += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
        }
        self.counted_to = now;
    }
}

/// The largest delivery rate of a path over spans of one smoothed round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryPeak {
    since: Option<Time>,
    bytes: u64,
    peak: Option<u64>,
}

impl DeliveryPeak {
    /// Records that `bytes` bytes in total are known to have arrived; the number is larger than before.
    #[inline]
    pub fn update(&mut self, now: Time, bytes: u64, srtt: Option<Duration>) {
        let (Some(since), Some(round)) = (self.since, srtt) else {
            (self.since, self.bytes) = (Some(now), bytes);
            return;
        };
        let span = now.since(since);
        if span >= round && span > Duration::ZERO {
            let rate = u128::from(bytes - self.bytes) * 1_000_000_000 / u128::from(span.as_nanos());
            self.peak = self.peak.max(u64::try_from(rate).ok());
            (self.since, self.bytes) = (Some(now), bytes);
        }
    }

    /// The largest rate, bytes a second.
    pub const fn rate(&self) -> Option<u64> {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn time_is_charged_to_the_current_cause() {
        let mut clock = LimitClock::default();
        clock.set(at(5), Limit::Opening, (0, None));
        clock.set(at(7), Limit::SlowStart, (0, None));
        clock.set(at(9), Limit::SlowStart, (0, None));
        clock.set(at(20), Limit::Application, (3000, Some(ms(10))));
        clock.set(at(40), Limit::Application, (1000, Some(ms(10))));
        let limited = clock.up_to(at(50));
        assert_eq!(limited.by(Limit::Opening), ms(2));
        assert_eq!(limited.by(Limit::SlowStart), ms(13));
        assert_eq!(limited.by(Limit::Application), ms(30));
        assert_eq!(limited.life(), ms(45));
        // The application left 3,000 bytes unused in each of two round trips, and 1,000 in one.
        assert_eq!(limited.missed[Limit::Application as usize], 7000);
        assert_eq!(limited.since(&clock.up_to(at(45))).life(), ms(5));
    }

    /// Times at a moment, if the cause has not changed since the start.
    fn clock_at(limit: Limit, moment: u64) -> Limited {
        let mut clock = LimitClock::default();
        clock.set(at(0), limit, (0, None));
        clock.up_to(at(moment))
    }

    #[test]
    fn timeout_is_charged_from_the_start_of_its_timer() {
        let mut clock = LimitClock::default();
        clock.set(at(0), Limit::Avoidance, (0, None));
        clock.charge_back(at(300), at(100), Limit::Timeout);
        let limited = clock.up_to(at(400));
        assert_eq!((limited.by(Limit::Avoidance), limited.by(Limit::Timeout)), (ms(100), ms(300)));
        let before = clock_at(Limit::Avoidance, 200);
        assert_eq!(limited.since(&before).life(), ms(200), "the timer had started before");
        clock.set(at(400), Limit::Unusable, (0, None));
        clock.charge_back(at(500), at(450), Limit::Timeout);
        assert_eq!(clock.up_to(at(500)).by(Limit::Unusable), ms(100), "an unusable path stays unusable");
    }

    #[test]
    fn connection_has_limit_of_path_closest_to_sending() {
        let mut paths = [LimitClock::default(); 2];
        let mut connection = LimitClock::default();
        for (moment, limits) in [
            (0, [Limit::Opening, Limit::Opening]),
            (10, [Limit::Avoidance, Limit::Opening]),
            (30, [Limit::Avoidance, Limit::ReceiveWindow]),
            (60, [Limit::Unusable, Limit::Backup]),
        ] {
            for (path, limit) in paths.iter_mut().zip(limits) {
                path.set(at(moment), limit, (0, None));
            }
            connection.follow(at(moment), paths.iter());
        }
        let limited = connection.up_to(at(100));
        let shares = [Limit::Opening, Limit::Avoidance, Limit::ReceiveWindow, Limit::Backup];
        assert_eq!(shares.map(|limit| limited.by(limit)), [ms(10), ms(20), ms(30), ms(40)]);
    }

    #[test]
    fn largest_delivery_rate_is_over_a_round_trip() {
        let mut peak = DeliveryPeak::default();
        let round = Some(ms(10));
        peak.update(at(0), 5000, round); // begins the first span
        peak.update(at(4), 6000, round);
        assert_eq!(peak.rate(), None);
        peak.update(at(10), 7000, round);
        assert_eq!(peak.rate(), Some(200_000));
        peak.update(at(30), 8000, round);
        assert_eq!(peak.rate(), Some(200_000));
    }

    #[test]
    fn causes_are_in_order_with_unique_names() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, at);
            assert!(Limit::ALL[..at].iter().all(|other| other.name() != limit.name() && *other < limit));
        }
    }

    proptest! {
        #[test]
        fn times_add_up_to_the_connection_lifetime(
            steps in prop::collection::vec((0_u64..1000, 0..Limit::COUNT, 0_u64..3, any::<bool>()), 1..50),
        ) {
            let mut clock = LimitClock::default();
            let (mut now, mut from) = (0, None);
            for (span, limit, room, timeout) in steps {
                now += span;
                clock.set(Time::from_nanos(now), Limit::ALL[limit], (room, Some(ms(1))));
                from.get_or_insert(now);
                if timeout {
                    now += span;
                    clock.charge_back(Time::from_nanos(now), Time::from_nanos(now - span / 2), Limit::Timeout);
                }
            }
            let life = clock.up_to(Time::from_nanos(now + 7)).life();
            prop_assert_eq!(life, Duration::from_nanos(now + 7 - from.unwrap_or_default()));
            clock.end(Time::from_nanos(now + 7));
            clock.set(Time::from_nanos(now + 9), Limit::Application, (0, None));
            prop_assert_eq!(clock.up_to(Time::from_nanos(now + 20)).life(), life);
        }
    }
}
