/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A congestion control's view of a connection, and the phases that all algorithms have in common. Windows are in packets.
 *
 * The file of an algorithm (lia.h and so on) has only arithmetic: it defines the state of a path (struct state) and the
 * sums over paths (struct totals, count()), and handles acknowledgements (acknowledged()) and losses (after_loss()). It
 * updates the state at the start of the path (begun()), with the carried bytes (carried()), and at losses and timeouts
 * (reacted(), timed_out()); stateless.h is for algorithms without state. With SAMPLES_RTT, sampled() gets round-trip times.
 * A loss resets the count towards the next packet, unless the file defines KEEPS_COUNT, as in the Linux kernels that had
 * the algorithm. The including file defines visit(), which finds paths: control.bpf.c for the kernel, twin.c for tests.
 */
#ifndef ANABRANCH_PATH_H
#define ANABRANCH_PATH_H

#include "fixed.h"

#define NO_THRESHOLD 0x7fffffffU

/* Settings of a loaded program, the same for all connections. */
struct settings {
	/* Minimum threshold after a loss, packets: 2 as in Linux's reno, 1 as in the publications. */
	u32 floor;
	/* Of lia: true if slow start is coupled, too (Becke 2014, eq. 6.11), instead of separate on each path (RFC 6356). */
	u32 coupled_start;
};

/* The values of a path that the sums over all paths need. */
struct path {
	u32 cwnd;
	u32 ssthresh;
	/* Smoothed round-trip time, in units of 1/8 us, not 0. */
	u32 rtt;
};

/* State of a path that every algorithm keeps between events. */
struct common {
	/* Change of the window that is still to be applied, less than a packet, Q32. */
	s64 fraction;
	/* Number of packets acknowledged since the last full window, for algorithms whose window grows once per full window. */
	u32 counted;
};

/* The path to which an event belongs. */
struct own {
	struct path path;
	struct common *common;
	const struct settings *settings;
	/* Time of the acknowledgement, us. */
	u64 now;
};

struct group;
struct totals;

/* Adds up this path and its usable peers by count(), and returns the number of these paths. */
static ALWAYS_INLINE u32 visit(struct group *group, const struct own *own, struct totals *totals);

static ALWAYS_INLINE u32 window(const struct path *path)
{
	return opaque(least(path->cwnd, MAX_PACKETS));
}

/* Changes the window by `packets`, Q32. A decrease lowers the threshold, too, so that slow start does not begin again. */
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

/* Handles slow start as in TCP. Returns the number of acknowledged packets that are left for congestion avoidance. */
static ALWAYS_INLINE u32 slow_start(struct own *own, u32 acked)
{
	u32 step;

	if (!slow_starts(own))
		return acked;
	step = least(acked, own->path.ssthresh - own->path.cwnd);
	own->path.cwnd += step;
	return acked - step;
}

/* Returns whether a full window has been acknowledged. */
static ALWAYS_INLINE int full_window(struct own *own, u32 acked)
{
	own->common->counted += acked;
	if (own->common->counted < own->path.cwnd)
		return 0;
	own->common->counted -= own->path.cwnd;
	return 1;
}

/* Handles acknowledged packets as New Reno, for a connection with a single path. */
static ALWAYS_INLINE void reno_acknowledged(struct own *own, u32 acked)
{
	acked = slow_start(own, acked);
	if (acked)
		shift(own, (s64)(acked * (ONE_PACKET / most(own->path.cwnd, 1))));
}

/* Restarts the count of acknowledged packets after a loss, because it belongs to the window before the loss. */
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
 * Returns the number of acknowledgements that a receiver without aggregation sends for `acked` packets: one for every second
 * packet (RFC 5681, 4.2). Coupled slow start counts those of at least a packet, and network cards merge acknowledgements.
 */
static ALWAYS_INLINE u32 acknowledgements(u32 acked)
{
	return (acked + 1) / 2;
}

#endif
