/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a control sees of a connection, and the phases that all controls share. Windows are packets.
 *
 * A control's file (lia.h and so on) is arithmetic: it defines what is kept for a path (struct state) and added up over
 * paths (struct totals, count()), and answers acknowledgements (acknowledged()) and losses (after_loss()). Its state is told
 * when the path begins (begun()), what it has carried (carried()) and of losses and timeouts (reacted(), timed_out());
 * stateless.h is for those that want none of that. With SAMPLES_RTT it is told of round-trip times as well (sampled()).
 * What it has counted towards the next packet is forgotten with a loss, unless it defines KEEPS_COUNT, as Linux kernels did that
 * had these controls. Who includes it says how paths are found: visit(). control.bpf.c does for the kernel, twin.c for tests on the host.
 */
#ifndef ANABRANCH_PATH_H
#define ANABRANCH_PATH_H

#include "fixed.h"

#define NO_THRESHOLD 0x7fffffffU

/* What a load chooses; the same for all connections. */
struct settings {
	/* Smallest threshold that a loss may leave, packets: 2 as Linux's reno, 1 as the publications have it. */
	u32 floor;
	/* lia: slow start coupled as well (Becke 2014, eq. 6.11) instead of each path by itself (RFC 6356). */
	u32 coupled_start;
};

/* One path, as it counts in sums. */
struct path {
	u32 cwnd;
	u32 ssthresh;
	/* Smoothed round-trip time, units of 1/8 us, not 0. */
	u32 rtt;
};

/* What is kept of every control's path between events. */
struct common {
	/* What the window has moved by and is less than a packet, Q32. */
	s64 fraction;
	/* Packets acknowledged since the window was last full; for controls that move once per window. */
	u32 counted;
};

/* The path that an event is about. */
struct own {
	struct path path;
	struct common *common;
	const struct settings *settings;
	/* When the acknowledgement came, us. */
	u64 now;
};

struct group;
struct totals;

/* Adds up the path itself and its usable peers by count(), and returns how many these are. */
static ALWAYS_INLINE u32 visit(struct group *group, const struct own *own, struct totals *totals);

static ALWAYS_INLINE u32 window(const struct path *path)
{
	return opaque(least(path->cwnd, MAX_PACKETS));
}

/* Moves the window by so many packets, Q32. One that shrinks takes the threshold along: it has not become a slow start. */
static ALWAYS_INLINE void shift(struct own *own, s64 packets)
{
	s64 fraction = own->common->fraction + packets;

	if (fraction >= ONE_PACKET) {
		own->path.cwnd += (u64)fraction >> 32;
		fraction = (u32)fraction;
	} else if (fraction <= -ONE_PACKET) {
		u64 back = -fraction;

		own->path.cwnd = most(less(own->path.cwnd, back >> 32), 1);
		own->path.ssthresh = least(own->path.ssthresh, own->path.cwnd);
		fraction = -(s64)(u32)back;
	}
	own->common->fraction = fraction;
}

static ALWAYS_INLINE int slow_starts(const struct own *own)
{
	return own->path.cwnd < own->path.ssthresh;
}

/* Slow start as in TCP. Returns how many of the acknowledged packets are left for congestion avoidance. */
static ALWAYS_INLINE u32 slow_start(struct own *own, u32 acked)
{
	u32 step;

	if (!slow_starts(own))
		return acked;
	step = least(acked, own->path.ssthresh - own->path.cwnd);
	own->path.cwnd += step;
	return acked - step;
}

/* Whether these acknowledgements fill a window. */
static ALWAYS_INLINE int full_window(struct own *own, u32 acked)
{
	own->common->counted += acked;
	if (own->common->counted < own->path.cwnd)
		return 0;
	own->common->counted -= own->path.cwnd;
	return 1;
}

/* New Reno, for a connection with one path. */
static ALWAYS_INLINE void reno_acknowledged(struct own *own, u32 acked)
{
	acked = slow_start(own, acked);
	if (acked)
		shift(own, (s64)(acked * (ONE_PACKET / most(own->path.cwnd, 1))));
}

/* A loss: what was counted towards the next packet was for another window. */
static ALWAYS_INLINE void restart_count(struct common *common)
{
#ifndef KEEPS_COUNT
	common->fraction = 0;
	common->counted = 0;
#endif
}

static ALWAYS_INLINE u32 half(const struct own *own, u32 floor)
{
	return most(own->path.cwnd - own->path.cwnd / 2, floor);
}

/*
 * How many acknowledgements a receiver would have sent for so many packets that aggregates none: one for every second
 * (RFC 5681, 4.2). Coupled slow starts count acknowledgements of a packet at least, and network cards join them.
 */
static ALWAYS_INLINE u32 acknowledgements(u32 acked)
{
	return (acked + 1) / 2;
}

#endif
