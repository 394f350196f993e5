//! A machine that two threads call: one plays the network and lets time pass, one makes calls that block.

use crate::Errno;
use crate::machine::Machine;
use crate::settings::Settings;
use anabranch_base::time::{Duration, Time};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Longest real time for which the thread of the network waits for a call that has returned to be noticed.
const NOTICE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
/// Virtual time that passes when a thread reads the clock: packetdrill waits by reading it.
const CLOCK_READ_TIME: Duration = Duration::from_micros(1);

/// A machine with its lock. The thread that created it plays the network.
///
/// A blocking call ends at the virtual time at which its result exists: the thread of the network stops until the other
/// one has evaluated its call, and, if the call has returned, has read the clock.
pub struct Shared {
    state: Mutex<Calls>,
    /// Notifies the thread of the blocking call of a change.
    changed: Condvar,
    /// Notifies the thread of the network of the evaluation.
    evaluated: Condvar,
    network: ThreadId,
}

struct Calls {
    machine: Machine,
    /// Number of changes since the start.
    changes: u64,
    /// Number of changes that the blocking call has evaluated; `None` without one.
    waiting: Option<u64>,
    /// True from the return of a blocking call until its thread has read the clock.
    returned: bool,
}

impl Shared {
    /// A machine for this thread as the network.
    pub fn new(settings: Settings) -> Self {
        let machine = Machine::new(settings);
        Self {
            state: Mutex::new(Calls { machine, changes: 0, waiting: None, returned: false }),
            changed: Condvar::new(),
            evaluated: Condvar::new(),
            network: thread::current().id(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_network(&self) -> bool {
        thread::current().id() == self.network
    }

    /// True while a call of another thread waits.
    pub fn has_waiting_call(&self) -> bool {
        self.lock().waiting.is_some()
    }

    /// Makes a call that returns at once.
    pub fn call<T>(&self, act: impl FnOnce(&mut Machine) -> T) -> T {
        let mut calls = self.lock();
        let result = act(&mut calls.machine);
        if self.is_network() {
            drop(self.let_evaluate(calls));
        }
        result
    }

    /// Makes a call that waits while it would return `EAGAIN`, unless the socket is non-blocking.
    ///
    /// # Errors
    /// Those of the call; `EDEADLK` if the thread of the network would wait, because then no time passes.
    pub fn wait<T>(
        &self,
        fd: i32,
        mut act: impl FnMut(&mut Machine) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut calls = self.lock();
        let blocks = !calls.machine.of(fd)?.nonblocking;
        loop {
            let result = act(&mut calls.machine);
            if !blocks || !matches!(result, Err(libc::EAGAIN)) {
                calls.returned = calls.waiting.take().is_some();
                self.evaluated.notify_all();
                return result;
            }
            if self.is_network() {
                return Err(libc::EDEADLK);
            }
            calls.waiting = Some(calls.changes);
            self.evaluated.notify_all();
            calls = self.changed.wait(calls).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The time now. Reading it lets time pass, except right after a blocking call of this thread.
    pub fn read_clock(&self) -> Time {
        let mut calls = self.lock();
        if calls.returned && !self.is_network() {
            calls.returned = false;
            self.evaluated.notify_all();
            return calls.machine.now();
        }
        calls.machine.sleep(CLOCK_READ_TIME);
        self.let_evaluate(calls).machine.now()
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Duration) {
        let mut calls = self.lock();
        let end = calls.machine.now() + span;
        // A blocking call may return at any of the timers.
        while let Some(due) = calls.machine.next_timeout().filter(|due| *due < end) {
            let step = due.since(calls.machine.now());
            calls.machine.sleep(step);
            calls = self.let_evaluate(calls);
        }
        let rest = end.since(calls.machine.now());
        calls.machine.sleep(rest);
        drop(self.let_evaluate(calls));
    }

    /// Takes the next packet of the machine with its time: [`Machine::next_packet`].
    pub fn next_packet(&self) -> Option<(Vec<u8>, Time)> {
        let mut calls = self.lock();
        loop {
            if calls.machine.has_packet() {
                return calls.machine.next_packet();
            }
            // A blocking call may send.
            let step = calls.machine.next_timeout()?.since(calls.machine.now());
            calls.machine.sleep(step);
            calls = self.let_evaluate(calls);
        }
    }

    /// Waits until the blocking call has evaluated the present state.
    fn let_evaluate<'a>(&'a self, mut calls: MutexGuard<'a, Calls>) -> MutexGuard<'a, Calls> {
        calls.changes += 1;
        if calls.waiting.is_some() {
            self.changed.notify_all();
        }
        let behind = |calls: &mut Calls| {
            calls.returned || calls.waiting.is_some_and(|evaluated| evaluated < calls.changes)
        };
        let waited = self.evaluated.wait_timeout_while(calls, NOTICE_TIMEOUT, behind);
        let (mut calls, _) = waited.unwrap_or_else(PoisonError::into_inner);
        calls.returned = false;
        calls
    }
}
