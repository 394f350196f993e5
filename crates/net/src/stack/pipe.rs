//! The data between a connection in the thread of the stack and its handle in other threads.
//!
//! Both directions are bounded. The engine reads from the connection only while there is room, so the connection's
//! receive window closes when the handle does not read. The handle writes only while there is room, so it waits when
//! the send buffer of the connection is full.

use super::error::Error;
use super::wakers::Wakers;
use crate::engine::Application;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Delivery, Event, Reason, Report, Socket, Write};
use anabranch_host::ConnectionId;
use core::task::{Context, Poll, Waker};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes that wait in each direction between a connection and its handle. A message may exceed it.
pub const MAX_WAITING_BYTES: usize = 256 << 10;
/// A writer that waits for room is woken when at most this number of bytes waits, so that it writes several messages; on slow
/// paths earlier, [`MAX_WRITER_SLEEP`] after the last time.
const LOW_WATER_BYTES: usize = MAX_WAITING_BYTES / 2;
const MAX_WRITER_SLEEP: Duration = Duration::from_millis(10);
/// A reader is woken when the packets that have arrived together are processed, or earlier if this number of bytes waits:
/// one long packet of TCP.
const EARLY_WAKE_BYTES: usize = MAX_WAITING_BYTES / 4;
/// Events that wait for the handle; beyond, the oldest is dropped.
const MAX_EVENTS: usize = 1024;

/// A received message, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the message.
    pub bytes: Vec<u8>,
    /// The stream.
    pub stream: u16,
    /// The payload protocol identifier.
    pub ppid: u32,
    /// True if the message was sent unordered.
    pub unordered: bool,
    /// The message continues: the next part of the same stream and kind (ordered or not) belongs to it. Only a message
    /// larger than the receive buffer has parts.
    pub more: bool,
    /// The sender has abandoned the message to which the previous parts belong; this part has no bytes.
    pub aborted: bool,
}

/// The state that both sides share.
#[derive(Default)]
struct State {
    opened: bool,
    ended: Option<Reason>,
    /// The peer has ended writing.
    finished: bool,
    outgoing: VecDeque<u8>,
    messages: VecDeque<(Write, Vec<u8>)>,
    /// Bytes in `messages`.
    message_bytes: usize,
    /// Bytes of all messages that the handle has sent.
    sent_bytes: u64,
    incoming: VecDeque<u8>,
    received: VecDeque<Received>,
    received_bytes: usize,
    /// Actions of the handle: it has ended writing, requested an abort, or was dropped.
    closing: bool,
    abort: bool,
    dropped: bool,
    /// True if the connection accepts no more data and will raise [`Event::Writable`].
    blocked: bool,
    /// True if the engine left data unread because the pipe was full.
    paused: bool,
    /// True if a turn is already requested.
    turn_due: bool,
    /// Whether turns since the last wake made room for writers, and brought data for readers.
    wrote: bool,
    read: bool,
    /// Time of the last turn.
    now: Time,
    /// Time from which on any room wakes the writers.
    writers_due: Time,
    /// The error of the next write.
    refused: Option<Error>,
    events: VecDeque<Event>,
    /// The last report.
    report: Option<Report>,
    openers: Wakers,
    readers: Wakers,
    writers: Wakers,
    enders: Wakers,
    watchers: Wakers,
}

impl State {
    /// Records that a turn of the application is requested. Returns whether the caller has to send the
    /// command, because no turn was requested yet.
    const fn request_turn(&mut self) -> bool {
        !core::mem::replace(&mut self.turn_due, true)
    }

    fn writes_left(&self) -> bool {
        !self.outgoing.is_empty() || !self.messages.is_empty()
    }

    /// Bytes that wait for the handle.
    fn readable(&self) -> usize {
        self.incoming.len() + self.received_bytes
    }

    fn is_full(&self) -> bool {
        self.readable() >= MAX_WAITING_BYTES
    }

