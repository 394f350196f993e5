/* SPDX-License-Identifier: GPL-2.0-only */
/* For controls that give a path its share of the growth of one (resource pooling): they differ in the share and in the loss. */
#ifndef ANABRANCH_POOLING_H
#define ANABRANCH_POOLING_H

#include "path.h"

struct totals;

/* The path's share of what all paths have, Q32. */
static ALWAYS_INLINE u64 share(const struct totals *totals, const struct own *own);

/* What the control's totals are is not known here: it begins with none, and calls pooled(). */
static ALWAYS_INLINE void pooled(struct group *group, struct own *own, struct totals *totals, u32 acked)
{
	int starts = slow_starts(own);

	if (!starts && !full_window(own, acked))
		return;
	if (visit(group, own, totals) < 2) {
		if (starts)
			slow_start(own, acked);
		else
			shift(own, ONE_PACKET);
		return;
	}
	shift(own, (starts ? acknowledgements(acked) : 1) * share(totals, own));
}

#endif
