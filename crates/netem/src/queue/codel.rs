//! CoDel: K. Nichols, V. Jacobson, A. McGregor, J. Iyengar: Controlled Delay Active Queue Management, RFC 8289.
//!
//! Every packet carries its time of admission. When packets have waited for longer than `target` for a whole
//! `interval`, one is dropped at the head of the queue. More are dropped at intervals that shrink with the
//! square root of their number, until a packet has waited for less than `target`.

use super::{Arrival, Queue, QueueLimit};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use crate::{DropCause, Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use std::collections::VecDeque;

/// The key `target`.
pub(super) const TARGET: Key = Key {
    name: "target",
    takes: Takes::Time,
    default: Default::Is("\"5 ms\""),
    doc: "Acceptable waiting time; longer waits are tolerated for up to `interval`. RFC 8289 §4.2 advises 5 to 10 % of `interval`.",
};

/// The key `interval`.
pub(super) const INTERVAL: Key = Key {
    name: "interval",
    takes: Takes::Time,
    default: Default::Is("\"100 ms\""),
    doc: "Time for which packets must have exceeded `target` before one is dropped: about the longest usual round-trip time.",
};

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "codel",
    summary: "drops (or marks, `ecn`) at the head while packets wait longer than `target` for an `interval`",
    source: "RFC 8289",
    keys: &[
        QueueLimit::key("\"1000 packets\""),
        TARGET,
        INTERVAL,
        Key {
            name: "ecn",
            takes: Takes::Flag,
            default: Default::Is("false"),
            doc: "Mark packets of ECN-capable flows instead of dropping them.",
        },
    ],
};

/// Settings of the control law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Acceptable waiting time of packets.
    pub target: Duration,
    /// Time for which packets must have exceeded the target.
    pub interval: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Law {
    pub(super) fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        let (target, interval) = (values.time("target"), values.time("interval"));
        if target >= interval {
            let millis = |time: Duration| time.as_nanos() as f64 / 1e6;
            let problem = format!(
                "must be below its queue.interval ({} ms), but is {} ms",
                millis(interval),
                millis(target)
            );
            return Err(InvalidValues { keys: &["target", "interval"], problem });
        }
        Ok(Self { target, interval, ecn: values.flag("ecn") })
    }

    pub(super) fn values(self) -> [(&'static str, Value); 3] {
        [
            ("target", Value::Time(self.target)),
            ("interval", Value::Time(self.interval)),
            ("ecn", Value::Flag(self.ecn)),
        ]
    }
}

/// Settings of a CoDel queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Capacity.
    pub limit: QueueLimit,
    /// The control law.
    pub law: Law,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { limit: values.limit("limit"), law: Law::read(values)? })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let mut values = vec![("limit", Value::Limit(self.limit))];
        values.extend(self.law.values());
        values
    }
}

/// Waiting frames with their time of admission, under the control law.
#[derive(Clone, Debug)]
pub(super) struct Controlled<F> {
    law: Law,
    /// Length of the largest packet, bytes: a queue of at most this length is not controlled.
    enough: u64,
    frames: VecDeque<(Time, F)>,
    bytes: u64,
    /// Time at which packets will have exceeded the target for an interval; `None` if they do not exceed it now.
    first_above: Option<Time>,
    /// True during a dropping phase.
    dropping: bool,
    /// Time of the next drop in a dropping phase. After the phase: the time at which the next drop would have been.
    drop_next: Time,
    /// Number of packets dropped in this phase, and the value of this number at the start of the phase.
    count: u32,
    last_count: u32,
}