    /// Passes waiting data to the connection. Returns whether it took any.
    fn write(&mut self, socket: &mut Socket<'_>) -> bool {
        let mut any = false;
        self.blocked = false;
        while !self.outgoing.is_empty() && !self.blocked {
            let (first, _) = self.outgoing.as_slices();
            let (offered, taken) = (first.len(), socket.write(first, Write::bytes(0)));
            self.outgoing.drain(..taken);
            self.blocked = taken < offered;
            any |= taken > 0;
        }
        while let Some((how, message)) = self.messages.front_mut() {
            let taken = socket.write_message(message, *how);
            if taken == 0 {
                self.blocked = true;
                break;
            }
            self.message_bytes -= taken;
            self.messages.pop_front();
            any = true;
        }
        any
    }

    /// Takes received data from the connection. Returns whether there was any.
    fn read(&mut self, socket: &mut Socket<'_>, is_stream: bool) -> bool {
        let mut any = false;
        let mut bytes = Vec::new();
        while !self.is_full() {
            let room = MAX_WAITING_BYTES - self.incoming.len();
            let Some(delivery) = socket.read(room as u64, &mut bytes) else { break };
            any = true;
            if is_stream {
                self.incoming.extend(&bytes);
                bytes.clear();
            } else {
                self.received_bytes += bytes.len();
                self.received.push_back(received(delivery, core::mem::take(&mut bytes)));
            }
        }
        self.paused = socket.endpoint.readable() > 0;
        any
    }

    /// The tasks to wake after turns.
    fn woken(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        let over = self.ended.is_some();
        let read = core::mem::take(&mut self.read);
        let is_low = self.outgoing.len() + self.message_bytes <= LOW_WATER_BYTES;
        let has_room = self.wrote && (is_low || self.now >= self.writers_due);
        if has_room {
            self.wrote = false;
            self.writers_due = self.now + MAX_WRITER_SLEEP;
        }
        for (is_due, wakers) in [
            (over || self.opened, &mut self.openers),
            (over || read || self.finished, &mut self.readers),
            (over || has_room || self.refused.is_some(), &mut self.writers),
            (over, &mut self.enders),
            (over || !self.events.is_empty(), &mut self.watchers),
        ] {
            if is_due {
                woken.append(&mut wakers.0);
            }
        }
        woken
    }
}

const fn received(delivery: Delivery, bytes: Vec<u8>) -> Received {
    let Delivery { stream, ppid, unordered, more, aborted, .. } = delivery;
    Received { bytes, stream, ppid, unordered, more, aborted }
}

/// The data between a connection and its handle.
#[derive(Default)]
pub struct Pipe {
    state: Mutex<State>,
    id: OnceLock<ConnectionId>,
}

/// Whether the handle has to send a command for a turn of the connection.
pub type TurnDue = bool;

impl Pipe {
    /// The connection; `None` before it is known.
    pub fn id(&self) -> Option<ConnectionId> {
        self.id.get().copied()
    }

    /// Sets the connection once.
    pub fn set_id(&self, id: ConnectionId) {
        // Each connection has a separate pipe.
        let _ = self.id.set(id);
    }

    /// No call panics while it holds the lock, so the state is valid even after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the connection is established.
    pub fn poll_opened(&self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        match state.ended {
            _ if state.opened => Poll::Ready(Ok(())),
            Some(reason) => Poll::Ready(Err(Error::Ended(reason))),
            None => {
                state.openers.add(context);
                Poll::Pending
            }
        }
    }

    /// Waits until the connection has ended.
    pub fn poll_ended(&self, context: &Context<'_>) -> Poll<Reason> {
        let mut state = self.lock();
        if let Some(reason) = state.ended {
            return Poll::Ready(reason);
        }
        state.enders.add(context);
        Poll::Pending
    }

    /// The reason of the end, if the connection has ended.
    pub fn ended(&self) -> Option<Reason> {
        self.lock().ended
    }

    /// Bytes of all messages that the handle has sent.
    pub fn sent_bytes(&self) -> u64 {
        self.lock().sent_bytes
    }

