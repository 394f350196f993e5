//! Bits of the range decoder of LZMA, whose probabilities adapt.
//!
//! The format is described by the "LZMA specification" of the LZMA SDK.

/// Bits of a probability.
const PROBABILITY_BITS: u32 = 11;
/// Probability of both values of a bit at the start.
const EVEN: u16 = 1 << (PROBABILITY_BITS - 1);
/// Part of the difference by which a probability adapts to each bit, as a shift.
const ADAPTATION_BITS: u32 = 5;
/// Range below which another byte is read.
const MIN_RANGE: u32 = 1 << 24;
/// Bytes of the first code.
const CODE_BYTES: usize = 5;

/// Range, code and position in the packed data.
#[derive(Clone, Copy, Default)]
pub(crate) struct Position {
    range: u32,
    code: u32,
    at: usize,
}

impl Position {
    /// The position of the first bit; `None` if the data is too short.
    pub(crate) fn first(input: &[u8]) -> Option<Self> {
        let &[_, a, b, c, d] = input.first_chunk::<CODE_BYTES>()?;
        Some(Self { range: u32::MAX, code: u32::from_be_bytes([a, b, c, d]), at: CODE_BYTES })
    }
}

/// Number of probabilities, a power of two.
pub(crate) const PROBABILITIES: usize = 1 << 13;

/// Probabilities of all bits, by index.
pub(crate) type Probabilities = [u16; PROBABILITIES];

/// Probabilities at the start.
pub(crate) fn even_probabilities() -> Box<Probabilities> {
    Box::new([EVEN; PROBABILITIES])
}

/// Reads bits from a position on.
pub(crate) struct BitReader<'a> {
    pub(crate) position: Position,
    pub(crate) input: &'a [u8],
    pub(crate) probabilities: &'a mut Probabilities,
}

impl BitReader<'_> {
    /// The next bit, decoded with the probability at an index.
    #[inline]
    pub(crate) fn bit(&mut self, index: usize) -> usize {
        // The mask has no effect on a valid index; with it, no check of the bounds is needed.
        let place = &mut self.probabilities[index % PROBABILITIES];
        let probability = *place;
        let bound = (self.position.range >> PROBABILITY_BITS) * u32::from(probability);
        let bit = usize::from(self.position.code >= bound);
        if bit == 0 {
            self.position.range = bound;
            *place = probability + (((1 << PROBABILITY_BITS) - probability) >> ADAPTATION_BITS);
        } else {
            self.position.range -= bound;
            self.position.code -= bound;
            *place = probability - (probability >> ADAPTATION_BITS);
        }
        self.refill();
        bit
    }

    /// A number of equally probable bits, the highest first.
    #[inline]
    pub(crate) fn even(&mut self, count: usize) -> usize {
        let mut value = 0;
        for _ in 0..count {
            self.position.range >>= 1;
            let bit = self.position.code >= self.position.range;
            if bit {
                self.position.code -= self.position.range;
            }
            value = value << 1 | usize::from(bit);
            self.refill();
        }
        value
    }

    /// A number of bits, the highest first; each has a probability for each combination of those before it.
    #[inline]
    pub(crate) fn tree(&mut self, first: usize, count: usize) -> usize {
        let mut node = 1;
        for _ in 0..count {
            node = node << 1 | self.bit(first + node);
        }
        node - (1 << count)
    }

    /// As [`Self::tree`], with the lowest bit first.
    #[inline]
    pub(crate) fn reversed_tree(&mut self, first: usize, count: usize) -> usize {
        let mut node = 1;
        let mut value = 0;
        for shift in 0..count {
            let bit = self.bit(first + node);
            node = node << 1 | bit;
            value |= bit << shift;
        }
        value
    }

    /// Damaged data can end too early: bytes after their end are zero.
    #[inline]
    fn refill(&mut self) {
        if self.position.range < MIN_RANGE {
            let byte = self.input.get(self.position.at).copied().unwrap_or(0);
            self.position.range <<= 8;
            self.position.code = self.position.code << 8 | u32::from(byte);
            self.position.at += 1;
        }
    }
}
