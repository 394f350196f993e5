//! Bytes that may have to be sent.

use super::ring::Ring;
use anabranch_wire::Payload;
use std::collections::VecDeque;

/// Shortest message that stays in its buffer. A shorter one is copied sooner than it is found later.
const MIN_KEPT_BYTES: usize = 4096;

/// The bytes that an application has written, by their offset in all written bytes, until they are
/// [released](crate::Endpoint::released).
#[derive(Clone, Debug, Default)]
pub struct SendBuffer {
    /// All bytes except those of `messages`, without gaps.
    ring: Ring,
    /// Long messages, which are not copied.
    messages: VecDeque<Message>,
    /// An offset from which on the bytes before the first message are in the ring, and the offset in the ring.
    base: (u64, u64),
    start: u64,
    written: u64,
}

#[derive(Clone, Debug)]
struct Message {
    start: u64,
    bytes: Vec<u8>,
    /// Offset in the ring of the bytes behind the message.
    behind: u64,
}

impl Message {
    const fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl SendBuffer {
    /// Number of bytes already written: the offset of the next one.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Number of bytes that are written and not released. Of a long message, the whole buffer stays until its last byte is
    /// released: at most twice its length.
    pub const fn len(&self) -> u64 {
        self.written - self.start
    }

    /// True if no byte is stored.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes that the endpoint has accepted.
    pub fn write(&mut self, bytes: &[u8]) {
        self.ring.put(self.ring.end(), bytes);
        self.written += bytes.len() as u64;
    }

    /// Appends a message that the endpoint has accepted. A long message is not copied, unless its buffer is mostly empty.
    pub fn write_message(&mut self, bytes: Vec<u8>) {
        if bytes.len() < MIN_KEPT_BYTES || bytes.capacity() / 2 > bytes.len() {
            self.write(&bytes);
            return;
        }
        let message = Message { start: self.written, bytes, behind: self.ring.end() };
        self.written = message.end();
        self.messages.push_back(message);
    }

    /// Writes the bytes of `payload` into `out`, which has the same length.
    ///
    /// # Panics
    ///
    /// If a part of the payload has not been written yet, or has been released.
    pub fn fill(&self, payload: Payload, out: &mut [u8]) {
        let (mut offset, mut rest) = (payload.offset, out);
        while !rest.is_empty() {
            let run = self.run(Payload::new(offset, rest.len() as u32));
            let (filled, left) = rest.split_at_mut(run.len());
            filled.copy_from_slice(run);
            (offset, rest) = (offset + run.len() as u64, left);
        }
    }

    /// The first bytes of `payload`, at least one, that are stored in a row.
    ///
    /// # Panics
    ///
    /// If the payload is empty, a part of it has not been written yet, or has been released.
    pub fn run(&self, payload: Payload) -> &[u8] {
        let (offset, len) = (payload.offset, payload.len as usize);
        let kept = self.start..=self.written;
        assert!(
            !payload.is_empty() && kept.contains(&offset) && kept.contains(&payload.end()),
            "{payload:?} is not among {kept:?}"
        );
        let next = self.messages.partition_point(|message| message.start <= offset);
        let (base, ring) = match next.checked_sub(1).map(|before| &self.messages[before]) {
            Some(message) if offset < message.end() => {
                let run = &message.bytes[(offset - message.start) as usize..];
                return &run[..len.min(run.len())];
            }
            Some(message) => (message.end(), message.behind),
            None => self.base,
        };
        let end = self.messages.get(next).map_or(self.written, |message| message.start);
        self.ring.get(ring + (offset - base), len.min((end - offset) as usize)).0
    }

    /// Removes the bytes below an offset.
    ///
    /// # Panics
    ///
    /// If the application has not written all bytes below the offset.
    pub fn release(&mut self, below: u64) {
        assert!(below <= self.written, "{below} is not below the {} bytes written", self.written);
        self.start = self.start.max(below);
        while let Some(message) = self.messages.front()
            && message.end() <= below
        {
            self.base = (message.end(), message.behind);
            self.messages.pop_front();
        }
        let (base, ring) = self.base;
        let first = self.messages.front().map_or(self.start, |message| message.start.min(self.start));
        self.ring.forget(ring + (first - base));
    }
}
