//! A connection as its application sees it.

use super::Bytes;
use crate::endpoint::{Delivery, Endpoint, Write};
use anabranch_base::time::Time;

/// An endpoint with its bytes, at one moment: what an application writes to and reads from.
pub struct Socket<'a> {
    /// The protocol.
    pub endpoint: &'a mut dyn Endpoint,
    /// Its bytes.
    pub bytes: &'a mut Bytes,
    /// The time now.
    pub now: Time,
}

impl Socket<'_> {
    /// Writes what there is room for, and says how much that was: of a byte stream a part, of messages all or nothing. `how`
    /// says all about it but its length.
    pub fn write(&mut self, bytes: &[u8], how: Write) -> usize {
        let accepted = self.endpoint.write(self.now, Write { len: bytes.len() as u64, ..how }) as usize;
        self.bytes.sent.write(&bytes[..accepted]);
        accepted
    }

    /// Reads up to `max` bytes of the stream, or the next message however long or a part of one, and appends them to `out`;
    /// where a message has been given up after parts of it were read, there are none.
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
            self.bytes.fragments.collect(runs, out);
        }
        debug_assert_eq!((out.len() - before) as u64, delivery.len, "{delivery:?} of {runs:?}");
        Some(delivery)
    }

    /// Writes no more: what was written goes out, then the connection ends.
    pub fn close(&mut self) {
        self.endpoint.close(self.now);
    }
}