    /// The report of a connection that has ended.
    pub fn last_report(&self) -> Option<Report> {
        self.lock().report.clone()
    }

    /// Waits for the next event; `None` after the last one.
    pub fn poll_event(&self, context: &Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.lock();
        match state.events.pop_front() {
            None if state.ended.is_none() => {
                state.watchers.add(context);
                Poll::Pending
            }
            event => Poll::Ready(event),
        }
    }

    /// Reads bytes by `take`, which gets the next run and returns the number of bytes it took. Zero bytes are the end.
    pub fn poll_read(
        &self,
        context: &Context<'_>,
        take: impl FnOnce(&[u8]) -> usize,
    ) -> (Poll<Result<(), Error>>, TurnDue) {
        let mut state = self.lock();
        if state.incoming.is_empty() {
            return state.poll_end(context);
        }
        let taken = take(state.incoming.as_slices().0);
        state.incoming.drain(..taken);
        let due = state.paused && state.incoming.len() <= MAX_WAITING_BYTES / 2 && state.request_turn();
        (Poll::Ready(Ok(())), due)
    }

    /// Waits for a message; `None` is the end.
    pub fn poll_receive(&self, context: &Context<'_>) -> (Poll<Result<Option<Received>, Error>>, TurnDue) {
        let mut state = self.lock();
        let Some(message) = state.received.pop_front() else {
            let (end, due) = state.poll_end(context);
            return (end.map(|end| end.map(|()| None)), due);
        };
        state.received_bytes -= message.bytes.len();
        let due = state.paused && state.received_bytes <= MAX_WAITING_BYTES / 2 && state.request_turn();
        (Poll::Ready(Ok(Some(message))), due)
    }

    /// Writes as many bytes as there is room for.
    pub fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> (Poll<Result<usize, Error>>, TurnDue) {
        let mut state = self.lock();
        if let Some(error) = state.write_error() {
            return (Poll::Ready(Err(error)), false);
        }
        let taken = bytes.len().min(MAX_WAITING_BYTES - state.outgoing.len());
        if taken == 0 && !bytes.is_empty() {
            state.writers.add(context);
            return (Poll::Pending, false);
        }
        state.outgoing.extend(&bytes[..taken]);
        let due = !state.blocked && state.request_turn();
        (Poll::Ready(Ok(taken)), due)
    }

    /// Writes a message, which is taken out of `message`, if there is room.
    pub fn poll_send(
        &self,
        context: &Context<'_>,
        how: Write,
        message: &mut Vec<u8>,
    ) -> (Poll<Result<(), Error>>, TurnDue) {
        let mut state = self.lock();
        if let Some(error) = state.write_error() {
            return (Poll::Ready(Err(error)), false);
        }
        if state.message_bytes > 0 && state.message_bytes + message.len() > MAX_WAITING_BYTES {
            state.writers.add(context);
            return (Poll::Pending, false);
        }
        state.message_bytes += message.len();
        state.sent_bytes += message.len() as u64;
        state.messages.push_back((how, core::mem::take(message)));
        let due = !state.blocked && state.request_turn();
        (Poll::Ready(Ok(())), due)
    }

    /// Ends writing: the connection sends the rest, then its end.
    pub fn close(&self) -> TurnDue {
        let mut state = self.lock();
        !core::mem::replace(&mut state.closing, true) && state.request_turn()
    }

    /// Ends the connection at once.
    pub fn abort(&self) -> TurnDue {
        let mut state = self.lock();
        state.abort = true;
        state.ended.is_none() && state.request_turn()
    }

    /// The handle is gone: the rest is sent, unless the connection is not established or data is unread.
    pub fn abandon(&self) -> TurnDue {
        let mut state = self.lock();
        let is_unread = !state.incoming.is_empty() || !state.received.is_empty();
        (state.closing, state.dropped) = (true, true);
        state.abort |= is_unread || !state.opened;
        state.request_turn()
    }
}

