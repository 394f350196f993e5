//! Tasks that wait for a connection or a listener.

use core::task::{Context, Waker};

/// Tasks that wait, each once.
#[derive(Default)]
pub struct Wakers(pub Vec<Waker>);

impl Wakers {
    /// Adds the task of a context.
    pub fn add(&mut self, context: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }
}
