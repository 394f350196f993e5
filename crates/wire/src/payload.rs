//! Payload without bytes: a run of the sender's stream.

/// A run of stream bytes with no bytes behind it.
///
/// Where bytes are needed (a capture, the checking mode, a test of contents), the byte at offset `o` of stream `s`
/// is [`Payload::byte`], a fixed pattern, so that a byte delivered to the wrong place shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Offset of the first byte in the sender's stream. A parser cannot know it and leaves zero.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Payload {
    /// No payload.
    pub const EMPTY: Self = Self { offset: 0, len: 0 };

    /// `len` bytes from `offset` on.
    pub const fn new(offset: u64, len: u32) -> Self {
        Self { offset, len }
    }

    /// True without a byte.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Offset behind the last byte.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// The pattern byte at a stream offset.
    pub const fn byte(offset: u64) -> u8 {
        // The top byte of a multiplicative hash: neighbouring offsets, and offsets a power of two apart, differ.
        (offset.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    /// Fills `out` with the pattern from `offset` on.
    pub fn fill(&self, out: &mut [u8]) {
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = Self::byte(self.offset + at as u64);
        }
    }
}
