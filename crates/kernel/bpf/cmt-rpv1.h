/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CMT/RPv1, resource pooling by thresholds (Dreibholz et al. 2011, III-B.1).
 *
 * With the share s = s_P / sum s_i, the window grows by s packets per acknowledgement in slow start, and by s packets per
 * full window in congestion avoidance. A loss: max(c - sum c_i / 2, 4 s). For a path without a threshold, the sums use the
 * mean of the known thresholds. Rust counterpart: crates/multipath/src/congestion/cmt_rpv1.rs.
 */
#define KEEPS_COUNT 1

#include "path.h"
#include "pooling.h"
#include "stateless.h"

struct totals {
	u64 window;
	/* Sum of the known thresholds, packets, and number of known thresholds. */
	u64 thresholds;
	u32 known;
	u32 paths;
};

static ALWAYS_INLINE void count(struct totals *totals, const struct own *own, const struct path *path,
				const struct state *state)
{
	u32 known = path->ssthresh < NO_THRESHOLD;

	totals->window += path->cwnd;
	totals->thresholds += known ? least(path->ssthresh, MAX_PACKETS) : 0;
	totals->known += known;
	totals->paths++;
}

/* Returns the share of this path in the sum of the thresholds, Q32. */
static ALWAYS_INLINE u64 share(const struct totals *totals, const struct own *own)
{
	u64 threshold = own->path.ssthresh;

	if (threshold >= NO_THRESHOLD || !totals->thresholds)
		return ONE_PACKET / most(totals->paths, 1);
	/* Each path without a threshold adds the mean of the known thresholds to the sum. */
	return (least(threshold, MAX_PACKETS) * totals->known << 32) / (totals->thresholds * totals->paths);
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	struct totals totals = {};

	pooled(group, own, &totals, acked);
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	struct totals totals = {};
	u64 left;

	if (visit(group, own, &totals) < 2)
		return half(own, own->settings->floor);
	left = less(own->path.cwnd, (totals.window + 1) / 2);
	left = most(left, 4 * share(&totals, own) >> 32);
	return most(left, own->settings->floor);
}
