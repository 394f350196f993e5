//! A connection as its application sees it.

use super::Bytes;
use crate::endpoint::{Delivery, Endpoint, Write};
use anabranch_base::time::Time;

/// An endpoint with its bytes at one moment, for an application to write and read.
pub struct Socket<'a> {
    /// The protocol.
    pub endpoint: &'a mut dyn Endpoint,
    /// Bytes that the endpoint has to send and has received.
    pub bytes: &'a mut Bytes,
    /// The time now.
    pub now: Time,
}

impl Socket<'_> {
    /// Writes bytes to the send buffer and returns the number of accepted bytes: as many as fit to a byte stream, all
    /// or none of a message. `how` has the other attributes of the write; its length is ignored.
    pub fn write(&mut self, bytes: &[u8], how: Write) -> usize {
        let accepted = self.endpoint.write(self.now, Write { len: bytes.len() as u64, ..how }) as usize;
        self.bytes.sent.write(&bytes[..accepted]);
        accepted
    }

    /// Writes a message to the send buffer, completely or not at all, and returns the number of accepted bytes. The bytes of an
    /// accepted message are taken out of `message`.
    ///
    /// # Panics
    ///
    /// If the endpoint accepts a part of the message, as endpoints of streams do.
    pub fn write_message(&mut self, message: &mut Vec<u8>, how: Write) -> usize {
        let len = message.len();
        let accepted = self.endpoint.write(self.now, Write { len: len as u64, ..how }) as usize;
        assert!(accepted == 0 || accepted == len, "{accepted} of {len} bytes of a message were accepted");
        if accepted > 0 {
            self.bytes.sent.write_message(core::mem::take(message));
        }
        accepted
    }

    /// Reads up to `max` bytes of the stream, or the next message or part of one, and appends the bytes to `out`. A
    /// delivery that reports an abandoned message has no bytes.
    pub fn read(&mut self, max: u64, out: &mut Vec<u8>) -> Option<Delivery> {
        let delivery = self.endpoint.read(self.now, max)?;
        let runs = self.endpoint.fragments();
        let before = out.len();
        if delivery.aborted {
            return Some(delivery);
        }
        if runs.is_empty() {
            self.bytes.stream.read(delivery.offset, delivery.len, out);
        } else {
            out.reserve(delivery.len as usize);
            self.bytes.fragments.collect(runs, out);
        }
        debug_assert_eq!((out.len() - before) as u64, delivery.len, "{delivery:?} of {runs:?}");
        Some(delivery)
    }

    /// Ends writing: the written bytes are sent, then the connection closes.
    pub fn close(&mut self) {
        self.endpoint.close(self.now);
    }
}
