//! Requests and responses. Both hosts know the lengths of both, as if each message began with its length:
//! they draw them from the same random streams.

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
    /// Sizes with these distributions. Two instances with the same `rng` are equal.
    pub fn new(request: &MessageSize, response: &MessageSize, rng: &Rng) -> Self {
        let sizes = |message: &MessageSize, name| Sizes::new(message.clone(), rng.fork(name));
        Self { requests: sizes(request, "requests"), answers: sizes(response, "answers") }
    }
}

/// The state of the requesting application.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The next request is sent at this time.
    Thinking(Time),
    /// The client has sent a request at `since`, and `left` bytes of the response are missing.
    Waiting { since: Time, left: u64 },
}

/// The requesting application, with one request at a time.
#[derive(Clone, Debug)]
pub struct Client {
    lengths: Lengths,
    think: Interval,
    /// Remaining requests; `None` for no limit.
    left: Option<u64>,
    stage: Stage,
    /// Completely read responses.
    pub answers: u64,
    /// From writing a request's first byte to reading its response's last byte.
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
    /// Bytes left of the request that is being read.
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
