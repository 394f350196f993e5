/**
 * Decoder of LZMA, in which the simulator's module is a quarter smaller than in gzip. Browsers have no decoder of their own.
 *
 * The format is that of the "LZMA specification" of the LZMA SDK, without its header: the length of the data in four bytes,
 * the lowest first, then range-coded data with three bits of literal context and no bits of position (lc = 3, lp = 0,
 * pb = 0). `lab/pack.py` writes it.
 */

/** Bits of a probability; of the previous byte in the context of a literal; and of the number of a distance's slot. */
const PROBABILITY_BITS = 11;
const CONTEXT_BITS = 3;
const SLOT_BITS = 6;
/** Part of the difference by which a probability adapts to each bit, as a shift. */
const ADAPTATION_BITS = 5;
/** Range below which another byte is read. */
const MIN_RANGE = 2 ** 24;
/** Bytes of the length, and of the range decoder's first code. */
const LENGTH_BYTES = 4;
const CODE_BYTES = 5;
/** Shortest match. */
const MIN_MATCH = 2;
/** Slots of distances that are themselves the distance, and the first slot whose lowest bits have one common tree. */
const FIRST_SLOT_WITH_BITS = 4;
const FIRST_ALIGNED_SLOT = 14;
const ALIGN_BITS = 4;
/** States; from the eighth on, a match or a repetition was the last element. */
const STATES = 12;
const FIRST_STATE_AFTER_MATCH = 7;

/** Indexes at which groups of probabilities begin: bits by state, distances, lengths, literals. */
const IS_MATCH = 0;
const IS_REPETITION = IS_MATCH + STATES;
const IS_OLDER = IS_REPETITION + STATES;
const IS_OLDER_THAN_SECOND = IS_OLDER + STATES;
const IS_OLDEST = IS_OLDER_THAN_SECOND + STATES;
const IS_LONG = IS_OLDEST + STATES;
const SLOTS = IS_LONG + STATES;
const DISTANCES = SLOTS + (4 << SLOT_BITS);
const ALIGNED = DISTANCES + 128;
const MATCH_LENGTHS = ALIGNED + (1 << ALIGN_BITS);
const REPETITION_LENGTHS = MATCH_LENGTHS + 512;
const LITERALS = REPETITION_LENGTHS + 512;
const LITERAL_PROBABILITIES = 0x300;

/** Reads bits whose probabilities adapt. */
class BitReader {
  private range = 0xffffffff;
  private code = 0;
  private readonly probabilities = new Uint16Array(LITERALS + (LITERAL_PROBABILITIES << CONTEXT_BITS)).fill(
    1 << (PROBABILITY_BITS - 1),
  );

  constructor(
    private readonly input: Uint8Array,
    private at: number,
  ) {
    for (let byte = 0; byte < CODE_BYTES; byte++) this.code = ((this.code << 8) | this.input[this.at++]!) >>> 0;
  }

  /** The next bit, decoded with the probability at an index. */
  bit(place: number): number {
    const probability = this.probabilities[place]!;
    const bound = (this.range >>> PROBABILITY_BITS) * probability;
    let bit = 0;
    if (this.code < bound) {
      this.range = bound;
      this.probabilities[place] = probability + (((1 << PROBABILITY_BITS) - probability) >> ADAPTATION_BITS);
    } else {
      this.range -= bound;
      this.code -= bound;
      this.probabilities[place] = probability - (probability >> ADAPTATION_BITS);
      bit = 1;
    }
    this.refill();
    return bit;
  }

  /** A number of equally probable bits, the highest first. */
  even(count: number): number {
    let value = 0;
    for (; count > 0; count--) {
      this.range >>>= 1;
      const bit = this.code >= this.range ? 1 : 0;
      if (bit === 1) this.code -= this.range;
      value = (value << 1) | bit;
      this.refill();
    }
    return value;
  }

  /** A number of bits, the highest first; each has a probability for each combination of those before it. */
  tree(place: number, count: number): number {
    let node = 1;
    for (let bit = 0; bit < count; bit++) node = (node << 1) | this.bit(place + node);
    return node - (1 << count);
  }

