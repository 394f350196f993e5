/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CMT/RPv2, resource pooling by rates (Dreibholz et al. 2011, III-B.2; Becke 2014, 6.2.1).
 *
 * With the share i = (c/RTT) / sum (c_i/RTT_i), the window grows by i packets per acknowledgement in slow start, and by
 * i packets per full window in congestion avoidance. A loss: c -= max(c/2, RTT/2 * sum c_i/RTT_i).
 * Rust counterpart: crates/multipath/src/congestion/cmt_rpv2.rs.
 */
#define KEEPS_COUNT 1

#include "path.h"
#include "pooling.h"
#include "stateless.h"

struct totals {
	/* sum c_i * RTT/RTT_i, packets, Q14: at most 16 * 2^44. */
	u64 rate;
};

static ALWAYS_INLINE void count(struct totals *totals, const struct own *own, const struct path *path,
				const struct state *state)
{
	totals->rate += window(path) * ratio(own->path.rtt, path->rtt);
}

/* Returns the share of this path in the total rate, Q32. */
static ALWAYS_INLINE u64 share(const struct totals *totals, const struct own *own)
{
	return ((u64)window(&own->path) << (RATIO_BITS + 30)) / totals->rate << 2;
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	struct totals totals = {};

	pooled(group, own, &totals, acked);
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	struct totals totals = {};
	u64 decrease;

	if (visit(group, own, &totals) < 2)
		return half(own, own->settings->floor);
	/* The sum includes this path, so half of the sum is at least half of the window. Rounded up. */
	decrease = (totals.rate + (1 << (RATIO_BITS + 1)) - 1) >> (RATIO_BITS + 1);
	return most(less(own->path.cwnd, decrease), own->settings->floor);
}
