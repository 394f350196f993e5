//! Drop-tail queue.

use super::{Arrival, Backlog, Queue, QueueLimit};
use crate::keys::{InvalidValues, Keyed, Kind, Value, Values};
use crate::{DropCause, Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "fifo",
    summary: "first in, first out; packets beyond `limit` (packets or bytes) are dropped",
    source: "",
    keys: &[QueueLimit::key("\"100 packets\"")],
};

/// Settings of a drop-tail queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Capacity.
    pub limit: QueueLimit,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { limit: values.limit("limit") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("limit", Value::Limit(self.limit))]
    }
}

/// A queue that drops arriving frames when full.
#[derive(Clone, Debug)]
pub struct Fifo<F> {
    limit: QueueLimit,
    backlog: Backlog<F>,
}

impl<F: Frame> Fifo<F> {
    pub(super) fn new(settings: &Settings, _: u32, _: Rng) -> Self {
        Self { limit: settings.limit, backlog: Backlog::default() }
    }
}

impl<F: Frame> Queue<F> for Fifo<F> {
    #[inline]
    fn enqueue(&mut self, arrival: Arrival, frame: F, drops: &mut Drops<F>) {
        let (packets, bytes) = (self.packets() + 1, self.bytes() + u64::from(frame.wire_len()));
        if arrival.idle.is_none() && self.limit.exceeded_by(packets, bytes) {
            drops.drop(arrival.now, frame, DropCause::Queue);
        } else {
            self.backlog.push(frame);
        }
    }

    #[inline]
    fn dequeue(&mut self, _: Time, _: &mut Drops<F>) -> Option<F> {
        self.backlog.pop()
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.backlog.packets()
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    fn clear(&mut self, frames: &mut Vec<F>) {
        self.backlog.clear(frames);
    }

    fn take_all(&mut self, now: Time) -> Vec<(Time, F)> {
        self.backlog.take_all(now)
    }

    fn append(&mut self, _: Time, frame: F) {
        self.backlog.push(frame);
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
        self.backlog.visit(visit);
    }

    fn bypassed_when_idle(&self) -> bool {
        true
    }

    #[inline]
    fn peek_committed(&self, place: usize) -> Option<&F> {
        self.backlog.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::TestFrame;
    use anabranch_base::time::Duration;

    /// Number of these frames, offered consecutively, that a queue of this limit admits.
    fn admitted(limit: QueueLimit, idle: Option<Duration>, lengths: &[u32]) -> u64 {
        let mut queue = Fifo::new(&Settings { limit }, 1500, Rng::new(1));
        let mut drops = Drops::default();
        for &len in lengths {
            queue.enqueue(Arrival { now: Time::ZERO, idle }, TestFrame::new(0, len), &mut drops);
        }
        assert_eq!(queue.packets() + drops.counts()[DropCause::Queue as usize], lengths.len() as u64);
        queue.packets()
    }

    #[test]
    fn limits_admit_expected_frames() {
        assert_eq!(admitted(QueueLimit::Packets(2), None, &[40, 40, 500]), 2);
        assert_eq!(admitted(QueueLimit::Bytes(1000), None, &[500, 500]), 2);
        assert_eq!(admitted(QueueLimit::Bytes(1000), None, &[501, 500]), 1);
        // A packet larger than the whole queue still passes an idle link.
        assert_eq!(admitted(QueueLimit::Bytes(100), Some(Duration::ZERO), &[500]), 1);
    }
}