impl State {
    /// The end of the data, or a wait for more.
    fn poll_end(&mut self, context: &Context<'_>) -> (Poll<Result<(), Error>>, TurnDue) {
        match self.ended {
            // The pipe was full, so the connection has more data.
            _ if self.paused => {}
            _ if self.finished => return (Poll::Ready(Ok(())), false),
            Some(Reason::Closed) => return (Poll::Ready(Ok(())), false),
            Some(reason) => return (Poll::Ready(Err(Error::Ended(reason))), false),
            None => {}
        }
        self.readers.add(context);
        let due = self.paused && self.request_turn();
        (Poll::Pending, due)
    }

    fn write_error(&mut self) -> Option<Error> {
        let ended = self.ended.map(Error::Ended);
        self.refused.take().or(ended).or_else(|| self.closing.then_some(Error::WriteEnded))
    }
}

/// The pipes of all connections that the engine has.
pub type Pipes = Rc<RefCell<BTreeMap<ConnectionId, Arc<Pipe>>>>;

/// The side of a pipe that the engine drives.
pub struct PipeEnd {
    pipe: Arc<Pipe>,
    pipes: Pipes,
    is_stream: bool,
    closed: bool,
    aborted: bool,
    done: bool,
}

impl PipeEnd {
    /// The side of a connection with a stream of bytes, or with messages.
    pub const fn new(pipe: Arc<Pipe>, pipes: Pipes, is_stream: bool) -> Self {
        Self { pipe, pipes, is_stream, closed: false, aborted: false, done: false }
    }
}

impl Application for PipeEnd {
    fn event(&mut self, event: Event) {
        let mut state = self.pipe.lock();
        match event {
            Event::Readable | Event::Writable => return,
            Event::Connected => {
                state.opened = true;
                return;
            }
            Event::Finished => {
                state.finished = true;
                return;
            }
            Event::Closed(reason) => {
                state.ended = Some(reason);
                return;
            }
            Event::NoSuchStream { stream, streams } => {
                let is_refused = state.messages.front().is_some_and(|(how, _)| how.stream == stream);
                if is_refused && let Some((_, message)) = state.messages.pop_front() {
                    state.message_bytes -= message.len();
                    state.sent_bytes -= message.len() as u64;
                    state.wrote = true;
                }
                state.refused = Some(Error::NoSuchStream { stream, streams });
            }
            _ => {}
        }
        if state.events.len() == MAX_EVENTS {
            state.events.pop_front();
        }
        state.events.push_back(event);
    }

    fn turn(&mut self, socket: &mut Socket<'_>) -> bool {
        let mut state = self.pipe.lock();
        (state.turn_due, state.now) = (false, socket.now);
        if state.ended.is_none()
            && !self.aborted
            && (state.abort || state.dropped && socket.endpoint.readable() > 0)
        {
            self.aborted = true;
            socket.endpoint.abort(socket.now);
            return true;
        }
        let wrote = state.ended.is_none() && state.write(socket);
        let read = !state.dropped && state.read(socket, self.is_stream);
        let mut busy = wrote || read;
        if state.closing && !state.writes_left() && !self.closed && state.ended.is_none() {
            self.closed = true;
            socket.close();
            busy = true;
        }
        if state.ended.is_some() {
            state.report = Some(socket.endpoint.report());
            self.done = state.dropped || !state.paused;
        }
        (state.wrote, state.read) = (state.wrote || wrote, state.read || read);
        let woken = if state.readable() >= EARLY_WAKE_BYTES { state.woken() } else { Vec::new() };
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        busy
    }

    fn rest(&mut self) {
        let woken = self.pipe.lock().woken();
        woken.into_iter().for_each(Waker::wake);
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

/// The engine has removed the connection, or has stopped.
impl Drop for PipeEnd {
    fn drop(&mut self) {
        if let Some(id) = self.pipe.id() {
            self.pipes.borrow_mut().remove(&id);
        }
        let mut state = self.pipe.lock();
        state.ended = state.ended.or(Some(Reason::Aborted));
        state.paused = false;
        let woken = state.woken();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}
