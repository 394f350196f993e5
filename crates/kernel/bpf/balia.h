/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BALIA, the balanced linked adaptation (draft-walid-mptcp-congestion-control; Peng et al. 2014).
 *
 * With rates x_i = c_i/RTT_i and a = max x_i / x, the window grows by x / (RTT (sum x_i)^2) * (1 + a)/2 * (4 + a)/5
 * packets per acknowledged packet. A loss: c -= c/2 * min(a, 1.5). Slow start as in TCP.
 * Rust counterpart: crates/multipath/src/congestion/balia.rs.
 */
#include "path.h"
#include "stateless.h"

struct totals {
	/* sum x_i and max x_i, multiplied by the RTT of this path, packets, Q14: at most 16 * 2^44. */
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

/* Returns a, Q10, limited to 4. The reaction to a loss limits it further, to 1.5. */
static ALWAYS_INLINE u64 imbalance(const struct totals *totals, const struct own *own)
{
	u64 rate = (u64)window(&own->path) << RATIO_BITS;

	return least((totals->fastest << 10) / most(rate, 1), 4 << 10);
}

/*
 * Returns the increase per packet, Q32. With m = max x_i and s = sum x_i, both multiplied by RTT, a is m/c and the increase is
 * ((m/s)^2 / c + 5 m/s / s + 4 c/s / s) / 10. No quotient in this form is large.
 */
static ALWAYS_INLINE u64 increase(const struct totals *totals, const struct own *own)
{
	u64 cwnd = most(window(&own->path), 1), sum = totals->rate;
	/* Q18, at least 1/16 of one; and Q30. */
	u64 fastest = (totals->fastest << 18) / sum;
	u64 share = (cwnd << (RATIO_BITS + 30)) / sum;

	return ((fastest * fastest / cwnd >> 4) + 5 * ((fastest << 28) / sum) + 4 * ((share << 16) / sum)) / 10;
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	struct totals totals = {};

	acked = slow_start(own, acked);
	if (!acked)
		return;
	if (visit(group, own, &totals) < 2) {
		reno_acknowledged(own, acked);
		return;
	}
	shift(own, acked * increase(&totals, own));
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	struct totals totals = {};
	u64 decrease, cwnd = own->path.cwnd;

	if (visit(group, own, &totals) < 2)
		return half(own, own->settings->floor);
	/* Rounded up, because the window is a whole number of packets and the decrease is a real number. */
	decrease = (cwnd * least(imbalance(&totals, own), 1536) + 2047) >> 11;
	return most(less(cwnd, decrease), own->settings->floor);
}
