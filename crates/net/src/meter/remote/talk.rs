//! Writing and reading messages at an end of a flow.

use super::frame::{HEADER_BYTES, Header, mismatch_message};
use super::outgoing::{Next, Outgoing};
use super::tally::EndTally;
use crate::meter::flow::Transport;
use crate::meter::socket;
use crate::meter::span::{MAX_SLEEP, Span};
use crate::meter::speaker::SharedApplication;
use anabranch_base::time::Time;
use anabranch_wire::Payload;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::os::fd::OwnedFd;

/// Maximum number of bytes per system call.
const CHUNK_BYTES: usize = 128 << 10;

/// A connected end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct MessageTransfer<'a> {
    /// Non-blocking socket of the flow.
    pub socket: &'a OwnedFd,
    /// Transport protocol of the socket.
    pub transport: Transport,
    /// The tag of the test.
    pub tag: u32,
    /// True if both ends use one clock.
    pub one_clock: bool,
    /// Counters of this end.
    pub tally: &'a EndTally,
    /// The test.
    pub span: &'a Span,
    /// Maximum length of a message, bytes; the application's longer ones are split.
    pub max_message: u64,
}

impl MessageTransfer<'_> {
    fn wait(&self, flags: PollFlags, until: Time) {
        let sleep = until.since(self.span.now()).min(MAX_SLEEP);
        if let Err(error) = socket::wait(self.socket, flags, sleep) {
            self.tally.record_fault(format!("cannot wait for a socket: {error}"));
        }
    }

    /// Writes the application's data until it closes or the test ends.
    pub fn write(self, application: &SharedApplication) {
        let mut stream = Stream::default();
        let mut outgoing = Outgoing::new(self.tag, self.max_message);
        while !self.span.is_over() {
            if stream.has_more() {
                match self.push(&mut stream) {
                    Ok(true) => {}
                    Ok(false) => self.wait(PollFlags::OUT, application.wake()),
                    Err(error) => return self.record_failure(error),
                }
                continue;
            }
            match outgoing.next(application, self.span.now()) {
                Next::Message(header) => {
                    self.tally.counts().written.messages += 1;
                    if self.transport == Transport::Udp {
                        if let Err(error) = self.datagram(header, &mut stream.pending) {
                            return self.record_failure(error);
                        }
                        stream.pending.clear();
                    } else {
                        stream.begin(header);
                    }
                }
                Next::Close => {
                    self.tally.counts().closed = true;
                    if self.transport != Transport::Udp
                        && let Err(error) = rustix::net::shutdown(self.socket, Shutdown::Write)
                    {
                        self.record_failure(error);
                    }
                    return;
                }
                Next::Idle => application.sleep(self.span),
            }
        }
    }

    /// Writes pending data; false if the socket has no room.
    fn push(&self, stream: &mut Stream) -> Result<bool, Errno> {
        stream.fill();
        match rustix::net::send(self.socket, &stream.pending[stream.taken..], SendFlags::NOSIGNAL) {
            Ok(taken) => {
                stream.taken += taken;
                // The padding of a message that is shorter than its header is not application data.
                let filling = stream.filling.min(taken as u64);
                stream.filling -= filling;
                self.tally.wrote(self.span.now(), taken as u64 - filling);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a datagram; it is lost if there is no room, no receiver or no route.
    fn datagram(&self, header: Header, bytes: &mut Vec<u8>) -> Result<(), Errno> {
        let len = header.wire_len() as usize;
        bytes.clear();
        bytes.extend_from_slice(&header.emit());
        bytes.resize(len, 0);
        header.content().fill(&mut bytes[HEADER_BYTES..]);
        if socket::send_datagram(self.socket, bytes)? {
            self.tally.wrote(self.span.now(), header.len);
        }
        Ok(())
    }

    fn record_failure(&self, error: Errno) {
        if !self.span.is_over() {
            self.tally.record_abort(format!("the connection failed: {error}"));
        }
    }

    /// Reads until the other end closes or the test ends, and informs the application of this end, if there
    /// is one.
    pub fn read(self, application: Option<&SharedApplication>) {
        if self.transport == Transport::Udp {
            self.read_datagrams();
        } else {
            self.read_stream(application);
        }
        if let Some(application) = application {
            application.end_input();
        }
    }

    fn read_stream(&self, application: Option<&SharedApplication>) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut incoming = Incoming::default();
        while !self.span.is_over() {
            match rustix::net::recv(self.socket, chunk.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.tally.counts().read.completed_s = Some(self.span.now().as_secs_f64());
                    return;
                }
                Ok((len, _)) => {
                    let now = self.span.now();
                    if now >= self.span.until {
                        return;
                    }
                    let read = incoming.take(self, now, &chunk[..len]);
                    let Ok(bytes) = read.map_err(|sentence| self.tally.record_fault(sentence)) else {
                        return;
                    };
                    self.tally.read(now, bytes);
                    if let Some(application) = application {
                        application.read(now, bytes);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => self.wait(PollFlags::IN, self.span.until),
                Err(error) => return self.record_failure(error),
            }
        }
    }

    fn read_datagrams(&self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while !self.span.is_over() {
            match rustix::net::recv(self.socket, chunk.as_mut_slice(), RecvFlags::empty()) {
                Ok((len, _)) => {
                    let now = self.span.now();
                    let Some(header) = Header::of_message(&chunk[..len], self.tag) else {
                        self.tally.counts().read.foreign += 1;
                        continue;
                    };
                    if header.content().first_difference(&chunk[HEADER_BYTES..len]).is_some() {
                        return self.tally.record_fault(mismatch_message(header.number));
                    }
                    self.tally.due(now, header.number.into());
                    self.tally.read(now, header.len);
                    self.tally.message(now, self.one_clock.then_some(header.born));
                }
                Err(Errno::AGAIN | Errno::INTR) => self.wait(PollFlags::IN, self.span.until),
                // Ignore the error: the other end has not opened its socket yet, or has closed it.
                Err(Errno::CONNREFUSED) => {}
                Err(error) => return self.record_failure(error),
            }
        }
    }
}

/// A stream of messages to write.
#[derive(Default)]
struct Stream {
    /// Stream offset of the next byte to create.
    position: u64,
    /// Bytes of the current message that have not been created.
    ahead: u64,
    /// Bytes that were created.
    pending: Vec<u8>,
    /// The part of these bytes that the socket accepted.
    taken: usize,
    /// Padding bytes of the current message's header that the socket has not accepted.
    filling: u64,
}

impl Stream {
    fn has_more(&self) -> bool {
        self.ahead > 0 || self.taken < self.pending.len()
    }

    fn begin(&mut self, header: Header) {
        self.pending.clear();
        self.taken = 0;
        self.pending.extend_from_slice(&header.emit());
        self.position += HEADER_BYTES as u64;
        self.ahead = header.wire_len() - HEADER_BYTES as u64;
        self.filling = header.wire_len() - header.len;
    }

    /// Creates as many bytes as are written at once.
    fn fill(&mut self) {
        if self.taken == self.pending.len() {
            self.pending.clear();
            self.taken = 0;
        }
        let len = ((CHUNK_BYTES - self.pending.len()) as u64).min(self.ahead) as usize;
        if len > 0 && self.taken == 0 {
            let from = self.pending.len();
            self.pending.resize(from + len, 0);
            Payload::new(self.position, len as u32).fill(&mut self.pending[from..]);
            self.position += len as u64;
            self.ahead -= len as u64;
        }
    }
}

/// An incoming stream of messages.
#[derive(Default)]
struct Incoming {
    /// Stream offset of the next byte.
    position: u64,
    /// The received part of a header.
    head: Vec<u8>,
    /// The message that is being received, and its number of missing bytes.
    current: Option<(Header, u64)>,
    /// Messages before the next one.
    number: u32,
}

impl Incoming {
    /// Processes the next bytes; returns how many of them are application data.
    fn take(&mut self, talk: &MessageTransfer<'_>, now: Time, mut bytes: &[u8]) -> Result<u64, String> {
        let mut counted = 0;
        while !bytes.is_empty() || self.is_whole() {
            let Some((header, left)) = self.current else {
                let (part, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.head.len()));
                self.head.extend_from_slice(part);
                bytes = rest;
                if let Some(head) = self.head.first_chunk() {
                    let header = Header::parse(head);
                    if header.tag != talk.tag || header.number != self.number {
                        return Err(mismatch_message(self.number));
                    }
                    counted += header.len.min(HEADER_BYTES as u64);
                    self.head.clear();
                    self.number = self.number.wrapping_add(1);
                    self.position += HEADER_BYTES as u64;
                    self.current = Some((header, header.wire_len() - HEADER_BYTES as u64));
                }
                continue;
            };
            let (part, rest) = bytes.split_at((bytes.len() as u64).min(left) as usize);
            if Payload::new(self.position, part.len() as u32).first_difference(part).is_some() {
                return Err(mismatch_message(header.number));
            }
            bytes = rest;
            counted += part.len() as u64;
            self.position += part.len() as u64;
            let left = left - part.len() as u64;
            self.current = (left > 0).then_some((header, left));
            if left == 0 {
                talk.tally.message(now, talk.one_clock.then_some(header.born));
            }
        }
        Ok(counted)
    }

    /// True if the current message is complete.
    fn is_whole(&self) -> bool {
        self.current.is_some_and(|(_, left)| left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use anabranch_base::time::Duration;

    /// The result of receiving a stream of messages of these lengths in parts of `part` bytes.
    fn transfer(lens: &[u64], part: usize, spoil: Option<usize>) -> Result<(u64, u64), String> {
        let mut stream = Stream::default();
        let mut bytes = Vec::new();
        for (number, &len) in lens.iter().enumerate() {
            stream.begin(Header { tag: 9, number: number as u32, len, born: Time::ZERO });
            while stream.has_more() {
                stream.fill();
                bytes.extend_from_slice(&stream.pending[stream.taken..]);
                stream.taken = stream.pending.len();
            }
        }
        if let Some(at) = spoil {
            bytes[at] ^= 1;
        }
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None)
                .unwrap();
        let span = Span::new(Clock::new(), Time::ZERO, Time::MAX);
        let tally = EndTally::new(&span, Duration::from_secs(1), 0);
        let talk = MessageTransfer {
            socket: &socket,
            transport: Transport::Tcp,
            tag: 9,
            one_clock: true,
            tally: &tally,
            span: &span,
            max_message: u64::MAX,
        };
        let mut incoming = Incoming::default();
        let mut counted = 0;
        for part in bytes.chunks(part) {
            counted += incoming.take(&talk, Time::ZERO, part)?;
        }
        let messages = tally.counts().read.messages;
        Ok((counted, messages))
    }

    #[test]
    fn messages_of_any_length_arrive_in_any_parts() {
        let lens = [1, 24, 25, 300_000, 23, 1400, 2];
        for part in [1, 7, 24, 1000, 1 << 20] {
            assert_eq!(transfer(&lens, part, None), Ok((lens.iter().sum(), 7)), "{part}");
        }
    }

    #[test]
    fn changed_byte_is_detected_anywhere() {
        for at in [0, 5, 30, 1300] {
            assert!(transfer(&[1400, 1400], 500, Some(at)).is_err(), "{at}");
        }
    }
}
