//! Literals, matches and repetitions of LZMA.

use crate::bits::{BitReader, PROBABILITIES, Position, Probabilities, even_probabilities};

/// Bits of the previous byte in the context of a literal.
const CONTEXT_BITS: u32 = 3;
/// Bits of the number of a distance's slot.
const SLOT_BITS: usize = 6;
/// Shortest match.
const MIN_MATCH: usize = 2;
/// Lengths of matches with slots of their own; longer matches share those of the last one.
const SLOT_LENGTHS: usize = 4;
/// Slots of distances that are themselves the distance, and the first slot whose lowest bits have one common tree.
const FIRST_SLOT_WITH_BITS: usize = 4;
const FIRST_ALIGNED_SLOT: usize = 14;
const ALIGN_BITS: usize = 4;
/// States; from the eighth on, a match or a repetition was the last element.
const STATES: usize = 12;
const FIRST_STATE_AFTER_MATCH: usize = 7;

/// Indexes at which groups of probabilities begin: bits by state, distances, lengths, literals.
const IS_MATCH: usize = 0;
const IS_REPETITION: usize = IS_MATCH + STATES;
const IS_OLDER: usize = IS_REPETITION + STATES;
const IS_OLDER_THAN_SECOND: usize = IS_OLDER + STATES;
const IS_OLDEST: usize = IS_OLDER_THAN_SECOND + STATES;
const IS_LONG: usize = IS_OLDEST + STATES;
const SLOTS: usize = IS_LONG + STATES;
const DISTANCES: usize = SLOTS + (SLOT_LENGTHS << SLOT_BITS);
const ALIGNED: usize = DISTANCES + 128;
const MATCH_LENGTHS: usize = ALIGNED + (1 << ALIGN_BITS);
const REPETITION_LENGTHS: usize = MATCH_LENGTHS + 512;
const LITERALS: usize = REPETITION_LENGTHS + 512;
const LITERAL_PROBABILITIES: usize = 0x300;
const _: () = assert!(LITERALS + (LITERAL_PROBABILITIES << CONTEXT_BITS) <= PROBABILITIES);

/// Decoder between two steps.
pub(crate) struct Decoder {
    position: Position,
    probabilities: Box<Probabilities>,
    history: History,
    /// Bytes of the output that are complete.
    pub(crate) done: usize,
}

/// Latest elements, on which the meaning of the next bits depends.
#[derive(Clone, Copy, Default)]
struct History {
    state: usize,
    /// Distances of the last four matches, the latest first; 0 is the previous byte.
    distances: [usize; 4],
}

impl History {
    fn follows_match(&self) -> bool {
        self.state >= FIRST_STATE_AFTER_MATCH
    }

    fn note_literal(&mut self) {
        self.state = match self.state {
            0..4 => 0,
            4..10 => self.state - 3,
            _ => self.state - 6,
        };
    }

    /// Notes a match or a repetition: the state after a literal, or after another match or repetition.
    fn note(&mut self, after_literal: usize, after_match: usize) {
        self.state = if self.follows_match() { after_match } else { after_literal };
    }

    /// Makes one of the last distances the latest.
    fn repeat(&mut self, index: usize) {
        let [first, second, third, fourth] = self.distances;
        self.distances = match index {
            0 => self.distances,
            1 => [second, first, third, fourth],
            2 => [third, first, second, fourth],
            _ => [fourth, first, second, third],
        };
    }
}

impl Decoder {
    /// A decoder at the start of its input; `None` if the input is too short.
    pub(crate) fn new(input: &[u8]) -> Option<Self> {
        Some(Self {
            position: Position::first(input)?,
            probabilities: even_probabilities(),
            history: History::default(),
            done: 0,
        })
    }