impl<F: Frame> Controlled<F> {
    pub(super) fn new(law: Law, mtu: u32) -> Self {
        Self {
            law,
            enough: mtu.into(),
            frames: VecDeque::new(),
            bytes: 0,
            first_above: None,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    pub(super) fn packets(&self) -> u64 {
        self.frames.len() as u64
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, now: Time, frame: F) {
        self.bytes += u64::from(frame.wire_len());
        self.frames.push_back((now, frame));
    }

    /// The frame at the head and its time of admission, without the control law.
    pub(super) fn pop(&mut self) -> Option<(Time, F)> {
        let (since, frame) = self.frames.pop_front()?;
        self.bytes -= u64::from(frame.wire_len());
        Some((since, frame))
    }

    /// Calls `visit` for every frame, oldest first.
    pub(super) fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
        self.frames.iter_mut().for_each(|(_, frame)| visit(frame));
    }

    /// The next frame to transmit (RFC 8289 §5.5, `codel_queue_t::deque`, with marking as in Linux); `None` once empty.
    pub(super) fn dequeue(&mut self, now: Time, drops: &mut Drops<F>) -> Option<F> {
        let (mut frame, mut may_drop) = self.dequeue_head(now)?;
        if self.dropping {
            // A wait below the target ends the phase.
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.law.ecn && frame.ecn_capable() {
                    drops.mark(&mut frame);
                    self.drop_next = self.after(self.drop_next);
                    break;
                }
                drops.drop(now, frame, DropCause::Aqm);
                (frame, may_drop) = self.dequeue_head(now)?;
                self.dropping = may_drop;
                if self.dropping {
                    self.drop_next = self.after(self.drop_next);
                }
            }
        } else if may_drop {
            if self.law.ecn && frame.ecn_capable() {
                drops.mark(&mut frame);
            } else {
                drops.drop(now, frame, DropCause::Aqm);
                (frame, _) = self.dequeue_head(now)?;
            }
            self.begin_dropping(now);
        }
        Some(frame)
    }

    /// Begins a dropping phase. Soon after the previous one, it begins with the drop rate of that phase.
    fn begin_dropping(&mut self, now: Time) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < self.law.interval.saturating_mul(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.after(now);
        self.last_count = self.count;
    }

    /// The control law: `moment` plus the interval divided by the square root of the count.
    fn after(&self, moment: Time) -> Time {
        let nanos = self.law.interval.as_nanos() as f64 / libm::sqrt(f64::from(self.count.max(1)));
        moment + Duration::from_nanos(nanos as u64)
    }

    /// Removes the frame at the head, and returns whether it may be dropped (`dodequeue`).
    fn dequeue_head(&mut self, now: Time) -> Option<(F, bool)> {
        let Some((since, frame)) = self.pop() else {
            self.first_above = None;
            return None;
        };
        if now.since(since) < self.law.target || self.bytes <= self.enough {
            self.first_above = None;
            return Some((frame, false));
        }
        let first_above = *self.first_above.get_or_insert(now + self.law.interval);
        Some((frame, now >= first_above))
    }
}

/// A queue with CoDel.
#[derive(Clone, Debug)]
pub struct Codel<F> {
    limit: QueueLimit,
    frames: Controlled<F>,
}

impl<F: Frame> Codel<F> {
    pub(super) fn new(settings: &Settings, mtu: u32, _: Rng) -> Self {
        Self { limit: settings.limit, frames: Controlled::new(settings.law, mtu) }
    }
}

impl<F: Frame> Queue<F> for Codel<F> {
    #[inline(never)]
    fn enqueue(&mut self, arrival: Arrival, frame: F, drops: &mut Drops<F>) {
        let (packets, bytes) = (self.packets() + 1, self.bytes() + u64::from(frame.wire_len()));
        if arrival.idle.is_none() && self.limit.exceeded_by(packets, bytes) {
            drops.drop(arrival.now, frame, DropCause::Queue);
        } else {
            self.frames.push(arrival.now, frame);
        }
    }

    #[inline(never)]
    fn dequeue(&mut self, now: Time, drops: &mut Drops<F>) -> Option<F> {
        self.frames.dequeue(now, drops)
    }

    fn packets(&self) -> u64 {
        self.frames.packets()
    }

    fn bytes(&self) -> u64 {
        self.frames.bytes()
    }

    fn clear(&mut self, frames: &mut Vec<F>) {
        while let Some((_, frame)) = self.frames.pop() {
            frames.push(frame);
        }
    }

    fn take_all(&mut self, _: Time) -> Vec<(Time, F)> {
        core::iter::from_fn(|| self.frames.pop()).collect()
    }

