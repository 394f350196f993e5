//! Writing and reading messages on the streams of an association.

use super::association::{DATA_PPID, END_PPID, OpenAssociation};
use super::delivery::Delivery;
use super::frame::{HEADER_BYTES, Header, mismatch_message};
use super::outgoing::{Next, Outgoing};
use super::streams::MAX_BUFFER_BYTES;
use super::tally::EndTally;
use super::waiter::Waiter;
use crate::meter::span::Span;
use crate::meter::speaker::SharedApplication;
use crate::stack::{Error, Message, Received};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Reliability;
use std::collections::BTreeMap;

/// Interval at which a writer that has ended checks whether its messages have arrived.
const SETTLED_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The writing end of a flow.
pub struct StreamWriter<'a> {
    /// The association.
    pub open: &'a OpenAssociation,
    /// Stream of the flow.
    pub stream: u16,
    /// The tag of the test.
    pub tag: u32,
    /// Maximum length of a message, bytes; the application's longer ones are split.
    pub max_message: u64,
    /// Counters of this end.
    pub tally: &'a EndTally,
    /// The test.
    pub span: &'a Span,
}

impl StreamWriter<'_> {
    /// Writes the application's messages until it closes or the test ends.
    pub fn write(self, application: &SharedApplication, mut delivery: Delivery) {
        self.open.begin_writing();
        let waiter = Waiter::new();
        let mut outgoing = Outgoing::new(self.tag, self.max_message);
        while !self.span.is_over() {
            let written = match outgoing.next(application, self.span.now()) {
                Next::Message(header) => self.message(&waiter, header, delivery.draw()),
                Next::Close => {
                    self.tally.counts().closed = true;
                    self.end(&waiter).map(|is_ended| {
                        if is_ended {
                            self.open.end_writing();
                        }
                        false
                    })
                }
                Next::Idle => {
                    application.sleep(self.span);
                    Ok(true)
                }
            };
            match written {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.record_failure(&error),
            }
        }
    }

    /// Writes a message; false if the test ended first.
    fn message(
        &self,
        waiter: &Waiter,
        header: Header,
        (unordered, reliability): (bool, Reliability),
    ) -> Result<bool, Error> {
        let mut bytes = vec![0; header.wire_len() as usize];
        let (head, body) = bytes.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header.emit());
        header.content().fill(body);
        {
            let mut counts = self.tally.counts();
            counts.written.messages += 1;
            counts.written.unordered += u64::from(unordered);
            counts.written.unreliable += u64::from(reliability != Reliability::Full);
        }
        let message = Message { bytes, stream: self.stream, ppid: DATA_PPID, unordered, reliability };
        let is_sent = self.send(waiter, message)?;
        if is_sent {
            self.tally.wrote(self.span.now(), header.len);
        }
        Ok(is_sent)
    }

    fn send(&self, waiter: &Waiter, message: Message) -> Result<bool, Error> {
        let sent = waiter.wait(self.open.association().send(message), || !self.span.is_over());
        sent.transpose().map(|sent| sent.is_some())
    }

    /// Sends the end of the stream after all messages before it have arrived or were abandoned, and waits until it
    /// has arrived, too; false if the test ended first.
    fn end(&self, waiter: &Waiter) -> Result<bool, Error> {
        let end = Message { stream: self.stream, ppid: END_PPID, ..Message::new(vec![0]) };
        Ok(self.settle(waiter)? && self.send(waiter, end)? && self.settle(waiter)?)
    }

    /// Waits until all messages that were sent before have arrived or were abandoned; false if the test ended first.
    fn settle(&self, waiter: &Waiter) -> Result<bool, Error> {
        let association = self.open.association();
        let sent = association.sent_bytes();
        while !self.span.is_over() {
            let released = waiter.wait(association.released_bytes(), || !self.span.is_over());
            match released.transpose()? {
                Some(released) if released >= sent => return Ok(true),
                _ => self.span.sleep_until(self.span.now() + SETTLED_CHECK_INTERVAL),
            }
        }
        Ok(false)
    }

    fn record_failure(&self, error: &Error) {
        if !self.span.is_over() {
            self.tally.record_abort(format!("the association failed: {error}"));
        }
    }
}

/// The reading end of a flow.
pub struct StreamReader<'a> {
    /// Counters of this end.
    pub tally: &'a EndTally,
    /// The application of this end, if there is one.
    pub application: Option<&'a SharedApplication>,
    /// True if all messages arrive in the order in which they were sent.
    pub keeps_sequence: bool,
    /// Number of messages that have arrived, modulo 2^32.
    pub messages: u32,
    /// Time of the last message.
    pub last: Option<Time>,
    /// True after the end of the stream.
    pub is_ended: bool,
}

/// Reads the streams of an association.
pub struct AssociationReader<'a> {
    /// The association.
    pub open: &'a OpenAssociation,
    /// The tag of the test.
    pub tag: u32,
    /// True if both ends use one clock.
    pub one_clock: bool,
    /// The test.
    pub span: &'a Span,
    /// Flows that this end reads, by stream.
    pub streams: BTreeMap<u16, StreamReader<'a>>,
}

