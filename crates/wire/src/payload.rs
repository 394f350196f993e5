//! Payload without bytes: a range of the sender's stream.

/// A range of stream bytes, without storing the bytes.
///
/// If bytes are needed (for a capture, the checking mode, a test of contents), the byte at offset `o` of
/// stream `s` is [`Payload::byte`]: a fixed pattern, so that a byte delivered to the wrong place is detected.
/// The pattern consists of the sixteen bytes from 0x60 (`` ` ``) to 0x6f (`o`). No protocol that tshark looks
/// for in payloads begins with one of them, so tshark shows a capture as data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Offset of the first byte in the sender's stream. A parser cannot know it: in a parsed payload it is
    /// the index of its bytes in the parsed buffer, where [`Buffer`](crate::Buffer) finds them.
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

    /// True if the payload has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The part of `len` bytes that begins `skip` bytes after its start.
    ///
    /// # Panics
    ///
    /// If the payload is shorter.
    #[must_use]
    pub const fn part(&self, skip: u32, len: u32) -> Self {
        assert!(skip <= self.len && len <= self.len - skip, "a part is not longer than the whole");
        Self { offset: self.offset.wrapping_add(skip as u64), len }
    }

    /// Offset behind the last byte.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// The pattern byte at a stream offset.
    pub const fn byte(offset: u64) -> u8 {
        // The top bits of a multiplicative hash: neighbouring offsets, and offsets a power of two apart, differ.
        pattern_byte(offset.wrapping_add(1).wrapping_mul(STEP))
    }

    /// Fills `out` with the pattern from `offset` on.
    pub fn fill(&self, out: &mut [u8]) {
        let mut hash = self.first_hash();
        let (words, rest) = out.as_chunks_mut();
        for word in words {
            *word = eight_pattern_bytes(hash);
            hash = hash.wrapping_add(STEP.wrapping_mul(8));
        }
        rest.copy_from_slice(&eight_pattern_bytes(hash)[..rest.len()]);
    }

    /// The first index at which `bytes` differ from the pattern, or the shorter length if only the lengths differ;
    /// `None` if they equal the output of [`fill`](Self::fill).
    pub fn first_difference(&self, bytes: &[u8]) -> Option<usize> {
        let mut hash = self.first_hash();
        let (words, rest) = bytes.as_chunks();
        for (word, start) in words.iter().zip((0..).step_by(8)) {
            let expected = eight_pattern_bytes(hash);
            if *word != expected {
                return word
                    .iter()
                    .zip(expected)
                    .position(|(&byte, expected)| byte != expected)
                    .map(|at| start + at);
            }
            hash = hash.wrapping_add(STEP.wrapping_mul(8));
        }
        let differs =
            rest.iter().zip(eight_pattern_bytes(hash)).position(|(&byte, expected)| byte != expected);
        let common = bytes.len().min(self.len as usize);
        let length_differs = (bytes.len() != self.len as usize).then_some(common);
        differs.map(|at| words.len() * 8 + at).or(length_differs)
    }

    /// The hash of the first offset; the hash of the next offset is [`STEP`] larger.
    const fn first_hash(&self) -> u64 {
        self.offset.wrapping_add(1).wrapping_mul(STEP)
    }
}

/// The golden ratio in 64 bits: the multiplier of the hash, and therefore the difference of the hashes of
/// neighbouring offsets.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pattern bytes of eight consecutive offsets, from the hash of the first. The function computes a whole word, so
/// that the compiler vectorises it.
fn eight_pattern_bytes(hash: u64) -> [u8; 8] {
    core::array::from_fn(|at| pattern_byte(hash.wrapping_add(STEP.wrapping_mul(at as u64))))
}

/// The pattern byte of a hash.
const fn pattern_byte(hash: u64) -> u8 {
    0x60 | (hash >> 60) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_equals_single_bytes_across_offset_wrap() {
        let payload = Payload::new(u64::MAX - 20, 50);
        let mut bytes = [0; 50];
        payload.fill(&mut bytes);
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte, Payload::byte(payload.offset.wrapping_add(at as u64)));
        }
        assert_eq!(payload.first_difference(&bytes), None);
    }

    #[test]
    fn first_difference_returns_its_index() {
        let payload = Payload::new(1_000, 100);
        let mut bytes = [0; 101];
        payload.fill(&mut bytes);
        assert_eq!(payload.first_difference(&bytes[..100]), None);
        assert_eq!(payload.first_difference(&bytes[..99]), Some(99));
        assert_eq!(payload.first_difference(&bytes), Some(100));
        bytes[7] ^= 1;
        assert_eq!(payload.first_difference(&bytes), Some(7));
        assert_eq!(Payload::EMPTY.first_difference(&[]), None);
    }
}
