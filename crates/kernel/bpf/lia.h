/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LIA, the linked increases algorithm (RFC 6356).
 *
 * The window grows by min(max(c_i/RTT_i^2) / (sum c_i/RTT_i)^2, 1/c) packets per acknowledged packet. Round-trip times are
 * relative to that of this path. Slow start as in TCP, or coupled. A loss: half. Rust: crates/multipath/src/congestion/lia.rs.
 */
#include "path.h"
#include "stateless.h"

struct totals {
	/* sum c_i * RTT/RTT_i, Q14: at most 16 * 2^44. */
	u64 rate;
	/* max c_i * (RTT/RTT_i)^2, Q20: at most 2^62. */
	u64 best;
};

static ALWAYS_INLINE void count(struct totals *totals, const struct own *own, const struct path *path,
				const struct state *state)
{
	u64 faster = ratio(own->path.rtt, path->rtt);
	u64 rate = window(path) * faster;

	totals->rate += rate;
	totals->best = most(totals->best, (rate >> 8) * faster);
}

/* Returns max(c_i/RTT_i^2) / (sum c_i/RTT_i)^2, packets per acknowledged packet, Q32. */
static ALWAYS_INLINE u64 linked(const struct totals *totals)
{
	/* The square of the sum would not fit, so there are two divisions. The first result has `room` more bits if they fit. */
	u32 room = totals->best >> 46 ? 0 : 16;
	u64 once = (totals->best << room) / totals->rate;

	/* Converts Q(6 + room), at most 2^34, to Q46. */
	return (once << (40 - room)) / totals->rate;
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	struct totals totals = {};
	u64 alone = ONE_PACKET / most(own->path.cwnd, 1);
	int coupled_start = slow_starts(own) && own->settings->coupled_start;
	u32 paths;

	if (!coupled_start)
		acked = slow_start(own, acked);
	if (!acked)
		return;
	paths = visit(group, own, &totals);
	if (coupled_start && paths < 2) {
		slow_start(own, acked);
	} else if (coupled_start) {
		u64 step = least(linked(&totals) * window(&own->path), ONE_PACKET);

		shift(own, acknowledgements(acked) * step);
	} else {
		if (paths > 1)
			alone = least(alone, linked(&totals));
		shift(own, acked * alone);
	}
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	return half(own, own->settings->floor);
}
