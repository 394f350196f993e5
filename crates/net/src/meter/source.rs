//! The data that an end of a flow writes: a pattern of the offset in its stream.

use anabranch_wire::Payload;
use core::ops::Range;

/// Maximum number of bytes per write.
const CHUNK_BYTES: usize = 1 << 16;

/// The data of a stream from its first byte on.
pub struct Source {
    /// Number of bytes taken.
    offset: u64,
    /// The range of the stream at the end of `chunk`.
    filled: Range<u64>,
    chunk: Vec<u8>,
}

impl Source {
    /// The whole stream.
    pub fn new() -> Self {
        Self { offset: 0, filled: 0..0, chunk: vec![0; CHUNK_BYTES] }
    }

    /// The next bytes, at most `len`.
    pub fn next(&mut self, len: u64) -> &[u8] {
        if self.filled.is_empty() {
            self.filled = self.offset..self.offset + self.chunk.len() as u64;
            Payload::new(self.offset, self.chunk.len() as u32).fill(&mut self.chunk);
        }
        let left = self.filled.end - self.filled.start;
        let from = self.chunk.len() - left as usize;
        &self.chunk[from..from + left.min(len) as usize]
    }

    /// Removes the first bytes.
    pub fn take(&mut self, len: u64) {
        self.filled.start += len;
        self.offset += len;
    }

    /// Takes the next `len` bytes, which fit a datagram; returns them with their offset.
    pub fn datagram(&mut self, len: u64) -> (u64, &mut [u8]) {
        let datagram = &mut self.chunk[..len as usize];
        let offset = self.offset;
        Payload::new(offset, len as u32).fill(datagram);
        self.offset += len;
        self.filled = 0..0;
        (offset, datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_lengths_do_not_change_the_stream() {
        let mut source = Source::new();
        let mut stream = Vec::new();
        for len in [1, 70_000, 5, 100_000, 65_536, 3] {
            let taken = source.next(len).to_vec();
            assert!(!taken.is_empty() && taken.len() as u64 <= len);
            source.take(taken.len() as u64);
            stream.extend(taken);
        }
        let (offset, datagram) = source.datagram(10);
        assert_eq!(offset, stream.len() as u64);
        stream.extend_from_slice(datagram);
        assert_eq!(Payload::new(0, stream.len() as u32).first_difference(&stream), None);
    }
}
