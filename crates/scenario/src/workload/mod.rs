//! Applications: what a host of a flow writes, and when.
//!
//! An application is a state machine. [`Application::poll`] says what it wants to do now; whoever drives it writes to the
//! transport and reports with [`Application::accepted`] how much the transport took. While the transport takes nothing
//! the application is not asked, so what it produces at a given rate piles up in it and goes out later.

mod exchange;
mod pattern;
mod relay;
mod sizes;
mod timing;

pub use exchange::Client;
pub use sizes::Sizes;

use crate::model::Workload;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use pattern::Pattern;
use relay::Relay;
use timing::Next;

/// What an application wants to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write so many bytes of a message that was made at a moment not later than now.
    Write {
        /// Bytes; of an endless stream, more than any buffer holds.
        len: u64,
        /// When the application had them ready.
        born: Time,
    },
    /// Write nothing more and close.
    Close,
    /// Nothing, until [`Application::wake`].
    Idle,
}

/// What is left of the message being written.
#[derive(Clone, Copy, Debug)]
struct Current {
    left: u64,
    born: Option<Time>,
}

/// The application at an end of a flow that writes.
#[derive(Clone, Debug)]
pub struct Application {
    pattern: Pattern,
    current: Option<Current>,
    stop: Time,
    wake: Time,
    closed: bool,
    /// It closed because it had no more to say, not because its time was up.
    said_all: bool,
}

impl Application {
    /// The application that a workload asks for, from `start` until `stop`. `whole` is the message size of protocols
    /// that have messages, for workloads that do not say one.
    pub fn new(workload: &Workload, [start, stop]: [Time; 2], whole: Option<u64>, rng: &Rng) -> Self {
        let pattern = Pattern::new(workload, start, whole, rng);
        Self::of(pattern, start, stop)
    }

    /// The application that answers the requests of the one that `workload` asks for with the same `rng`, if that one has
    /// any. It goes on until the other closes.
    pub fn answering(workload: &Workload, start: Time, rng: &Rng) -> Option<Self> {
        Pattern::answering(workload, rng).map(|pattern| Self::of(pattern, start, Time::MAX))
    }

    /// The application of a proxy, which writes what it is [given](Self::give).
    pub fn relaying() -> Self {
        Self::of(Pattern::Relay(Relay::default()), Time::MAX, Time::MAX)
    }

    const fn of(pattern: Pattern, start: Time, stop: Time) -> Self {
        Self { pattern, current: None, stop, wake: start, closed: false, said_all: false }
    }

    /// What it wants to do now.
    pub fn poll(&mut self, now: Time) -> Step {
        if self.closed {
            return Step::Idle;
        }
        if now >= self.stop {
            return self.close();
        }
        if self.current.is_none() {
            match self.pattern.next(now) {
                Next::Message { len, born } => self.current = Some(Current { left: len, born }),
                Next::At(at) => {
                    self.wake = at.min(self.stop);
                    return Step::Idle;
                }
                Next::End => {
                    self.said_all = true;
                    return self.close();
                }
            }
        }
        self.wake = self.stop;
        match self.current {
            Some(Current { left, born }) => Step::Write { len: left, born: born.unwrap_or(now) },
            None => Step::Idle,
        }
    }

    /// The transport took so many bytes of what [`poll`](Self::poll) offered.
    pub fn accepted(&mut self, bytes: u64) {
        if let Some(current) = &mut self.current {
            current.left -= bytes.min(current.left);
            if current.left == 0 {
                self.current = None;
            }
        }
    }

    /// It read so many bytes of what the other end writes.
    pub fn read(&mut self, now: Time, bytes: u64) {
        match &mut self.pattern {
            Pattern::Client(client) => client.read(now, bytes),
            Pattern::Server(server) => server.read(bytes),
            _ => return,
        }
        self.wake = self.wake.min(now);
    }

    /// A proxy has read so many bytes, which were made at `born`.
    pub fn give(&mut self, now: Time, len: u64, born: Time) {
        if let Pattern::Relay(relay) = &mut self.pattern {
            relay.give(len, born);
            self.wake = self.wake.min(now);
        }
    }

    /// A proxy has read all there will be; whether that is news.
    pub fn give_end(&mut self, now: Time) -> bool {
        match &mut self.pattern {
            Pattern::Relay(relay) if !self.closed => {
                self.wake = self.wake.min(now);
                relay.end()
            }
            _ => false,
        }
    }

    /// Bytes that a proxy has been given and the transport has not taken.
    pub fn held(&self) -> u64 {
        match &self.pattern {
            Pattern::Relay(relay) => relay.held() + self.current.map_or(0, |current| current.left),
            _ => 0,
        }
    }

    /// The other end has closed, and there is nobody to write for.
    pub const fn end(&mut self) {
        self.closed = true;
        self.wake = Time::MAX;
    }

    /// What it learnt as one that asks, if it is one.
    pub fn client(&self) -> Option<&Client> {
        match &self.pattern {
            Pattern::Client(client) => Some(client),
            _ => None,
        }
    }

    /// Whether it writes only what it is asked for.
    pub const fn answers(&self) -> bool {
        matches!(self.pattern, Pattern::Server(_))
    }

    /// Forgets the response times so far, at the end of the warm-up.
    pub fn restart_response_times(&mut self) {
        if let Pattern::Client(client) = &mut self.pattern {
            client.response_times.clear();
        }
    }

    /// When it stops writing, whatever it has to write.
    pub const fn stop(&self) -> Time {
        self.stop
    }

    /// Whether it closed because it had no more to say.
    pub const fn said_all(&self) -> bool {
        self.said_all
    }

    /// When to poll it again, if nothing else happens.
    pub const fn wake(&self) -> Time {
        self.wake
    }

    /// Whether it has closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    const fn close(&mut self) -> Step {
        self.end();
        Step::Close
    }
}

#[cfg(test)]
mod tests;
