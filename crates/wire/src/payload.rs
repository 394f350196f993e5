//! Payload without bytes: a run of the sender's stream.

/// A run of stream bytes with no bytes behind it.
///
/// Where bytes are needed (a capture, the checking mode, a test of contents), the byte at offset `o` of stream `s`
/// is [`Payload::byte`], a fixed pattern, so that a byte delivered to the wrong place shows. Its bytes are the sixteen from
/// 0x60 (`` ` ``) to 0x6f (`o`), with which no protocol begins that tshark looks for in payloads: a capture reads as data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Offset of the first byte in the sender's stream. A parser cannot know it: a parsed payload has the place of its
    /// bytes in the buffer that it was parsed from, where [`Buffer`](crate::Buffer) finds them.
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

    /// `len` bytes of it, from the one at `skip` on.
    ///
    /// # Panics
    /// If it has fewer.
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
        letter(offset.wrapping_add(1).wrapping_mul(STEP))
    }

    /// Fills `out` with the pattern from `offset` on.
    pub fn fill(&self, out: &mut [u8]) {
        let mut hash = self.first_hash();
        let (words, rest) = out.as_chunks_mut();
        for word in words {
            *word = eight(hash);
            hash = hash.wrapping_add(STEP.wrapping_mul(8));
        }
        rest.copy_from_slice(&eight(hash)[..rest.len()]);
    }

    /// Where `bytes` first differ from the pattern, or from this payload's length; `None` if they are what
    /// [`fill`](Self::fill) writes.
    pub fn first_difference(&self, bytes: &[u8]) -> Option<usize> {
        let mut hash = self.first_hash();
        let (words, rest) = bytes.as_chunks();
        for (word, start) in words.iter().zip((0..).step_by(8)) {
            let expected = eight(hash);
            if *word != expected {
                return word
                    .iter()
                    .zip(expected)
                    .position(|(&byte, expected)| byte != expected)
                    .map(|at| start + at);
            }
            hash = hash.wrapping_add(STEP.wrapping_mul(8));
        }
        let differs = rest.iter().zip(eight(hash)).position(|(&byte, expected)| byte != expected);
        let common = bytes.len().min(self.len as usize);
        let length_differs = (bytes.len() != self.len as usize).then_some(common);
        differs.map(|at| words.len() * 8 + at).or(length_differs)
    }

    /// The hash of the first offset; that of the next is one [`STEP`] further.
    const fn first_hash(&self) -> u64 {
        self.offset.wrapping_add(1).wrapping_mul(STEP)
    }
}

/// The golden ratio in 64 bits: the multiplier of the hash, and so the step between neighbours.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pattern bytes of eight offsets in a row, from the hash of the first. A whole word at once, so that the compiler
/// computes them side by side.
fn eight(hash: u64) -> [u8; 8] {
    core::array::from_fn(|at| letter(hash.wrapping_add(STEP.wrapping_mul(at as u64))))
}

/// The pattern byte of a hash.
const fn letter(hash: u64) -> u8 {
    0x60 | (hash >> 60) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_agrees_with_single_bytes_across_the_end_of_the_offset() {
        let payload = Payload::new(u64::MAX - 20, 50);
        let mut bytes = [0; 50];
        payload.fill(&mut bytes);
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte, Payload::byte(payload.offset.wrapping_add(at as u64)));
        }
        assert_eq!(payload.first_difference(&bytes), None);
    }

    #[test]
    fn a_difference_is_found_where_it_is() {
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
