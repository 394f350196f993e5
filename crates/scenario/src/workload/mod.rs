//! Applications: what a flow's sending host writes, and when.
//!
//! An application is a state machine. [`Application::poll`] says what it wants to do now; whoever drives it writes to the
//! transport and reports with [`Application::accepted`] how much the transport took. While the transport takes nothing
//! the application is not asked, so what it produces at a given rate piles up in it and goes out later.

mod pattern;
mod sizes;

pub use sizes::Sizes;

use crate::model::Workload;
use multipath::rng::Rng;
use multipath::time::Time;
use pattern::{Next, Pattern};

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

/// The application at the sending end of a flow.
#[derive(Clone, Debug)]
pub struct Application {
    pattern: Pattern,
    current: Option<Current>,
    stop: Time,
    wake: Time,
    closed: bool,
}

impl Application {
    /// The application that a workload asks for, from `start` until `stop`. `whole` is the message size of protocols
    /// that have messages, for workloads that do not say one.
    pub fn new(workload: &Workload, [start, stop]: [Time; 2], whole: Option<u64>, rng: &Rng) -> Self {
        let pattern = Pattern::new(workload, start, whole, rng);
        Self { pattern, current: None, stop, wake: start, closed: false }
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
                Next::End => return self.close(),
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

    /// When to poll it again, if nothing else happens.
    pub const fn wake(&self) -> Time {
        self.wake
    }

    /// Whether it has closed.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    fn close(&mut self) -> Step {
        self.closed = true;
        self.wake = Time::MAX;
        Step::Close
    }
}

#[cfg(test)]
mod tests;
