/* SPDX-License-Identifier: GPL-2.0-only */
/* For algorithms whose only state of a path is the window. */
#ifndef ANABRANCH_STATELESS_H
#define ANABRANCH_STATELESS_H

#include "types.h"

struct state {
	char none[0];
};

static ALWAYS_INLINE void begun(struct state *state, u64 bytes)
{
}

static ALWAYS_INLINE void carried(struct state *state, u64 bytes)
{
}

static ALWAYS_INLINE void reacted(struct state *state)
{
}

static ALWAYS_INLINE void timed_out(struct state *state)
{
}

#endif
