//! The application at an end of a flow, shared by the thread that writes for it and the one that reads for it.

use super::span::{LONGEST_SLEEP, Span};
use anabranch_base::time::{Duration, Time};
use anabranch_scenario::workload::{Application, Client, Step};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An application that writes, and that may learn from what is read what to write next.
#[derive(Debug)]
pub struct Speaker {
    state: Mutex<State>,
    news: Condvar,
    warmup: Time,
}

#[derive(Debug)]
struct State {
    application: Application,
    /// The warm-up has not ended yet, as far as was seen.
    cold: bool,
}

impl Speaker {
    /// This application, in a run whose measured part begins at `warmup`.
    pub fn new(application: Application, warmup: Time) -> Self {
        Self { state: Mutex::new(State { application, cold: true }), news: Condvar::new(), warmup }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it ends the run anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it wants to do now. One that was ended closes.
    pub fn poll(&self, now: Time) -> Step {
        let application = &mut self.state().application;
        match application.poll(now) {
            Step::Idle if application.is_closed() => Step::Close,
            step => step,
        }
    }

    /// The transport took so many bytes.
    pub fn accepted(&self, bytes: u64) {
        self.state().application.accepted(bytes);
    }

    /// So many bytes of the other end have been read.
    pub fn read(&self, now: Time, bytes: u64) {
        let mut state = self.state();
        state.warm(now, self.warmup);
        state.application.read(now, bytes);
        drop(state);
        self.news.notify_one();
    }

    /// The other end writes nothing more: one that answers has nothing to wait for.
    pub fn heard_all(&self) {
        let mut state = self.state();
        if state.application.answers() {
            state.application.end();
        }
        drop(state);
        self.news.notify_one();
    }

    /// When it wants to be asked again.
    pub fn wake(&self) -> Time {
        self.state().application.wake()
    }

    /// Sleeps until it wants something, has learnt something, or for [`LONGEST_SLEEP`].
    pub fn sleep(&self, span: &Span) {
        let state = self.state();
        let left = state.application.wake().min(span.until).since(span.now()).min(LONGEST_SLEEP);
        if left > Duration::ZERO {
            let left = std::time::Duration::from_nanos(left.as_nanos());
            drop(self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What it learnt by `now` as one that asks, if it is one.
    pub fn client(&self, now: Time) -> Option<Client> {
        let mut state = self.state();
        state.warm(now, self.warmup);
        state.application.client().cloned()
    }
}

impl State {
    /// Forgets what came before the end of the warm-up, once that is over.
    fn warm(&mut self, now: Time, warmup: Time) {
        if self.cold && now >= warmup {
            self.cold = false;
            self.application.restart_response_times();
        }
    }
}
