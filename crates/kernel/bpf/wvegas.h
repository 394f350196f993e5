/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wVegas, weighted Vegas (Cao, Xu, Fu: Delay-based congestion control for multipath TCP, ICNP 2012).
 *
 * Vegas on each path, with a backlog of 10 packets for the whole connection, divided by weight. Once per round trip, with
 * RTT the mean and `smallest` the minimum of the samples, backlog = w (1 - base/RTT). Slow start ends if
 * w (1 - base/smallest) > 1, with w = min(w, w base/RTT + 1). In avoidance, if backlog >= alpha: rate = w/RTT, alpha = max(2,
 * 10 rate / sum rate_i); then w += 1 below alpha, w -= 1 above it. A queue of at least twice the least one since the last
 * drain is drained: w *= base / (2 RTT). The Rust code, congestion/wvegas.rs, states the choices that the paper leaves open.
 */
#include "path.h"

#define SAMPLES_RTT 1

/* Backlogs in packets, Q16: of the connection, the minimum of a path, and the limit of slow start. */
#define TOTAL_ALPHA (10ULL << 16)
#define MIN_ALPHA (2ULL << 16)
#define GAMMA (1ULL << 16)
/* The largest rate, packets per us, Q32, so that its product with the backlog of the connection fits into 64 bits. */
#define MAX_RATE (1ULL << 43)
#define MIN_SAMPLES 3
#define MIN_PACKETS 2

struct state {
	/* Sum of the samples of this round, us. */
	u64 sampled;
	/* Time at which the round ends, us. */
	u64 round_end;
	/* Rate when the backlog was last reached, packets per us, Q32; 0 if the backlog was never reached. */
	u64 rate;
	/* The smallest sample of all, that of this round, and the newest sample, 0 if the last acknowledgement had none; us. */
	u32 base, smallest, newest;
	u32 samples;
	/* Number of packets acknowledged in this round, for growth as in reno. */
	u32 acked;
	/* Backlog that this path aims at (alpha), packets, Q16; 0 stands for the minimum. */
	u32 alpha;
	/* Smallest queueing delay since the last drain, us; 0 if there was no measurement. */
	u32 least_queue;
};

struct totals {
	u64 rate;
};

static ALWAYS_INLINE void count(struct totals *totals, const struct own *own, const struct path *path,
				const struct state *state)
{
	totals->rate += state->rate;
}

/* Processes the round-trip time that an acknowledgement measured, us; 0 if there is none. */
static ALWAYS_INLINE void sampled(struct state *state, u32 rtt, int recovering)
{
	state->newest = rtt;
	if (!rtt)
		return;
	if (!state->base || rtt < state->base)
		state->base = rtt;
	if (recovering)
		return;
	state->sampled += rtt;
	state->samples++;
	if (!state->smallest || rtt < state->smallest)
		state->smallest = rtt;
}

static ALWAYS_INLINE void restart_round(struct state *state)
{
	state->sampled = 0;
	state->samples = 0;
	state->smallest = 0;
	state->acked = 0;
}

/* Returns w (1 - base/RTT), packets, Q16; `rtt` and base in 1/16 us, not 0. At most 2^18 * 2^28 * 2^16. */
static ALWAYS_INLINE u64 backlog(const struct own *own, u64 base, u64 rtt)
{
	return (window(&own->path) * less(least(rtt, 1 << 28), base) << 16) / rtt;
}

static ALWAYS_INLINE void lower_threshold(struct own *own)
{
	own->path.ssthresh = least(own->path.ssthresh, own->path.cwnd - 1);
}

/* Returns whether a queueing delay is at least twice the smallest since the last drain; if so, forgets the smallest. */
static ALWAYS_INLINE int drains(struct state *state, u32 queue)
{
	if (!state->least_queue || queue < state->least_queue)
		state->least_queue = queue;
	if (!queue || queue < 2 * state->least_queue)
		return 0;
	state->least_queue = 0;
	return 1;
}

/* Changes the window by one step according to the backlog, then drains the queue if that is due. */
static ALWAYS_INLINE void step(struct own *own, struct state *state, u64 diff, u64 rtt)
{
	u64 wanted = most(state->alpha, MIN_ALPHA);
	u32 queue = less(state->smallest, state->base);

	if (diff < wanted) {
		own->path.cwnd++;
		return;
	}
	if (diff > wanted) {
		own->path.cwnd = most(less(own->path.cwnd, 1), MIN_PACKETS);
		lower_threshold(own);
	}
	if (drains(state, queue))
		own->path.cwnd = most(window(&own->path) * ((u64)state->base << 4) / (2 * rtt), MIN_PACKETS);
}

static ALWAYS_INLINE void decide(struct group *group, struct own *own, struct state *state, u32 acked)
{
	u64 base = (u64)state->base << 4;
	u64 rtt = most((state->sampled << 4) / state->samples, 1);
	u64 diff = backlog(own, base, rtt);

	if (slow_starts(own)) {
		if (backlog(own, base, (u64)state->smallest << 4) > GAMMA) {
			u64 target = window(&own->path) * base / rtt + 1;

			own->path.cwnd = most(least(own->path.cwnd, target), MIN_PACKETS);
			lower_threshold(own);
		} else {
			slow_start(own, acknowledgements(acked));
		}
	} else {
		if (diff >= most(state->alpha, MIN_ALPHA)) {
			struct totals totals = {};

			state->rate = least(((u64)window(&own->path) << 36) / rtt, MAX_RATE);
			visit(group, own, &totals);
			/* The sum includes the rate of this path. */
			state->alpha = most(TOTAL_ALPHA * state->rate / most(totals.rate, 1), MIN_ALPHA);
		}
		step(own, state, diff, rtt);
	}
	if (own->path.ssthresh < NO_THRESHOLD)
		own->path.ssthresh = most(own->path.ssthresh, 3 * (u64)own->path.cwnd / 4);
}

static ALWAYS_INLINE void acknowledged(struct group *group, struct own *own, struct state *state, u32 acked)
{
	state->acked += acked;
	if (own->now < state->round_end) {
		slow_start(own, acknowledgements(acked));
		return;
	}
	state->round_end = own->now + (state->newest ? state->newest : own->path.rtt >> 3);
	if (state->samples >= MIN_SAMPLES)
		decide(group, own, state, acked);
	else if (slow_starts(own))
		slow_start(own, acknowledgements(acked));
	else if (full_window(own, state->acked))
		own->path.cwnd++;
	restart_round(state);
}

static ALWAYS_INLINE u32 after_loss(struct group *group, const struct own *own, const struct state *state)
{
	return half(own, most(own->settings->floor, MIN_PACKETS));
}

static ALWAYS_INLINE void reacted(struct state *state)
{
	restart_round(state);
	state->alpha = 0;
	state->least_queue = 0;
}

static ALWAYS_INLINE void timed_out(struct state *state)
{
	state->rate = 0;
}

static ALWAYS_INLINE void begun(struct state *state, u64 bytes)
{
}

static ALWAYS_INLINE void carried(struct state *state, u64 bytes)
{
}
