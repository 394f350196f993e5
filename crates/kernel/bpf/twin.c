// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arithmetic of an algorithm as a program of the host, for tests: reads events from standard input, and writes the window
 * and the threshold of the event's path. crates/kernel/tests/twins compares both with the results of the Rust code.
 *
 * The code around the arithmetic follows the phases of the kernel, as control.bpf.c does.
 */
#include <stdio.h>
#include <string.h>

#include "types.h"
#include CONTROL
#include "reduction.h"

#define MOST_PATHS 8
/* Half of an address, such as the kernel uses as the threshold if it skips the program. */
#define STACK_VALUE 0x2c3fb8d0U

enum { ADD, REMOVE, USABLE, ACK, LOST, ECN, RECOVERED, TIMED_OUT, TIMED_OUT_AGAIN, LOST_SKIPPED, TIMED_OUT_SKIPPED };

struct event {
	u32 kind;
	u32 path;
	/* ACK: packets. LOST, ECN, TIMED_OUT, also with SKIPPED: packets in flight. USABLE: 0 or 1. ADD: initial window. */
	u32 number;
	/* ACK: smoothed round-trip time, 1/8 us; sample of this acknowledgement, us, or 0; whether the window was full. */
	u32 srtt, rtt, limited;
	u64 now;
	/* Window and threshold of the Rust code after the event. They replace those computed here. */
	u32 cwnd, ssthresh;
	u32 floor, coupled_start;
};

struct answer {
	u32 cwnd, ssthresh;
};

struct path_kept {
	struct path path;
	struct common common;
	struct state state;
	u64 acked;
	/* The window at the start of the last reduction, and the threshold before that reduction. */
	u32 before, restored;
	int present, usable, recovering;
};

struct group {
	struct path_kept paths[MOST_PATHS];
	u32 own;
};

static u64 opaque(u64 number)
{
	return number;
}

static u32 visit(struct group *group, const struct own *own, struct totals *totals)
{
	u32 paths = 1;

	memset(totals, 0, sizeof(*totals));
	count(totals, own, &own->path, &group->paths[group->own].state);
	for (u32 i = 0; i < MOST_PATHS; i++) {
		struct path_kept *peer = &group->paths[i];

		if (i == group->own || !peer->present || !peer->usable || !peer->path.rtt)
			continue;
		carried(&peer->state, peer->acked);
		count(totals, own, &peer->path, &peer->state);
		paths++;
	}
	return paths;
}

static void reduce(struct group *group, struct own *own, struct path_kept *kept, u32 in_flight, int skipped)
{
	/* The kernel validates its windows (RFC 7661), so the algorithm gets only the used part of the window. */
	own->path.cwnd = most(least(own->path.cwnd, in_flight), 1);
	kept->before = own->path.cwnd;
	kept->restored = own->path.ssthresh;
	own->path.ssthresh = skipped ? STACK_VALUE : reduced(group, own, &kept->state);
}

/* Handles a change of the kernel's state that begins or ends a reduction. */
static void change_state(struct group *group, struct own *own, struct path_kept *kept)
{
	repaired(group, own, &kept->state, kept->before, kept->restored);
}

static void acknowledge(struct group *group, struct own *own, struct path_kept *kept, const struct event *event)
{
	kept->path.rtt = own->path.rtt = event->srtt;
	kept->acked += (u64)event->number * 1448;
	carried(&kept->state, kept->acked);
#ifdef SAMPLES_RTT
	sampled(&kept->state, event->rtt, kept->recovering);
#endif
	if (event->limited && event->number && kept->usable && !kept->recovering)
		acknowledged(group, own, &kept->state, event->number);
}

static void handle(struct group *group, struct own *own, struct path_kept *kept, const struct event *event)
{
	switch (event->kind) {
	case ADD:
		memset(kept, 0, sizeof(*kept));
		kept->present = kept->usable = 1;
		own->path = (struct path){ .cwnd = event->number, .ssthresh = NO_THRESHOLD };
		begun(&kept->state, 0);
		break;
	case REMOVE:
		kept->present = 0;
		break;
	case USABLE:
		kept->usable = event->number;
		break;
	case ACK:
		acknowledge(group, own, kept, event);
		break;
	case LOST:
	case LOST_SKIPPED:
	case ECN:
		if (!kept->recovering) {
			reduce(group, own, kept, event->number, event->kind == LOST_SKIPPED);
			change_state(group, own, kept);
			own->path.cwnd = own->path.ssthresh;
		}
		kept->recovering |= event->kind != ECN;
		break;
	case RECOVERED:
		if (kept->recovering)
			change_state(group, own, kept);
		kept->recovering = 0;
		break;
	case TIMED_OUT:
	case TIMED_OUT_SKIPPED:
		reduce(group, own, kept, event->number, event->kind == TIMED_OUT_SKIPPED);
		change_state(group, own, kept);
		timed_out(&kept->state);
		/* fallthrough */
	case TIMED_OUT_AGAIN:
		own->path.cwnd = 1;
		restart_count(&kept->common);
		kept->recovering = 0;
	}
}

int main(void)
{
	static struct group group;
	struct settings settings = {};
	struct event event;

	while (fread(&event, sizeof(event), 1, stdin) == 1) {
		struct path_kept *kept = &group.paths[event.path % MOST_PATHS];
		struct own own = { .path = kept->path, .common = &kept->common, .settings = &settings, .now = event.now };
		struct answer answer;

		group.own = event.path % MOST_PATHS;
		settings = (struct settings){ .floor = event.floor, .coupled_start = event.coupled_start };
		handle(&group, &own, kept, &event);
		kept->path = own.path;
		answer = (struct answer){ own.path.cwnd, own.path.ssthresh };
		if (fwrite(&answer, sizeof(answer), 1, stdout) != 1)
			return 1;
		if (event.kind == ACK && event.cwnd != own.path.cwnd)
			kept->common.fraction -= ((s64)event.cwnd - own.path.cwnd) * ONE_PACKET;
		kept->path.cwnd = event.cwnd;
		kept->path.ssthresh = event.ssthresh;
	}
	return 0;
}
