/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reductions of a window. The kernel gets the threshold from the program at the start and moves the window there until
 * recovery ends (net/ipv4/tcp_input.c, tcp_init_cwnd_reduction() to tcp_end_cwnd_reduction()). Include it after the algorithm.
 */
#ifndef ANABRANCH_REDUCTION_H
#define ANABRANCH_REDUCTION_H

#include "path.h"

/* The largest threshold that an algorithm sets after a loss in a smaller window: four packets in cmt-rpv1.h. */
#define MAX_FLOOR 4

/* Returns the algorithm's threshold after a loss. */
static ALWAYS_INLINE u32 reduced(struct group *group, const struct own *own, struct state *state)
{
	u32 threshold = most(after_loss(group, own, state), 1);

	reacted(state);
	restart_count(own->common);
	return threshold;
}

/*
 * Repairs a reduction with a threshold that the algorithm did not compute, and returns whether it was one. A computed
 * threshold is at most `before`, the window at the start. An undo sets it to `restored`, the earlier one; 0 if none is kept.
 *
 * Some kernels skip a BPF program in certain contexts and use an uninitialised value as its result, such as half of an address.
 * With such a threshold, the window opens by 10^9 packets at the end of recovery, and each further loss only halves it.
 */
static ALWAYS_INLINE int repaired(struct group *group, struct own *own, struct state *state, u32 before, u32 restored)
{
	if (own->path.ssthresh <= most(before, MAX_FLOOR) || own->path.ssthresh == restored)
		return 0;
	own->path.cwnd = before;
	own->path.ssthresh = restored ? restored : before;
	own->path.ssthresh = reduced(group, own, state);
	return 1;
}

#endif