impl AssociationReader<'_> {
    /// Reads until all streams or the test have ended.
    pub fn read(mut self) {
        let waiter = Waiter::new();
        let mut parts = Parts::default();
        while !self.span.is_over() && self.streams.values().any(|stream| !stream.is_ended) {
            let received = waiter.wait(self.open.association().receive(), || !self.span.is_over());
            let now = self.span.now();
            let part = match received {
                None => break,
                Some(_) if now >= self.span.until => break,
                Some(Ok(Some(part))) => part,
                Some(Ok(None)) => {
                    self.record_failure("the other meter closed the association");
                    break;
                }
                Some(Err(error)) => {
                    self.record_failure(&format!("the association failed: {error}"));
                    break;
                }
            };
            match parts.join(part) {
                Ok(None) => {}
                Ok(Some(whole)) => self.take(now, &whole),
                Err(sentence) => {
                    self.record_fault(&sentence);
                    break;
                }
            }
        }
        for stream in self.streams.values() {
            if let Some(application) = stream.application {
                application.end_input();
            }
        }
    }

    /// Processes a whole message.
    fn take(&mut self, now: Time, message: &Received) {
        let Some(stream) = self.streams.get_mut(&message.stream) else {
            return self
                .record_fault(&format!("a message arrived on stream {}, which has no flow", message.stream));
        };
        if message.ppid == END_PPID {
            stream.is_ended = true;
            stream.tally.counts().read.completed_s = Some(stream.last.unwrap_or(now).as_secs_f64());
            if let Some(application) = stream.application {
                application.end_input();
            }
            return;
        }
        let header = Header::of_message(&message.bytes, self.tag);
        let Some(header) = header.filter(|_| message.ppid == DATA_PPID) else {
            return stream.tally.record_fault("a message does not belong to this test".to_owned());
        };
        let is_next = !stream.keeps_sequence || header.number == stream.messages;
        if !is_next || header.content().first_difference(&message.bytes[HEADER_BYTES..]).is_some() {
            return stream.tally.record_fault(mismatch_message(header.number));
        }
        stream.messages = stream.messages.wrapping_add(1);
        stream.last = Some(now);
        stream.tally.due(now, header.number.into());
        stream.tally.read(now, header.len);
        stream.tally.message(now, self.one_clock.then_some(header.born));
        if let Some(application) = stream.application {
            application.read(now, header.len);
        }
    }

    fn record_fault(&self, sentence: &str) {
        if let Some(stream) = self.streams.values().next() {
            stream.tally.record_fault(sentence.to_owned());
        }
    }

    fn record_failure(&self, sentence: &str) {
        if !self.span.is_over() {
            for stream in self.streams.values().filter(|stream| !stream.is_ended) {
                stream.tally.record_abort(sentence.to_owned());
            }
        }
    }
}

/// Begun messages that the receive buffer cannot hold, by stream and kind.
#[derive(Default)]
struct Parts(BTreeMap<(u16, bool), Vec<u8>>);

impl Parts {
    /// Adds a received part; returns the message if it is whole.
    fn join(&mut self, part: Received) -> Result<Option<Received>, String> {
        let key = (part.stream, part.unordered);
        if part.aborted {
            self.0.remove(&key);
            return Ok(None);
        }
        if !part.more && !self.0.contains_key(&key) {
            return Ok(Some(part));
        }
        let begun = self.0.entry(key).or_default();
        begun.extend_from_slice(&part.bytes);
        if begun.len() as u64 > MAX_BUFFER_BYTES {
            return Err(format!(
                "a message on stream {} has more than {MAX_BUFFER_BYTES} bytes",
                part.stream
            ));
        }
        Ok((!part.more).then(|| Received { bytes: self.0.remove(&key).unwrap_or_default(), ..part }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &[u8], stream: u16, more: bool) -> Received {
        Received { bytes: bytes.to_vec(), stream, ppid: DATA_PPID, unordered: false, more, aborted: false }
    }

    #[test]
    fn parts_are_joined_by_stream() {
        let mut parts = Parts::default();
        let mut join = |part: Received| parts.join(part).expect("a short message").map(|whole| whole.bytes);
        assert_eq!(join(part(b"ab", 1, true)), None);
        assert_eq!(join(part(b"whole", 2, false)), Some(b"whole".to_vec()));
        assert_eq!(join(part(b"xy", 3, true)), None);
        assert_eq!(join(part(b"c", 1, true)), None);
        assert_eq!(join(part(b"d", 1, false)), Some(b"abcd".to_vec()));
        // The sender abandons the message on stream 3; the next one is whole.
        assert_eq!(join(Received { aborted: true, ..part(b"", 3, false) }), None);
        assert_eq!(join(part(b"z", 3, false)), Some(b"z".to_vec()));
    }

    #[test]
    fn endless_message_is_refused() {
        let mut parts = Parts::default();
        let long = vec![0; MAX_BUFFER_BYTES as usize];
        assert_eq!(parts.join(part(&long, 0, true)), Ok(None));
        assert!(
            parts.join(part(b"x", 0, true)).expect_err("too long").contains("has more than 67108864 bytes")
        );
    }
}
