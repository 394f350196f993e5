/* SPDX-License-Identifier: GPL-2.0-only */
/* Integers of fixed size, for the kernel and for the host on which tests run the arithmetic. */
#ifndef ANABRANCH_TYPES_H
#define ANABRANCH_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef u8 bool_t;

#define ALWAYS_INLINE inline __attribute__((always_inline))

#endif
