//! The application at an end of a flow, shared by its writing and its reading thread.

use super::schedule::Schedule;
use super::span::{MAX_SLEEP, Span};
use anabranch_base::time::{Duration, Time};
use anabranch_scenario::workload::{Application, Client, Step};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A writing application whose writes may depend on its reads.
#[derive(Debug)]
pub struct SharedApplication {
    state: Mutex<State>,
    news: Condvar,
    warmup: Time,
    /// Times at which the application may write; `None` for always. At other times its clock stands still.
    schedule: Option<Schedule>,
}

#[derive(Debug)]
struct State {
    application: Application,
    /// True until the end of the warm-up has been processed.
    warming_up: bool,
}

impl SharedApplication {
    /// Runs this application in a run whose measured part begins at `warmup`.
    pub fn new(application: Application, warmup: Time) -> Self {
        let state = Mutex::new(State { application, warming_up: true });
        Self { state, news: Condvar::new(), warmup, schedule: None }
    }

    /// Restricts the times of writing to this schedule; `None` permits all times.
    pub fn with_schedule(self, schedule: Option<Schedule>) -> Self {
        Self { schedule, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The lock may be poisoned: the thread that panicked ends the run anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The application's next step. An ended application closes.
    pub fn poll(&self, now: Time) -> Step {
        let Some(schedule) = &self.schedule else { return self.step(now) };
        if !schedule.is_on(now) {
            return Step::Idle;
        }
        match self.step(schedule.active(now)) {
            Step::Write { len, born } => Step::Write { len, born: schedule.real(born) },
            step => step,
        }
    }

    fn step(&self, now: Time) -> Step {
        let application = &mut self.state().application;
        match application.poll(now) {
            Step::Idle if application.is_closed() => Step::Close,
            step => step,
        }
    }

    /// Records that the transport accepted `bytes` bytes.
    pub fn accepted(&self, bytes: u64) {
        self.state().application.accepted(bytes);
    }

    /// Records that `bytes` bytes of the other end have been read.
    pub fn read(&self, now: Time, bytes: u64) {
        let mut state = self.state();
        state.end_warmup(now, self.warmup);
        state.application.read(now, bytes);
        drop(state);
        self.news.notify_one();
    }

    /// Reports that the other end has closed: an answering application need not wait for further requests.
    pub fn end_input(&self) {
        let mut state = self.state();
        if state.application.answers() {
            state.application.end();
        }
        drop(state);
        self.news.notify_one();
    }

    /// The time of the application's next poll.
    pub fn wake(&self) -> Time {
        self.real(self.state().application.wake())
    }

    /// A time of the application by the clock of the run.
    fn real(&self, time: Time) -> Time {
        self.schedule.as_ref().map_or(time, |schedule| schedule.real(time))
    }

    /// Sleeps until the application is due to write or has read data, but at most for [`MAX_SLEEP`].
    pub fn sleep(&self, span: &Span) {
        let state = self.state();
        let now = span.now();
        let on = self.schedule.as_ref().map_or(now, |schedule| schedule.next_on(now));
        let wake = self.real(state.application.wake()).max(on);
        let left = wake.min(span.until).since(now).min(MAX_SLEEP);
        if left > Duration::ZERO {
            let left = std::time::Duration::from_nanos(left.as_nanos());
            drop(self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Results of a requesting application until `now`; `None` for other applications.
    pub fn client(&self, now: Time) -> Option<Client> {
        let mut state = self.state();
        state.end_warmup(now, self.warmup);
        state.application.client().cloned()
    }
}

impl State {
    /// Discards the results of the warm-up, once that is over.
    fn end_warmup(&mut self, now: Time, warmup: Time) {
        if self.warming_up && now >= warmup {
            self.warming_up = false;
            self.application.restart_response_times();
        }
    }
}
