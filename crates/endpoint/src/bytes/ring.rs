//! A window of a byte stream, stored in a ring that grows on demand.

use core::ops::Range;

/// Smallest size of a ring, bytes.
const MIN_RING_BYTES: usize = 4096;

/// The bytes of a stream from [`start`](Self::start) on. The byte at offset `o` is stored at index `o` modulo the
/// ring's length, which is zero or a power of two. Bytes therefore move only when the ring grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    start: u64,
    /// Offset behind the last stored byte; at least `start`.
    end: u64,
}

impl Ring {
    /// Offset of the first stored byte.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Offset behind the last stored byte.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Stores bytes at an offset, which may leave a gap before them.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert!(offset >= self.start);
        let end = offset + bytes.len() as u64;
        self.grow((end.max(self.end) - self.start) as usize);
        let (first, second) = self.places(offset, bytes.len());
        let (left, right) = bytes.split_at(first.len());
        self.bytes[first].copy_from_slice(left);
        self.bytes[second].copy_from_slice(right);
        self.end = self.end.max(end);
    }

    /// The bytes from an offset on, as two slices of which the second may be empty.
    pub fn get(&self, offset: u64, len: usize) -> (&[u8], &[u8]) {
        let (first, second) = self.places(offset, len);
        (&self.bytes[first], &self.bytes[second])
    }

    /// Removes the bytes below `offset`.
    pub fn forget(&mut self, offset: u64) {
        self.start = self.start.max(offset);
        self.end = self.end.max(self.start);
    }

    /// The indices in the ring of `len` bytes from `offset` on, as two ranges of which the second may be empty.
    fn places(&self, offset: u64, len: usize) -> (Range<usize>, Range<usize>) {
        if len == 0 {
            return (0..0, 0..0);
        }
        let at = (offset & (self.bytes.len() as u64 - 1)) as usize;
        let first = len.min(self.bytes.len() - at);
        (at..at + first, 0..len - first)
    }

    /// Grows the ring to `len` bytes from the start on. Bytes keep their offsets.
    fn grow(&mut self, len: usize) {
        if len <= self.bytes.len() {
            return;
        }
        let mut larger = Self {
            bytes: vec![0; len.next_power_of_two().max(MIN_RING_BYTES)],
            start: self.start,
            end: self.start,
        };
        let (first, second) = self.get(self.start, (self.end - self.start) as usize);
        larger.put(self.start, first);
        larger.put(self.start + first.len() as u64, second);
        *self = larger;
    }
}
