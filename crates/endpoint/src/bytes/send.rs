//! Bytes that may have to be sent.

use super::ring::Ring;
use anabranch_wire::Payload;

/// The bytes that an application has written, by their offset in all written bytes, until they are
/// [released](crate::Endpoint::released).
#[derive(Clone, Debug, Default)]
pub struct SendBuffer {
    ring: Ring,
}

impl SendBuffer {
    /// Number of bytes already written: the offset of the next one.
    pub const fn written(&self) -> u64 {
        self.ring.end()
    }

    /// Number of stored bytes.
    pub const fn len(&self) -> u64 {
        self.ring.end() - self.ring.start()
    }

    /// True if no byte is stored.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes that the endpoint has accepted.
    pub fn write(&mut self, bytes: &[u8]) {
        self.ring.put(self.ring.end(), bytes);
    }

    /// Writes the bytes of `payload` into `out`, which has the same length.
    ///
    /// # Panics
    ///
    /// If a part of the payload has not been written yet, or has been released.
    pub fn fill(&self, payload: Payload, out: &mut [u8]) {
        let (first, second) = self.get(payload);
        let (left, right) = out.split_at_mut(first.len());
        left.copy_from_slice(first);
        right.copy_from_slice(second);
    }

    /// The bytes of `payload`, as two slices of which the second may be empty.
    ///
    /// # Panics
    /// As [`fill`](Self::fill).
    pub fn get(&self, payload: Payload) -> (&[u8], &[u8]) {
        let kept = self.ring.start()..=self.ring.end();
        assert!(
            payload.is_empty() || kept.contains(&payload.offset) && kept.contains(&payload.end()),
            "{payload:?} is not among {kept:?}"
        );
        self.ring.get(payload.offset, payload.len as usize)
    }

    /// Removes the bytes below an offset.
    ///
    /// # Panics
    ///
    /// If the application has not written all bytes below the offset.
    pub fn release(&mut self, below: u64) {
        assert!(below <= self.written(), "{below} is not below the {} bytes written", self.written());
        self.ring.forget(below);
    }
}
