//! Requests and answers. Both hosts know the lengths of both, as if each began with its own: they draw them from the same
//! random streams.

use super::sizes::Sizes;
use super::timing::{Interval, Next};
use crate::measure::Histogram;
use crate::model::MessageSize;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};

/// The lengths of requests and answers.
#[derive(Clone, Debug)]
pub struct Lengths {
    requests: Sizes,
    answers: Sizes,
}

impl Lengths {
    /// Those of these distributions. Two that are made of the same `rng` are the same.
    pub fn new(request: MessageSize, response: MessageSize, rng: &Rng) -> Self {
        let sizes = |message, name| Sizes::new(message, rng.fork(name));
        Self { requests: sizes(request, "requests"), answers: sizes(response, "answers") }
    }
}

/// What the asking application is about.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It asks next at this moment.
    Thinking(Time),
    /// It asked at that moment, and so many bytes of the answer are left.
    Waiting { since: Time, left: u64 },
}

/// The application that asks, one request at a time.
#[derive(Clone, Debug)]
pub struct Client {
    lengths: Lengths,
    think: Interval,
    /// Requests to come, if they are counted.
    left: Option<u64>,
    stage: Stage,
    /// Answers that were read to the end.
    pub answers: u64,
    /// From a request's first byte written to its answer's last byte read.
    pub response_times: Histogram,
}

impl Client {
    pub(super) fn new(lengths: Lengths, think: Interval, count: Option<u64>, start: Time) -> Self {
        let (stage, response_times) = (Stage::Thinking(start), Histogram::new());
        Self { lengths, think, left: count, stage, answers: 0, response_times }
    }

    pub(super) fn next(&mut self, now: Time) -> Next {
        match self.stage {
            Stage::Waiting { .. } => Next::At(Time::MAX),
            Stage::Thinking(_) if self.left == Some(0) => Next::End,
            Stage::Thinking(until) if until > now => Next::At(until),
            Stage::Thinking(_) => {
                if let Some(left) = &mut self.left {
                    *left -= 1;
                }
                self.stage = Stage::Waiting { since: now, left: self.lengths.answers.draw() };
                Next::Message { len: self.lengths.requests.draw(), born: Some(now) }
            }
        }
    }

    pub(super) fn read(&mut self, now: Time, bytes: u64) {
        let Stage::Waiting { since, left } = &mut self.stage else { return };
        *left = left.saturating_sub(bytes);
        if *left == 0 {
            self.answers += 1;
            self.response_times.add(now.since(*since), 1);
            let think = if self.think.is_zero() { Duration::ZERO } else { self.think.draw() };
            self.stage = Stage::Thinking(now + think);
        }
    }
}

/// The application that answers.
#[derive(Clone, Debug)]
pub struct Server {
    lengths: Lengths,
    /// Bytes left of the request that it is reading.
    left: u64,
    /// Requests read and not yet answered.
    owed: u64,
}

impl Server {
    pub(super) fn new(mut lengths: Lengths) -> Self {
        let left = lengths.requests.draw();
        Self { lengths, left, owed: 0 }
    }

    pub(super) fn next(&mut self, now: Time) -> Next {
        if self.owed == 0 {
            return Next::At(Time::MAX);
        }
        self.owed -= 1;
        Next::Message { len: self.lengths.answers.draw(), born: Some(now) }
    }

    pub(super) fn read(&mut self, mut bytes: u64) {
        while bytes >= self.left {
            bytes -= self.left;
            self.left = self.lengths.requests.draw();
            self.owed += 1;
        }
        self.left -= bytes;
    }
}
