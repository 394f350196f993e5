//! Calls of the stack that wait.

use super::values::mistake;
use crate::stopwatch::Stopwatch;
use anabranch_net::Queue;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread::Thread;
use std::time::Duration;

/// Interval at which a waiting call lets Python handle signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Converts the result of a call to a Python object.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

enum State {
    Waiting(Pin<Box<dyn Future<Output = Answer> + Send>>),
    Ready(Answer),
    Over,
}

/// A call that has begun. `wait` waits for its answer in the calling thread; an event loop polls it by `Calls`.
#[pyclass(frozen)]
pub(crate) struct Call {
    state: Mutex<State>,
}

impl Call {
    /// A call whose result becomes a Python object by `into`.
    pub(super) fn new<T: Send + 'static>(
        work: impl Future<Output = PyResult<T>> + Send + 'static,
        into: fn(Python<'_>, T) -> PyResult<Py<PyAny>>,
    ) -> Self {
        let work = async move {
            let result = work.await;
            let answer: Answer = Box::new(move |py| into(py, result?));
            answer
        };
        Self { state: Mutex::new(State::Waiting(Box::pin(work))) }
    }

    /// A call without a result.
    pub(super) fn empty(work: impl Future<Output = PyResult<()>> + Send + 'static) -> Self {
        Self::new(work, |py, ()| Ok(py.None()))
    }

    /// A call with a text as its result.
    pub(super) fn text(work: impl Future<Output = PyResult<String>> + Send + 'static) -> Self {
        Self::new(work, |py, text| Ok(text.into_pyobject(py)?.into_any().unbind()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with the call. Returns whether it has an answer.
    fn poll(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        if let State::Waiting(work) = &mut *state {
            match work.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Pending => return false,
                Poll::Ready(answer) => *state = State::Ready(answer),
            }
        }
        true
    }
}

#[pymethods]
impl Call {
    /// Waits for the answer with the interpreter released, at most for `timeout_s` seconds; then `TimeoutError` is raised
    /// and the call has ended. Signals are handled meanwhile.
    #[pyo3(signature = (timeout_s = None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<Py<PyAny>> {
        let timeout = match timeout_s.map(Duration::try_from_secs_f64) {
            None => None,
            Some(Ok(timeout)) => Some(timeout.as_secs_f64()),
            Some(Err(_)) => {
                self.cancel();
                return Err(mistake("a timeout must be a number of seconds from 0 on, or None".to_owned()));
            }
        };
        let (started, parked) = (Stopwatch::start(), Parked::this_thread());
        let waker = Waker::from(Arc::clone(&parked));
        while !py.detach(|| self.poll(&waker)) {
            loop {
                let left = timeout.map(|timeout| timeout - started.seconds());
                let longest = left.map_or(SIGNAL_INTERVAL, |left| {
                    SIGNAL_INTERVAL.min(Duration::try_from_secs_f64(left).unwrap_or_default())
                });
                if py.detach(|| parked.park(longest)) {
                    break;
                }
                let over = match py.check_signals() {
                    Ok(()) if left.is_some_and(|left| left <= 0.0) => {
                        PyTimeoutError::new_err("the call has timed out")
                    }
                    Ok(()) => continue,
                    Err(interrupted) => interrupted,
                };
                self.cancel();
                return Err(over);
            }
        }
        self.answer(py)
    }

    /// The answer of a call that has one; it is returned once.
    fn answer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = core::mem::replace(&mut *self.lock(), State::Over);
        match state {
            State::Ready(answer) => answer(py),
            State::Waiting(_) | State::Over => Err(PyRuntimeError::new_err("the call has no answer")),
        }
    }

    /// Ends the call.
    fn cancel(&self) {
        let state = core::mem::replace(&mut *self.lock(), State::Over);
        // Outside the lock, since it may own the last handle of a connection.
        drop(state);
    }
}

/// A thread that waits for a call.
struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

thread_local! {
    /// One waker for all calls of the thread: a connection stores each waker once, also after timeouts.
    static PARKED: Arc<Parked> =
        Arc::new(Parked { thread: std::thread::current(), woken: AtomicBool::new(false) });
}

impl Parked {
    fn this_thread() -> Arc<Self> {
        PARKED.with(Arc::clone)
    }

    /// Waits until the thread is woken, at most for this time. Returns whether it was woken.
    fn park(&self, longest: Duration) -> bool {
        if !self.woken.load(Ordering::Acquire) {
            std::thread::park_timeout(longest);
        }
        self.woken.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A waiting call of an event loop.
struct Task {
    queue: Arc<Queue<u64>>,
    key: u64,
    /// The call's key is in the queue.
    is_queued: AtomicBool,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            // A queue that the loop has dropped needs no keys.
            let _ = self.queue.send(self.key);
        }
    }
}

#[derive(Default)]
struct Tasks {
    used: BTreeMap<u64, (Arc<Task>, Waker)>,
    /// Tasks of ended calls, for further calls: connections may still keep their wakers.
    free: Vec<(Arc<Task>, Waker)>,
    next_key: u64,
}

/// The waiting calls of an event loop. Its descriptor is readable while calls have to be polled.
#[pyclass(frozen)]
pub(crate) struct Calls {
    queue: Arc<Queue<u64>>,
    tasks: Mutex<Tasks>,
}

impl Calls {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Calls {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self { queue: Queue::new()?, tasks: Mutex::default() })
    }

    /// The descriptor.
    fn fd(&self) -> i32 {
        self.queue.fd().as_raw_fd()
    }

    /// A key for a call.
    fn begin(&self) -> u64 {
        let mut tasks = self.tasks();
        let task = tasks.free.pop().unwrap_or_else(|| {
            let key = tasks.next_key;
            tasks.next_key += 1;
            let task =
                Arc::new(Task { queue: Arc::clone(&self.queue), key, is_queued: AtomicBool::new(false) });
            (Arc::clone(&task), Waker::from(task))
        });
        let key = task.0.key;
        tasks.used.insert(key, task);
        key
    }

    /// Polls a call. Returns true if its answer is ready; otherwise `take` returns `key` once the answer is ready.
    fn poll(&self, key: u64, call: &Call) -> bool {
        let task = self.tasks().used.get(&key).map(|(task, waker)| (Arc::clone(task), waker.clone()));
        let Some((task, waker)) = task else { return true };
        task.is_queued.store(false, Ordering::Release);
        call.poll(&waker)
    }

    /// Releases a key.
    fn end(&self, key: u64) {
        let mut tasks = self.tasks();
        if let Some(task) = tasks.used.remove(&key) {
            tasks.free.push(task);
        }
    }

    /// The keys of the calls to poll.
    fn take(&self) -> Vec<u64> {
        self.queue.take()
    }
}
