//! The Internet checksum (RFC 1071), as IPv4, UDP, TCP and the Multipath TCP data sequence signal use it.

use crate::Payload;

/// A running ones'-complement sum over byte strings laid end to end.
///
/// Words are added in the machine's own byte order and swapped once at the end, which RFC 1071 §2(B) shows to be
/// equivalent and which the compiler turns into vector additions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    sum: u64,
    /// True if the number of added bytes is odd: the next byte is then the low half of its word.
    odd: bool,
}

impl Checksum {
    /// An empty sum.
    pub const fn new() -> Self {
        Self { sum: 0, odd: false }
    }

    /// Appends bytes to those already added.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let whole: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        let sum = whole + u64::from(u32::from_ne_bytes(last));
        self.followed_by(Self { sum, odd: bytes.len() % 2 == 1 })
    }

    /// Adds the pattern bytes of a payload behind the bytes already added.
    #[must_use]
    pub fn pattern(mut self, payload: Payload) -> Self {
        let mut buffer = [0; 256];
        let mut left = payload;
        while left.len > 0 {
            let part = Payload::new(left.offset, left.len.min(buffer.len() as u32));
            let bytes = &mut buffer[..part.len as usize];
            part.fill(bytes);
            self = self.bytes(bytes);
            left = Payload::new(left.offset.wrapping_add(u64::from(part.len)), left.len - part.len);
        }
        self
    }

    /// The checksum of these bytes followed by the bytes of `other`.
    #[must_use]
    pub const fn followed_by(self, other: Self) -> Self {
        let folded = fold_carries(other.sum);
        let behind = if self.odd { folded.swap_bytes() } else { folded };
        Self { sum: self.sum + behind as u64, odd: self.odd ^ other.odd }
    }

    /// Adds the sum over `part`. `odd` is true if the part begins at an odd distance from the first byte. Parts may
    /// therefore be added in any order.
    #[must_use]
    pub const fn with_part(self, odd: bool, part: Self) -> Self {
        let folded = fold_carries(part.sum);
        let placed = if odd { folded.swap_bytes() } else { folded };
        Self { sum: self.sum + placed as u64, odd: self.odd }
    }

    /// The checksum: the complement of the sum, to be written in network byte order. Over bytes that include a
    /// correct checksum it is zero.
    pub const fn finish(self) -> u16 {
        !u16::from_be(fold_carries(self.sum))
    }
}

/// Adds the carries back until 16 bits are left.
pub(crate) const fn fold_carries(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum computed word by word, as RFC 1071 §1 defines it.
    fn by_definition(bytes: &[u8]) -> u16 {
        let sum: u64 = bytes
            .chunks(2)
            .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
            .sum();
        !fold_carries(sum)
    }

    #[test]
    fn checksum_equals_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Checksum::new().bytes(&bytes).finish(), !0xddf2);
    }

    #[test]
    fn split_bytes_give_the_defined_checksum() {
        let mut bytes = [0; 777];
        Payload::new(99, 777).fill(&mut bytes);
        for end in 0..bytes.len() {
            let expected = by_definition(&bytes[..end]);
            for cut in [0, 1, 2, 3, 7, end / 2, end] {
                let cut = cut.min(end);
                let sum = Checksum::new().bytes(&bytes[..cut]).bytes(&bytes[cut..end]);
                assert_eq!(sum.finish(), expected, "{end} bytes cut at {cut}");
            }
            let sum =
                Checksum::new().bytes(&bytes[..3]).pattern(Payload::new(102, end.saturating_sub(3) as u32));
            assert_eq!(sum.finish(), by_definition(&bytes[..end.max(3)]));
        }
    }

    #[test]
    fn parts_are_added_in_any_order() {
        let mut bytes = [0; 100];
        Payload::new(7, 100).fill(&mut bytes);
        let cuts = [0, 3, 8, 8, 51, 100];
        let parts = cuts.windows(2).rev().map(|cut| (cut[0] % 2 == 1, &bytes[cut[0]..cut[1]]));
        let sum =
            parts.fold(Checksum::new(), |sum, (odd, part)| sum.with_part(odd, Checksum::new().bytes(part)));
        assert_eq!(sum.finish(), by_definition(&bytes));
    }

    #[test]
    fn checksums_of_ones_and_of_no_bytes_are_exact() {
        assert_eq!(Checksum::new().finish(), 0xffff);
        assert_eq!(Checksum::new().bytes(&[0xff; 64]).finish(), 0);
    }
}
