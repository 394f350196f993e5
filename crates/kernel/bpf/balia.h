/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BALIA, the balanced linked adaptation (draft-walid-mptcp-congestion-control; Peng et al. 2014).
 *
 * With rates x_i = c_i/RTT_i and a = max x_i / x: a packet acknowledged opens the window by
 * x / (RTT (sum x_i)^2) * (1 + a)/2 * (4 + a)/5 packets. Loss: c -= c/2 * min(a, 1.5). Slow start as in TCP.
 * Twin: crates/multipath/src/congestion/balia.rs.
 */
#include "path.h"
#include "stateless.h"

struct totals {
	/* sum x_i and max x_i times the path's own RTT, packets, Q14: at most 8 * 2^40. */
	u64 rate;
	u64 fastest;
};

static ALWAYS_INLINE void count(struct totals *totals, const struct own *own, const struct path *path,
				const struct state *state)
{
	u64 rate = window(path) * ratio(own->path.rtt, path->rtt);

	totals->rate += rate;
	totals->fastest = most(totals->fastest, rate);
}

/* a, Q10, at most 1024: a path with less than a thousandth of the rate counts as one with a thousandth. */
static ALWAYS_INLINE u64 imbalance(const struct totals *totals, const struct own *own)
{
	u64 rate = (u64)window(&own->path) << RATIO_BITS;

	return least((totals->fastest << 10) / most(rate, 1), 1 << 20);
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	struct totals totals = {};
	u64 rate = (u64)window(&own->path) << RATIO_BITS;
	u64 a, share;

	acked = slow_start(own, acked);
	if (!acked)
		return;
	if (visit(group, own, &totals) < 2) {
		reno_acknowledged(own, acked);
		return;
	}
	a = imbalance(&totals, own);
	/* Share of the rate, Q20, at most 2^20/a; times (1 + a)(4 + a)/10, Q20: less than 2^50 together. */
	share = (rate << 20) / totals.rate * ((1024 + a) * (4096 + a) / 10);
	shift(own, acked * ((share << 6) / totals.rate));
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	struct totals totals = {};
	u64 decrease, cwnd = own->path.cwnd;

	if (visit(group, own, &totals) < 2)
		return half(own, own->settings->floor);
	/* Rounded up: a window of whole packets after a decrease of a real number. */
	decrease = (cwnd * least(imbalance(&totals, own), 1536) + 2047) >> 11;
	return most(less(cwnd, decrease), own->settings->floor);
}
