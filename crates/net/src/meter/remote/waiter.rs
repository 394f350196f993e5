//! Waits of a thread for the calls of a [`Stack`](crate::Stack).

use crate::meter::span::MAX_SLEEP;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;
use std::time::Duration;

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits of the thread that created this value.
pub struct Waiter(Waker);

impl Waiter {
    /// Waits of this thread.
    pub fn new() -> Self {
        Self(Waker::from(Arc::new(Unpark(std::thread::current()))))
    }

    /// Waits for the result while `goes_on`, which is called at least every [`MAX_SLEEP`], returns true; `None` if it
    /// returned false first. The call is made at least once.
    pub fn wait<F: Future>(&self, call: F, goes_on: impl Fn() -> bool) -> Option<F::Output> {
        let mut call = pin!(call);
        let longest = Duration::from_nanos(MAX_SLEEP.as_nanos());
        loop {
            if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(&self.0)) {
                return Some(result);
            }
            if !goes_on() {
                return None;
            }
            std::thread::park_timeout(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn result_is_awaited_and_waiting_ends_on_request() {
        let waiter = Waiter::new();
        let (tell, told) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || tell.send(7));
        assert_eq!(waiter.wait(told, || true), Some(Ok(7)));
        assert_eq!(other.join().expect("no panic"), Ok(()));
        let left = Cell::new(2);
        let goes_on = || left.replace(left.get() - 1) > 0;
        assert_eq!(waiter.wait(core::future::pending::<()>(), goes_on), None);
        assert_eq!(left.get(), -1);
    }
}
