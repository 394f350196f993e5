/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fixed point: Qn is an integer that counts units of 2^-n. There are no floating-point numbers in the kernel, and no
 * products of 128 bits in BPF, so every product here has to fit 64 bits. What that takes is said where it is taken care of.
 */
#ifndef ANABRANCH_FIXED_H
#define ANABRANCH_FIXED_H

#include "types.h"

/* One packet, where a window's movement is counted: Q32. */
#define ONE_PACKET (1LL << 32)
/* Bits behind the point of a ratio of round-trip times, and of what is multiplied by one. */
#define RATIO_BITS 14
/* The largest such ratio, 4096: a path of 1 s beside one of 0.25 ms. */
#define MAX_RATIO (1ULL << (RATIO_BITS + 12))
/* The largest window that is reckoned with, packets. Larger ones grow as if they were this large. */
#define MAX_PACKETS (1U << 18)

/*
 * The same number, of which the verifier then knows nothing. It tracks the range of every number, and where a branch hangs on
 * one it follows a loop again for each range: a sum over so many subflows that begins with a constant takes it beyond its limit.
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

/* a - b, or 0 if that were negative. */
static ALWAYS_INLINE u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/*
 * RTT_own / RTT_path, Q14, to the nearest; `path` is not 0. Rounded down, a path that is much slower would always count for
 * less than it carries, and windows that keep their count through losses would drift apart from the formula's.
 */
static ALWAYS_INLINE u64 ratio(u32 own, u32 path)
{
	return opaque(least((((u64)own << RATIO_BITS) + path / 2) / path, MAX_RATIO));
}

/*
 * 1, 0 or -1 as a * b is more than, as much as or less than c * d, of products of 128 bits. A function that is no `static` one
 * is verified by itself, and not again in every state of a loop that calls it.
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