  /** Like `tree`, with the lowest bit first. */
  reversedTree(place: number, count: number): number {
    let node = 1;
    let value = 0;
    for (let shift = 0; shift < count; shift++) {
      const bit = this.bit(place + node);
      node = (node << 1) | bit;
      value |= bit << shift;
    }
    return value;
  }

  /** The length of a match: three bits, or three others, or eight. */
  length(place: number): number {
    const trees = place + 2;
    if (this.bit(place) === 0) return MIN_MATCH + this.tree(trees, 3);
    if (this.bit(place + 1) === 0) return MIN_MATCH + 8 + this.tree(trees + 8, 3);
    return MIN_MATCH + 16 + this.tree(trees + 16, 8);
  }

  /** The distance of a match of this length; 0 is the previous byte. */
  distance(length: number): number {
    const slot = this.tree(SLOTS + (Math.min(length - MIN_MATCH, 3) << SLOT_BITS), SLOT_BITS);
    if (slot < FIRST_SLOT_WITH_BITS) return slot;
    const count = (slot >> 1) - 1;
    const base = (2 | (slot & 1)) << count;
    if (slot < FIRST_ALIGNED_SLOT) return base + this.reversedTree(DISTANCES + base - slot, count);
    return base + (this.even(count - ALIGN_BITS) << ALIGN_BITS) + this.reversedTree(ALIGNED, ALIGN_BITS);
  }

  /** A literal after the byte `previous`. After a match, `expected` is the byte that would have continued it. */
  literal(previous: number, expected: number | null): number {
    const place = LITERALS + LITERAL_PROBABILITIES * (previous >> (8 - CONTEXT_BITS));
    let symbol = 1;
    for (let shift = 7; expected !== null && shift >= 0; shift--) {
      const wanted = (expected >> shift) & 1;
      const bit = this.bit(place + ((1 + wanted) << 8) + symbol);
      symbol = (symbol << 1) | bit;
      if (bit !== wanted) break;
    }
    while (symbol < 0x100) symbol = (symbol << 1) | this.bit(place + symbol);
    return symbol - 0x100;
  }

  /** Which of the last distances a repetition uses, the latest being 0. */
  repeated(state: number): number {
    if (this.bit(IS_OLDER + state) === 0) return 0;
    if (this.bit(IS_OLDER_THAN_SECOND + state) === 0) return 1;
    return 2 + this.bit(IS_OLDEST + state);
  }

  private refill(): void {
    if (this.range >= MIN_RANGE) return;
    this.range = (this.range << 8) >>> 0;
    this.code = ((this.code << 8) | this.input[this.at++]!) >>> 0;
  }
}

/** Unpacks data.
 *
 * @throws Error if the data are damaged.
 */
export function unpack(packed: Uint8Array): Uint8Array<ArrayBuffer> {
  const output = new Uint8Array(new DataView(packed.buffer, packed.byteOffset).getUint32(0, true));
  const reader = new BitReader(packed, LENGTH_BYTES);
  /** Distances of the last four matches, the latest first. */
  const distances = [0, 0, 0, 0];
  let state = 0;
  let at = 0;
  while (at < output.length) {
    const followsMatch = state >= FIRST_STATE_AFTER_MATCH;
    if (reader.bit(IS_MATCH + state) === 0) {
      const expected = followsMatch ? output[at - distances[0]! - 1]! : null;
      output[at] = reader.literal(at === 0 ? 0 : output[at - 1]!, expected);
      at++;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let length = 1;
    if (reader.bit(IS_REPETITION + state) === 0) {
      length = reader.length(MATCH_LENGTHS);
      distances.pop();
      distances.unshift(reader.distance(length));
      state = followsMatch ? 10 : 7;
    } else {
      const index = reader.repeated(state);
      const isByte = index === 0 && reader.bit(IS_LONG + state) === 0;
      distances.unshift(...distances.splice(index, 1));
      if (!isByte) length = reader.length(REPETITION_LENGTHS);
      state = followsMatch ? 11 : isByte ? 9 : 8;
    }
    const from = at - distances[0]! - 1;
    if (from < 0 || at + length > output.length) throw new Error("the packed data are damaged");
    for (let byte = 0; byte < length; byte++) output[at + byte] = output[from + byte]!;
    at += length;
  }
  return output;
}
