/* SPDX-License-Identifier: GPL-2.0-only */
/* For algorithms in which the windows of all paths together grow as one (resource pooling). They differ in share and loss. */
#ifndef ANABRANCH_POOLING_H
#define ANABRANCH_POOLING_H

#include "path.h"

struct totals;

/* Returns the share of this path in the total of all paths, Q32. */
static ALWAYS_INLINE u64 share(const struct totals *totals, const struct own *own);

/* The file of the algorithm defines struct totals, so the caller passes zeroed totals to pooled(). */
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
