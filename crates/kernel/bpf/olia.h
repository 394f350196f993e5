/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * OLIA, the opportunistic linked increases algorithm (draft-khalili-mptcp-congestion-control; Khalili et al. 2012).
 *
 * The window changes by (c/RTT^2) / (sum c_i/RTT_i)^2 + alpha/c packets per acknowledged packet. The best paths maximise
 * l/RTT^2, where l is the larger number of the bytes acknowledged since the last loss and between the last two losses. A
 * best path without the largest window is collected. If one exists, alpha = 1/(n * collected) on collected paths and
 * -1/(n * largest) on the largest; else 0. Slow start and loss as in TCP. Rust: crates/multipath/src/congestion/olia.rs.
 */
#define KEEPS_COUNT 1

#include "path.h"

struct state {
	/* Number of bytes acknowledged from the start of the path to the last loss. */
	u64 before;
	/* Number of bytes acknowledged between the last two losses. */
	u64 between;
	/* Number of bytes acknowledged since the start of the path. */
	u64 acked;
};

/* Values by which two paths are compared. */
struct standing {
	/* l, bytes, and RTT^2, us^2. */
	u64 carried;
	u64 rtt2;
	u32 cwnd;
};

struct totals {
	/* sum c_i * RTT/RTT_i, packets, Q14. */
	u64 rate;
	/* The best path among those already counted. */
	struct standing best;
	/* Number of paths that are as good as the best one, their largest window, and how many of them have this window. */
	u32 equals, best_cwnd, best_with_it;
	/* The largest window of all paths, and the number of paths that have it. */
	u32 largest, with_it;
	u32 paths;
};

static ALWAYS_INLINE struct standing standing(const struct path *path, const struct state *state)
{
	u64 rtt = opaque(most(path->rtt >> 3, 1));

	return (struct standing){
		.carried = opaque(most(state->acked - state->before, state->between)),
		.rtt2 = rtt * rtt,
		.cwnd = opaque(path->cwnd),
	};
}

/* Returns 1, 0 or -1 if the first path is better than, as good as, or worse than the second. */
static ALWAYS_INLINE int compare(const struct standing *a, const struct standing *b)
{
	return compare_products(a->carried, b->rtt2, b->carried, a->rtt2);
}

/* In zeroed totals, `best` has neither bytes nor a round-trip time, so it compares as equal to any path. */
static ALWAYS_INLINE void count_best(struct totals *totals, const struct standing *path)
{
	int better = compare(path, &totals->best);

	if (better < 0)
		return;
	totals->best = *path;
	if (better > 0 || path->cwnd > totals->best_cwnd)
		totals->best_with_it = 0;
	if (better > 0)
		totals->equals = 0, totals->best_cwnd = 0;
	totals->equals = opaque(totals->equals + 1);
	totals->best_with_it = opaque(totals->best_with_it + (path->cwnd >= totals->best_cwnd));
	totals->best_cwnd = opaque(most(totals->best_cwnd, path->cwnd));
}

static ALWAYS_INLINE void count(struct totals *totals, const struct own *own, const struct path *path,
				const struct state *state)
{
	struct standing its = standing(path, state);

	totals->rate += window(path) * ratio(own->path.rtt, path->rtt);
	totals->paths = opaque(totals->paths + 1);
	if (its.cwnd > totals->largest)
		totals->with_it = 0;
	totals->with_it = opaque(totals->with_it + (its.cwnd >= totals->largest));
	totals->largest = opaque(most(totals->largest, its.cwnd));
	count_best(totals, &its);
}

/* Returns alpha, Q32. */
static ALWAYS_INLINE s64 alpha(const struct totals *totals, const struct own *own, const struct state *state)
{
	struct standing its = standing(&own->path, state);
	u32 collected = totals->equals - (totals->best_cwnd == totals->largest ? totals->best_with_it : 0);

	if (!collected)
		return 0;
	if (its.cwnd == totals->largest)
		return -(s64)(ONE_PACKET / most(totals->paths * totals->with_it, 1));
	if (compare(&totals->best, &its) <= 0)
		return ONE_PACKET / most(totals->paths * collected, 1);
	return 0;
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	struct totals totals = {};
	u64 rate, linked, towards;
	s64 wanted;

	acked = slow_start(own, acked);
	if (!acked)
		return;
	if (visit(group, own, &totals) < 2) {
		reno_acknowledged(own, acked);
		return;
	}
	rate = (u64)window(&own->path) << RATIO_BITS;
	/* Share of the rate, Q30; over the rate, Q32. */
	linked = ((rate << 30) / totals.rate << 16) / totals.rate;
	wanted = alpha(&totals, own, state);
	/* Some versions of BPF cannot divide signed numbers. */
	towards = (u64)(wanted < 0 ? -wanted : wanted) / most(own->path.cwnd, 1);
	shift(own, (s64)(acked * linked) + (wanted < 0 ? -(s64)(acked * towards) : (s64)(acked * towards)));
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	return half(own, own->settings->floor);
}

static ALWAYS_INLINE void reacted(struct state *state)
{
	state->between = state->acked - state->before;
	state->before = state->acked;
}

/* Sets the number of bytes acknowledged on the path since its start. */
static ALWAYS_INLINE void carried(struct state *state, u64 bytes)
{
	state->acked = bytes;
}

static ALWAYS_INLINE void begun(struct state *state, u64 bytes)
{
	state->before = bytes;
}

static ALWAYS_INLINE void timed_out(struct state *state)
{
}
