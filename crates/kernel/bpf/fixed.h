/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fixed-point numbers: Qn is an integer in units of 2^-n. The kernel has no floating-point numbers, and BPF has no 128-bit
 * products, so every product here must fit into 64 bits. Comments give the bounds of the factors where they are needed.
 */
#ifndef ANABRANCH_FIXED_H
#define ANABRANCH_FIXED_H

#include "types.h"

/* One packet in Q32, the unit in which window changes are counted. */
#define ONE_PACKET (1LL << 32)
/* Number of fractional bits of a ratio of round-trip times, and of products with such a ratio. */
#define RATIO_BITS 14
/* The largest ratio of round-trip times, 4096: paths of 1 s and 0.25 ms. */
#define MAX_RATIO (1ULL << (RATIO_BITS + 12))
/* Upper bound of a window in the formulas, packets. A larger window grows as if it had this size. */
#define MAX_PACKETS (1U << 18)

/*
 * Returns the same number, with a range that the verifier does not know. If a branch depends on a number, the verifier
 * checks a loop again for each range of that number. A sum over subflows that starts with a constant would be too much.
 */
static ALWAYS_INLINE u64 opaque(u64 number);

static ALWAYS_INLINE u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static ALWAYS_INLINE u64 most(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Returns a - b, or 0 if the difference is negative. */
static ALWAYS_INLINE u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/*
 * Returns RTT_own / RTT_path, Q14, rounded to the nearest; `path` is not 0. Rounding down would underestimate each ratio to
 * a much slower path, and a window whose count is kept across losses would deviate more and more from the formula.
 */
static ALWAYS_INLINE u64 ratio(u32 own, u32 path)
{
	return opaque(least((((u64)own << RATIO_BITS) + path / 2) / path, MAX_RATIO));
}

/*
 * Returns 1, 0 or -1 if a * b is greater than, equal to or less than c * d, as 128-bit products. The verifier checks a function
 * that is not `static` only once, instead of in every state of a loop that calls the function.
 */
__attribute__((noinline)) int compare_products(u64 a, u64 b, u64 c, u64 d)
{
	u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
	u64 c0 = (u32)c, c1 = c >> 32, d0 = (u32)d, d1 = d >> 32;
	u64 ab = a1 * b0 + (a0 * b0 >> 32), cd = c1 * d0 + (c0 * d0 >> 32);
	u64 ab_low = (u32)ab + a0 * b1, cd_low = (u32)cd + c0 * d1;
	u64 ab_high = a1 * b1 + (ab >> 32) + (ab_low >> 32), cd_high = c1 * d1 + (cd >> 32) + (cd_low >> 32);

	if (ab_high != cd_high)
		return ab_high > cd_high ? 1 : -1;
	if (a * b != c * d)
		return a * b > c * d ? 1 : -1;
	return 0;
}

#endif