    /// Decodes until `limit` bytes of the output are complete, or a few more; `None` if the data is damaged.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8], limit: usize) -> Option<()> {
        let mut bits = BitReader { position: self.position, input, probabilities: &mut self.probabilities };
        let mut history = self.history;
        let mut at = self.done;
        while at < limit {
            if bits.bit(IS_MATCH + history.state) == 0 {
                let previous = if at == 0 { 0 } else { *output.get(at - 1)? };
                let expected =
                    if history.follows_match() { Some(*output.get(source(at, &history)?)?) } else { None };
                *output.get_mut(at)? = literal(&mut bits, previous, expected);
                history.note_literal();
                at += 1;
                continue;
            }
            let length = match_length(&mut bits, &mut history);
            let from = source(at, &history)?;
            // The ranges overlap if the match is longer than its distance.
            for index in 0..length {
                *output.get_mut(at + index)? = *output.get(from + index)?;
            }
            at += length;
        }
        self.position = bits.position;
        self.history = history;
        self.done = at;
        Some(())
    }
}

/// Index of the byte at the latest distance; `None` if it is before the first byte.
fn source(at: usize, history: &History) -> Option<usize> {
    at.checked_sub(history.distances[0] + 1)
}

/// A literal after the byte `previous`. After a match, `expected` is the byte that would have continued it.
#[inline]
fn literal(bits: &mut BitReader, previous: u8, expected: Option<u8>) -> u8 {
    let first = LITERALS + LITERAL_PROBABILITIES * usize::from(previous >> (8 - CONTEXT_BITS));
    let mut symbol = 1;
    if let Some(expected) = expected {
        let mut wanted = usize::from(expected);
        while symbol < 0x100 {
            let next = wanted >> 7 & 1;
            wanted <<= 1;
            let bit = bits.bit(first + ((1 + next) << 8) + symbol);
            symbol = symbol << 1 | bit;
            if bit != next {
                break;
            }
        }
    }
    while symbol < 0x100 {
        symbol = symbol << 1 | bits.bit(first + symbol);
    }
    symbol.to_le_bytes()[0]
}

/// The length of a match or a repetition; makes its distance the latest.
#[inline]
fn match_length(bits: &mut BitReader, history: &mut History) -> usize {
    let state = history.state;
    if bits.bit(IS_REPETITION + state) == 0 {
        let length = length(bits, MATCH_LENGTHS);
        history.repeat(3);
        history.distances[0] = distance(bits, length);
        history.note(7, 10);
        return length;
    }
    if bits.bit(IS_OLDER + state) == 0 {
        if bits.bit(IS_LONG + state) == 0 {
            history.note(9, 11);
            return 1;
        }
    } else if bits.bit(IS_OLDER_THAN_SECOND + state) == 0 {
        history.repeat(1);
    } else {
        history.repeat(2 + bits.bit(IS_OLDEST + state));
    }
    history.note(8, 11);
    length(bits, REPETITION_LENGTHS)
}

/// The length of a match: three bits, or three others, or eight.
#[inline]
fn length(bits: &mut BitReader, first: usize) -> usize {
    let trees = first + 2;
    if bits.bit(first) == 0 {
        return MIN_MATCH + bits.tree(trees, 3);
    }
    if bits.bit(first + 1) == 0 {
        return MIN_MATCH + 8 + bits.tree(trees + 8, 3);
    }
    MIN_MATCH + 16 + bits.tree(trees + 16, 8)
}

/// The distance of a match of a length.
#[inline]
fn distance(bits: &mut BitReader, length: usize) -> usize {
    let group = (length - MIN_MATCH).min(SLOT_LENGTHS - 1);
    let slot = bits.tree(SLOTS + (group << SLOT_BITS), SLOT_BITS);
    if slot < FIRST_SLOT_WITH_BITS {
        return slot;
    }
    let count = (slot >> 1) - 1;
    let base = (2 | (slot & 1)) << count;
    if slot < FIRST_ALIGNED_SLOT {
        return base + bits.reversed_tree(DISTANCES + base - slot, count);
    }
    let high = bits.even(count - ALIGN_BITS) << ALIGN_BITS;
    base + high + bits.reversed_tree(ALIGNED, ALIGN_BITS)
}
