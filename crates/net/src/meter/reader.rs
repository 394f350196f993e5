//! Reading for the application at an end of a flow.

use super::flow::{DATAGRAM_HEADER, Transport};
use super::record::{Record, State, state_of};
use super::socket;
use super::span::{MAX_SLEEP, Span};
use super::speaker::SharedApplication;
use anabranch_base::time::Time;
use anabranch_wire::Payload;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::os::fd::OwnedFd;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 18;

/// Reads at an end, and compares received with sent data.
pub struct Reader<'a> {
    socket: &'a OwnedFd,
    record: &'a Record,
    span: &'a Span,
    chunk: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Reads at this socket.
    pub fn new(socket: &'a OwnedFd, record: &'a Record, span: &'a Span) -> Self {
        Self { socket, record, span, chunk: vec![0; CHUNK_BYTES] }
    }

    /// Reads until the other end closes or the run ends, and informs the application of this end, if there is
    /// one.
    pub fn read(mut self, transport: Transport, application: Option<&SharedApplication>) {
        match transport {
            Transport::Tcp | Transport::Mptcp | Transport::Sctp => self.stream(application),
            Transport::Udp => self.datagrams(),
        }
        if let Some(application) = application {
            application.end_input();
        }
    }

    fn wait(&self) {
        if let Err(error) = socket::wait(self.socket, PollFlags::IN, MAX_SLEEP) {
            self.record.record_fault(format!("cannot wait for the socket: {error}"));
        }
    }

    fn stream(&mut self, application: Option<&SharedApplication>) {
        let mut offset = 0;
        let mut last = None;
        while !self.span.is_over() {
            match rustix::net::recv(self.socket, self.chunk.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) => {
                    let mut tally = self.record.tally();
                    if tally.finished_writing && tally.delivered == tally.written {
                        // The other end may close some time after its last write.
                        tally.completed = last.or_else(|| Some(self.span.now()));
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
                    last = Some(now);
                    self.record.read(now, len as u64);
                    if let Some(application) = application {
                        application.read(now, len as u64);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => self.wait(),
                Err(error) => return self.record.set_state(state_of(error)),
            }
        }
    }

    fn datagrams(&mut self) {
        while !self.span.is_over() {
            match rustix::net::recv(self.socket, self.chunk.as_mut_slice(), RecvFlags::empty()) {
                Ok((len, _)) if len < DATAGRAM_HEADER => {
                    self.record.record_fault(format!("a datagram of {len} bytes arrived that was not sent"));
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
                Err(Errno::AGAIN | Errno::INTR) => self.wait(),
                Err(error) => return self.record.set_state(state_of(error)),
            }
        }
    }

    /// Compares received with sent data.
    fn check(&self, expected: Payload, bytes: &[u8]) {
        if let Some(at) = expected.first_difference(bytes) {
            let at = expected.offset + at as u64;
            self.record.record_fault(format!("byte {at} differs from the sent one"));
        }
    }
}
