//! The established connections of a listener that its handle has not accepted.

use super::pipe::{Pipe, PipeEnd, Pipes};
use super::wakers::Wakers;
use crate::engine::{Acceptor, Application};
use anabranch_endpoint::{Endpoint, Event};
use anabranch_host::ConnectionId;
use core::net::SocketAddr;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Local and remote address of a connection's first path.
pub type Pair = (SocketAddr, SocketAddr);

/// The addresses of the first path.
pub fn first_pair(endpoint: &dyn Endpoint) -> Option<Pair> {
    endpoint.report().paths.first().map(|path| (path.local, path.remote))
}

/// A connection with the addresses of its first path.
pub type Arrival = (Arc<Pipe>, Option<Pair>);

#[derive(Default)]
struct State {
    arrived: VecDeque<Arrival>,
    wakers: Wakers,
    closed: bool,
}

/// Connections that wait for their acceptance.
pub struct Arrivals {
    state: Mutex<State>,
    /// Maximum number; further ones wait in the backlog of the host.
    limit: usize,
}

impl Arrivals {
    /// Room for this number of connections.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), limit })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a connection; `None` once the listener is closed. The flag states that the engine has to be woken,
    /// because it had no room before.
    pub fn poll_next(&self, context: &Context<'_>) -> (Poll<Option<Arrival>>, bool) {
        let mut state = self.lock();
        let was_full = state.arrived.len() >= self.limit;
        match state.arrived.pop_front() {
            None if !state.closed => {
                state.wakers.add(context);
                (Poll::Pending, false)
            }
            next => (Poll::Ready(next), was_full),
        }
    }

    /// Connections that were not accepted.
    pub fn take_all(&self) -> Vec<Arc<Pipe>> {
        self.lock().arrived.drain(..).map(|(pipe, _)| pipe).collect()
    }
}

/// The side of a listener that the engine calls.
pub struct ArrivalsEnd {
    /// The connections.
    pub arrivals: Arc<Arrivals>,
    /// The pipes of the stack.
    pub pipes: Pipes,
    /// True if the protocol has a stream of bytes instead of messages.
    pub is_stream: bool,
}

impl Acceptor for ArrivalsEnd {
    fn has_room(&self) -> bool {
        self.arrivals.lock().arrived.len() < self.arrivals.limit
    }

    fn accept(&mut self, id: ConnectionId, endpoint: &dyn Endpoint) -> Box<dyn Application> {
        let pipe = Arc::new(Pipe::default());
        pipe.set_id(id);
        let mut end = PipeEnd::new(Arc::clone(&pipe), Pipes::clone(&self.pipes), self.is_stream);
        // The host queues only established connections.
        end.event(Event::Connected);
        self.pipes.borrow_mut().insert(id, Arc::clone(&pipe));
        let woken = {
            let mut state = self.arrivals.lock();
            state.arrived.push_back((pipe, first_pair(endpoint)));
            core::mem::take(&mut state.wakers.0)
        };
        woken.into_iter().for_each(Waker::wake);
        Box::new(end)
    }
}

/// The engine has closed the listener, or has stopped.
impl Drop for ArrivalsEnd {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.arrivals.lock();
            state.closed = true;
            core::mem::take(&mut state.wakers.0)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}
