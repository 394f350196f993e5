//! Applications: the data that a host of a flow writes, and its timing.
//!
//! An application is a state machine. [`Application::poll`] returns its next step. The driver writes to the
//! transport and reports with [`Application::accepted`] the number of bytes that the transport accepted.
//! While the transport accepts nothing the application is not polled, so data produced at a given rate
//! accumulates and is sent later.

mod arrivals;
mod exchange;
mod on_off;
mod pattern;
mod recorded;
mod relay;
mod sizes;
mod timing;

pub use arrivals::ArrivalProcess;
pub use exchange::Client;
pub use sizes::Sizes;

use crate::model::Workload;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use pattern::Pattern;
use relay::Relay;
use timing::Next;

/// The next step of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write `len` bytes of a message that was created at `born`, not later than now.
    Write {
        /// Bytes; for an endless stream, more than any buffer holds.
        len: u64,
        /// Time at which the application had the data ready.
        born: Time,
    },
    /// Write nothing more and close.
    Close,
    /// The application has nothing to do until [`Application::wake`].
    Idle,
}

/// The rest of the message being written.
#[derive(Clone, Copy, Debug)]
struct Current {
    left: u64,
    born: Option<Time>,
}

/// The writing application at an end of a flow.
#[derive(Clone, Debug)]
pub struct Application {
    pattern: Pattern,
    current: Option<Current>,
    stop: Time,
    wake: Time,
    closed: bool,
    /// True if the application closed because its workload was complete, not because it was stopped.
    completed: bool,
}

impl Application {
    /// The application of a workload, from `start` until `stop`. `whole` is the default message size of
    /// protocols with messages.
    pub fn new(workload: &Workload, [start, stop]: [Time; 2], whole: Option<u64>, rng: &Rng) -> Self {
        let pattern = Pattern::new(workload, start, whole, rng);
        Self::of(pattern, start, stop)
    }

    /// The application that answers the requests of the application of `workload` with the same `rng`; `None`
    /// if the workload has no requests. It runs until the other end closes.
    pub fn answering(workload: &Workload, start: Time, rng: &Rng) -> Option<Self> {
        Pattern::answering(workload, rng).map(|pattern| Self::of(pattern, start, Time::MAX))
    }

    /// The application of a proxy, which writes the data [given](Self::give) to it.
    pub fn relaying() -> Self {
        Self::of(Pattern::Relay(Relay::default()), Time::MAX, Time::MAX)
    }

    const fn of(pattern: Pattern, start: Time, stop: Time) -> Self {
        Self { pattern, current: None, stop, wake: start, closed: false, completed: false }
    }

    /// Returns the next step.
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
                    self.completed = true;
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

    /// Reports that the transport accepted `bytes` of the data that [`poll`](Self::poll) offered.
    pub fn accepted(&mut self, bytes: u64) {
        if let Some(current) = &mut self.current {
            current.left -= bytes.min(current.left);
            if current.left == 0 {
                self.current = None;
            }
        }
    }

    /// Reports that the application has read `bytes` of the other end's data.
    pub fn read(&mut self, now: Time, bytes: u64) {
        match &mut self.pattern {
            Pattern::Client(client) => client.read(now, bytes),
            Pattern::Server(server) => server.read(bytes),
            _ => return,
        }
        self.wake = self.wake.min(now);
    }

    /// Passes `len` bytes to the application of a proxy, which were created at `born`.
    pub fn give(&mut self, now: Time, len: u64, born: Time) {
        if let Pattern::Relay(relay) = &mut self.pattern {
            relay.give(len, born);
            self.wake = self.wake.min(now);
        }
    }

    /// Reports to the application of a proxy that no more data will follow; returns whether this was new.
    pub fn give_end(&mut self, now: Time) -> bool {
        match &mut self.pattern {
            Pattern::Relay(relay) if !self.closed => {
                self.wake = self.wake.min(now);
                relay.end()
            }
            _ => false,
        }
    }

    /// Bytes that were given to a proxy and that the transport has not accepted.
    pub fn held(&self) -> u64 {
        match &self.pattern {
            Pattern::Relay(relay) => relay.held() + self.current.map_or(0, |current| current.left),
            _ => 0,
        }
    }

    /// Stops writing, because the other end has closed.
    pub const fn end(&mut self) {
        self.closed = true;
        self.wake = Time::MAX;
    }

    /// Results of a requesting application; `None` for other applications.
    pub fn client(&self) -> Option<&Client> {
        match &self.pattern {
            Pattern::Client(client) => Some(client),
            _ => None,
        }
    }

    /// True if the application only answers requests.
    pub const fn answers(&self) -> bool {
        matches!(self.pattern, Pattern::Server(_))
    }

    /// Discards the response times of the warm-up.
    pub fn restart_response_times(&mut self) {
        if let Pattern::Client(client) = &mut self.pattern {
            client.response_times.clear();
        }
    }

    /// The time at which the application stops writing in any case.
    pub const fn stop(&self) -> Time {
        self.stop
    }

    /// True if the application closed because its workload was complete.
    pub const fn completed(&self) -> bool {
        self.completed
    }

    /// The time of the application's next poll, without other events.
    pub const fn wake(&self) -> Time {
        self.wake
    }

    /// True if the application has closed.
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
