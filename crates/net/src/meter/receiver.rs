//! The receiving end of a flow.

use super::flow::{DATAGRAM_HEADER, Flow, Transport};
use super::record::{Record, State};
use super::sender::state_of;
use super::socket;
use super::span::{LONGEST_SLEEP, Span};
use multipath::time::Time;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags};
use std::os::fd::OwnedFd;
use wire::Payload;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;

/// Reads and checks what comes to a socket of [`socket::receiver`] until the end of the run. The sockets are handed back
/// open, so that the kernel still knows their state.
pub fn receive(socket: OwnedFd, flow: &Flow, record: &Record, span: &Span) -> Vec<OwnedFd> {
    let mut receiver = Receiver { record, span, chunk: vec![0; CHUNK] };
    if flow.transport == Transport::Udp {
        receiver.datagrams(&socket);
        return vec![socket];
    }
    let accepted = receiver.accept(&socket);
    if let Some(connection) = &accepted {
        receiver.stream(connection);
    }
    [Some(socket), accepted].into_iter().flatten().collect()
}

struct Receiver<'a> {
    record: &'a Record,
    span: &'a Span,
    chunk: Vec<u8>,
}

impl Receiver<'_> {
    fn accept(&self, socket: &OwnedFd) -> Option<OwnedFd> {
        while !self.span.is_over() {
            match rustix::net::accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(connection) => return Some(connection),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => self.wait(socket),
                Err(error) => {
                    self.record.fault(format!("nothing can be accepted: {error}"));
                    return None;
                }
            }
        }
        None
    }

    fn wait(&self, socket: &OwnedFd) {
        if let Err(error) = socket::wait(socket, PollFlags::IN, LONGEST_SLEEP) {
            self.record.fault(format!("waiting for the socket: {error}"));
        }
    }

    fn stream(&mut self, connection: &OwnedFd) {
        let mut offset = 0;
        while !self.span.is_over() {
            match rustix::net::recv(connection, self.chunk.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) => {
                    let mut tally = self.record.tally();
                    if tally.finished_writing && tally.delivered == tally.written {
                        tally.completed = Some(self.span.now());
                        tally.state = State::Closed;
                    }
                    return;
                }
                Ok((len, _)) => {
                    let now = self.span.now();
                    if now >= self.span.until {
                        return;
                    }
                    self.check(Payload::new(offset, len as u32), &self.chunk[..len]);
                    offset += len as u64;
                    self.record.read(now, len as u64);
                }
                Err(Errno::AGAIN | Errno::INTR) => self.wait(connection),
                Err(error) => return self.record.reached(state_of(error)),
            }
        }
    }

    fn datagrams(&mut self, socket: &OwnedFd) {
        while !self.span.is_over() {
            match rustix::net::recv(socket, self.chunk.as_mut_slice(), RecvFlags::empty()) {
                Ok((len, _)) if len < DATAGRAM_HEADER => {
                    self.record.fault(format!("a datagram of {len} bytes arrived that nobody sent"));
                }
                Ok((len, _)) => {
                    let word =
                        |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| self.chunk[at + byte]));
                    let (offset, born) = (word(0), Time::from_nanos(word(8)));
                    let content =
                        Payload::new(offset + DATAGRAM_HEADER as u64, (len - DATAGRAM_HEADER) as u32);
                    self.check(content, &self.chunk[DATAGRAM_HEADER..len]);
                    self.record.read_datagram(self.span.now(), len as u64, born);
                }
                Err(Errno::AGAIN | Errno::INTR) => self.wait(socket),
                Err(error) => return self.record.reached(state_of(error)),
            }
        }
    }

    /// What arrived has to be what was sent.
    fn check(&self, expected: Payload, bytes: &[u8]) {
        if let Some(at) = expected.first_difference(bytes) {
            let at = expected.offset + at as u64;
            self.record.fault(format!("byte {at} arrived with another value than it was sent with"));
        }
    }
}
