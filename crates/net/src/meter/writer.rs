//! Writing for the application at an end of a flow.

use super::flow::{DATAGRAM_HEADER, Transport};
use super::record::{Record, State, state_of};
use super::socket;
use super::source::Source;
use super::span::{MAX_SLEEP, Span};
use super::speaker::SharedApplication;
use anabranch_base::time::Time;
use anabranch_scenario::workload::Step;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use std::os::fd::OwnedFd;

/// Writes at an end.
pub struct Writer<'a> {
    socket: &'a OwnedFd,
    record: &'a Record,
    span: &'a Span,
    /// The other end writes, too: once this end has also closed, the kernel discards the connection.
    mutual: bool,
    source: Source,
}

impl<'a> Writer<'a> {
    /// Writes at this socket; `mutual` if the other end writes, too.
    pub fn new(socket: &'a OwnedFd, record: &'a Record, span: &'a Span, mutual: bool) -> Self {
        Self { socket, record, span, mutual, source: Source::new() }
    }

    /// Writes the application's data until it closes or the run ends.
    pub fn write(mut self, transport: Transport, application: &SharedApplication) {
        match transport {
            Transport::Tcp | Transport::Mptcp | Transport::Sctp => self.stream(application),
            Transport::Udp => self.datagrams(application),
        }
    }

    fn stream(&mut self, application: &SharedApplication) {
        while !self.span.is_over() {
            let now = self.span.now();
            match application.poll(now) {
                Step::Write { len, born } => match self.push(len) {
                    Ok(0) => self.wait_for_room(application.wake()),
                    Ok(taken) => {
                        application.accepted(taken);
                        self.record.wrote(self.span.now(), taken, born.max(Time::ZERO));
                    }
                    Err(error) => return self.record.set_state(state_of(error)),
                },
                Step::Close => {
                    if self.mutual {
                        self.span.wait_for_sample();
                    }
                    self.record.tally().finished_writing = true;
                    if let Err(error) = rustix::net::shutdown(self.socket, Shutdown::Write) {
                        self.record.set_state(state_of(error));
                    }
                    return;
                }
                Step::Idle => application.sleep(self.span),
            }
        }
    }

    /// Passes up to `len` bytes to the socket; returns the number that it accepted, 0 if there is no room.
    fn push(&mut self, len: u64) -> Result<u64, Errno> {
        match rustix::net::send(self.socket, self.source.next(len), SendFlags::NOSIGNAL) {
            Ok(taken) => {
                self.source.take(taken as u64);
                Ok(taken as u64)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn wait_for_room(&self, wake: Time) {
        let sleep = wake.since(self.span.now()).min(MAX_SLEEP);
        if let Err(error) = socket::wait(self.socket, PollFlags::OUT, sleep) {
            self.record.record_fault(format!("cannot wait for the socket: {error}"));
        }
    }

    /// A datagram begins with its stream offset and its time of creation.
    fn datagrams(&mut self, application: &SharedApplication) {
        while !self.span.is_over() {
            let now = self.span.now();
            match application.poll(now) {
                Step::Write { len, born } => {
                    let (offset, datagram) = self.source.datagram(len);
                    datagram[..8].copy_from_slice(&offset.to_le_bytes());
                    datagram[8..DATAGRAM_HEADER].copy_from_slice(&born.as_nanos().to_le_bytes());
                    application.accepted(len);
                    match socket::send_datagram(self.socket, datagram) {
                        Ok(taken) => self.record.wrote_datagram(now, len, taken),
                        Err(error) => return self.record.set_state(state_of(error)),
                    }
                }
                Step::Close => {
                    self.record.tally().finished_writing = true;
                    return self.record.set_state(State::Closed);
                }
                Step::Idle => application.sleep(self.span),
            }
        }
    }
}