    fn append(&mut self, since: Time, frame: F) {
        self.frames.push(since, frame);
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
        self.frames.visit(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::TestFrame;

    const LIMIT: QueueLimit = QueueLimit::Packets(1000);

    fn ms(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// A queue with the default target and interval in which `packets` packets of 1000 bytes have waited
    /// since the start.
    fn queue(packets: u32, ecn: bool) -> Codel<TestFrame> {
        let law = Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn };
        let mut queue = Codel::new(&Settings { limit: LIMIT, law }, 1500, Rng::new(1));
        let mut drops = Drops::default();
        for id in 0..packets {
            let frame = TestFrame { ecn, ..TestFrame::new(id, 1000) };
            queue.enqueue(Arrival { now: Time::ZERO, idle: None }, frame, &mut drops);
        }
        assert!(drops.is_empty());
        queue
    }

    /// Removes a packet every millisecond from `from` until before `to`; returns the times of drops or
    /// marks.
    fn serve(queue: &mut Codel<TestFrame>, from: u64, to: u64) -> Vec<u64> {
        let mut drops = Drops::default();
        let mut times = Vec::new();
        for now in from..to {
            let marks = drops.marks();
            queue.dequeue(ms(now), &mut drops).expect("there are enough packets");
            times.extend((marks < drops.marks()).then_some(now));
        }
        times.extend(drops.take().iter().map(|dropped| dropped.at.as_nanos() / 1_000_000));
        times
    }

    #[test]
    fn drop_times_equal_times_computed_by_hand() {
        // Packets exceed the target from 5 ms on, for an interval by 105 ms: the first drop. The next ones
        // are 100/√1 ms, 100/√2 = 70.71 ms, 57.74 ms, 50 ms, 44.72 ms and 40.82 ms later: at 205, 275.71,
        // 333.45, 383.45, 428.17 and 468.99 ms, each at the first packet of the millisecond grid that leaves
        // then or later.
        let mut queue = queue(1000, false);
        assert_eq!(serve(&mut queue, 1, 470), [105, 205, 276, 334, 384, 429, 469]);
    }

    #[test]
    fn mark_times_equal_drop_times() {
        let mut marking = queue(1000, true);
        assert_eq!(serve(&mut marking, 1, 470), [105, 205, 276, 334, 384, 429, 469]);
        assert_eq!(marking.packets(), 1000 - 469, "no packet was dropped");
    }

    #[test]
    fn overdue_drops_happen_together() {
        // No dequeue between 206 and 400 ms: the drops of 275.71, 333.45 and 383.45 ms happen together.
        let mut queue = queue(1000, false);
        assert_eq!(serve(&mut queue, 1, 206), [105, 205]);
        assert_eq!(serve(&mut queue, 400, 401), [400, 400, 400]);
        assert_eq!(serve(&mut queue, 401, 430), [429]);
    }

    #[test]
    fn new_dropping_phase_continues_at_earlier_rate() {
        let mut queue = queue(470, false);
        // Six drops by 461 ms; then the last three packets leave, and less than a packet waits behind the second.
        assert_eq!(serve(&mut queue, 1, 462).len(), 6);
        assert_eq!(queue.packets(), 470 - 461 - 6);
        let mut drops = Drops::default();
        while queue.dequeue(ms(462), &mut drops).is_some() {}
        assert!(drops.is_empty() && !queue.frames.dropping);
        for id in 0..200 {
            queue.enqueue(Arrival { now: ms(700), idle: None }, TestFrame::new(id, 1000), &mut drops);
        }
        // The packets exceed the target at 705 ms, and for an interval by 805 ms. The earlier phase increased the count
        // from 1 to 6. This phase begins with 5: its drops follow 100/√5 = 44.72 ms and then 100/√6 = 40.82 ms later.
        assert_eq!(serve(&mut queue, 701, 892), [805, 850, 891]);
    }

    #[test]
    fn queue_below_one_packet_is_not_controlled() {
        // Two packets: behind the first, the queue has 1000 bytes, which is less than the MTU.
        let mut queue = queue(2, false);
        let mut drops = Drops::default();
        assert_eq!(queue.dequeue(ms(1000), &mut drops).map(|frame| frame.id), Some(0));
        assert_eq!(queue.dequeue(ms(2000), &mut drops).map(|frame| frame.id), Some(1));
        assert_eq!(queue.dequeue(ms(3000), &mut drops), None);
        assert!(drops.is_empty());
    }

    #[test]
    fn full_queue_drops_arriving_packets() {
        let mut queue = queue(1000, false);
        let mut drops = Drops::default();
        queue.enqueue(Arrival { now: ms(1), idle: None }, TestFrame::new(1000, 1000), &mut drops);
        assert_eq!(drops.counts()[DropCause::Queue as usize], 1);
        assert_eq!(drops.take()[0].frame.id, 1000);
    }

    #[test]
    fn target_above_interval_is_refused() {
        let time = |millis| Value::Time(Duration::from_millis(millis));
        let values = [("target", time(100)), ("interval", time(100)), ("ecn", Value::Flag(false))];
        assert_eq!(Law::read(Values(&values)).unwrap_err().keys, ["target", "interval"]);
    }
}
