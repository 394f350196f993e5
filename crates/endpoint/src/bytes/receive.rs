//! Bytes received of a stream.

use super::ring::Ring;

/// The bytes of the peer's stream that were received and not yet read.
///
/// The bytes arrive in any order, each once, and are read in the order of the stream. The endpoint accepts no byte
/// outside its receive window, so this window, rounded up to a power of two, bounds the memory.
#[derive(Clone, Debug, Default)]
pub struct ReceiveBuffer {
    ring: Ring,
}

impl ReceiveBuffer {
    /// Number of bytes already read: the offset of the next one.
    pub const fn next(&self) -> u64 {
        self.ring.start()
    }

    /// Stores bytes at an offset of the stream.
    ///
    /// # Panics
    ///
    /// If some of these bytes have already been read.
    pub fn place(&mut self, offset: u64, bytes: &[u8]) {
        assert!(offset >= self.next(), "the byte at {offset} has been read: the next is {}", self.next());
        self.ring.put(offset, bytes);
    }

    /// Moves the next `len` bytes, which begin at `offset`, to the end of `out`.
    ///
    /// # Panics
    ///
    /// If `offset` is not the offset of the next unread byte, or fewer than `len` bytes are stored from there.
    pub fn read(&mut self, offset: u64, len: u64, out: &mut Vec<u8>) {
        assert_eq!(offset, self.next(), "bytes are read in order");
        assert!(offset + len <= self.ring.end(), "{len} bytes from {offset} on, of {}", self.ring.end());
        let (first, second) = self.ring.get(offset, len as usize);
        out.extend_from_slice(first);
        out.extend_from_slice(second);
        self.ring.forget(offset + len);
    }
}
