// SPDX-License-Identifier: GPL-2.0-only
/*
 * A coupled congestion control for the subflows of Linux's Multipath TCP, as tcp_congestion_ops in BPF (struct_ops).
 *
 * This file is compiled once for each algorithm: CONTROL is the file with its arithmetic, NAME its name. A subflow finds its
 * peers in the list of its connection, without lookups or locks. The kernel changes that list under a lock that is not held
 * here. It frees list entries only after a grace period of RCU, and these programs run within one grace period. So a walk
 * through the list may miss a subflow that is added or removed at the same time, but never reads freed memory.
 */
#include "kernel.h"
#include CONTROL
#include "reduction.h"

/* Maximum number of subflows that a walk reads: twice the limit of the kernel's path manager. */
#define MOST_SUBFLOWS 16

char _license[] SEC("license") = "GPL";

/* The loader replaces this value in .rodata. Without `volatile`, the compiler would assume the value given here. */
const volatile struct {
	struct settings settings;
	/* Version of the loader, a string that ends with a zero. */
	char version[24];
} chosen = { .settings = { .floor = 2 } };

/* Statistics of all sockets with this algorithm, in a separate map. A socket adds its counters at a loss and at its end. */
struct statistics {
	u64 opened;
	u64 closed;
	u64 acknowledged;
	u64 coupled;
	u64 losses;
	u64 timeouts;
	/* Always 0, but the verifier does not assume that. It is in this map because another map would cost a cache miss. */
	volatile u64 zero;
} statistics SEC(".data.count") = {};

/* Per-socket state (icsk_ca_priv). */
struct kept {
	struct common common;
	u16 opened;
	/* True if the kernel's state was Loss when it last changed. */
	u16 timed_out;
	/* Number of acknowledgements since the last loss, and of those that arrived while more than one subflow was usable. */
	u32 acknowledged;
	u32 coupled;
	/* Copy of the settings at the start of the socket. Reading their map at a loss would cost a cache miss. */
	struct settings settings;
	struct state state;
};
_Static_assert(sizeof(struct kept) <= 104, "more than a socket keeps for its congestion control");

static ALWAYS_INLINE u64 opaque(u64 number)
{
	return number ^ statistics.zero;
}

struct group {
	struct tcp_sock *tp;
	struct kept *kept;
};

static ALWAYS_INLINE struct kept *kept_of(struct tcp_sock *tp)
{
	return (struct kept *)((struct inet_connection_sock *)tp)->icsk_ca_priv;
}

/*
 * The state that is read of a peer. Losses are rare, so at a loss the peers' state is not in the processor's caches, and
 * branches here are mispredicted. So everything is read before the first decision, which makes the cache misses overlap.
 */
struct peer {
	const void *control;
	u32 cwnd, ssthresh, srtt, outstanding;
	u32 state, ca_state, flags;
};

static ALWAYS_INLINE struct peer peer_of(const struct mptcp_subflow_context *subflow, const struct tcp_sock *tp)
{
	const struct inet_connection_sock *icsk = (const void *)tp;
	u64 held = HELD(subflow, stale);
	u64 backup = HELD_TOO(subflow, backup, stale, held), request = HELD_TOO(subflow, request_bkup, stale, held);
	struct peer peer = {
		.control = icsk->icsk_ca_ops,
		.cwnd = tp->snd_cwnd,
		.ssthresh = tp->snd_ssthresh,
		.srtt = tp->srtt_us,
		.outstanding = tp->packets_out,
		.state = ((const struct sock *)tp)->__sk_common.skc_state,
		.ca_state = BITS(icsk, icsk_ca_state),
		.flags = TAKEN(subflow, stale, held) | TAKEN(subflow, backup, backup) |
			 TAKEN(subflow, request_bkup, request),
	};

	/* Without these statements, the compiler would delay each read until the value is used. */
	asm volatile("" : "+r"(peer.control), "+r"(peer.cwnd), "+r"(peer.ssthresh), "+r"(peer.srtt));
	asm volatile("" : "+r"(peer.outstanding), "+r"(peer.state), "+r"(peer.ca_state), "+r"(peer.flags));
	return peer;
}

/* Returns the window at the end of the current recovery, during which the kernel reduces the window gradually. */
static ALWAYS_INLINE u32 settled_window(const struct peer *peer)
{
	/* After an undo, there may be no threshold. */
	if (peer->ca_state == TCP_CA_CWR || peer->ca_state == TCP_CA_RECOVERY)
		return least(peer->cwnd, peer->ssthresh);
	return peer->cwnd;
}

/*
 * Returns whether a peer uses capacity. A peer without outstanding data does not, whatever its window. This is frequent:
 * while one subflow sends the data assigned to it, the others wait until the connection's receive window opens.
 */
static ALWAYS_INLINE int usable(const struct peer *peer, const void *control)
{
	/* Two branches instead of nine: subtracting one from a number of 32 bits sets the upper bits only if the number is 0. */
	u64 nothing = ((u64)peer->srtt - 1 | (u64)peer->cwnd - 1 | (u64)peer->outstanding - 1) >> 32;
	u64 closed = ~((1 << TCP_ESTABLISHED | 1 << TCP_CLOSE_WAIT) >> (peer->state & 31)) & 1;

	return peer->control == control && !(nothing | closed | peer->flags);
}

/* Adds up this path and its usable peers, and returns the number of these paths. */
static ALWAYS_INLINE u32 visit(struct group *group, const struct own *own, struct totals *totals)
{
	const struct inet_connection_sock *icsk = (const void *)group->tp;
	const void *control = icsk->icsk_ca_ops;
	const struct mptcp_subflow_context *subflow;
	const struct mptcp_sock *connection;
	u64 head, next;
	u32 paths = opaque(1);

	for (u32 i = 0; i < sizeof(*totals) / sizeof(u64); i++)
		((u64 *)totals)[i] = opaque(0);
	count(totals, own, &own->path, &group->kept->state);
	if (!group->tp->is_mptcp)
		return paths;
	subflow = VIEW(mptcp_subflow_context, icsk->icsk_ulp_data);
	connection = VIEW(mptcp_sock, subflow->conn);
	head = (u64)&connection->conn_list;
	next = (u64)connection->conn_list.next;
	for (u32 i = 0; i < MOST_SUBFLOWS && next && next != head; i++) {
		const struct tcp_sock *tp;
		struct peer peer;

		/* The list node is the first member of the subflow context. */
		subflow = VIEW(mptcp_subflow_context, next);
		next = (u64)subflow->node.next;
		tp = VIEW(tcp_sock, subflow->tcp_sock);
		if ((u64)tp == (u64)group->tp)
			continue;
		peer = peer_of(subflow, tp);
		if (usable(&peer, control)) {
			const struct kept *kept = (const struct kept *)((const struct inet_connection_sock *)tp)->icsk_ca_priv;
			struct path path = { .cwnd = settled_window(&peer), .ssthresh = peer.ssthresh, .rtt = peer.srtt };
			struct state state = kept->state;

			carried(&state, tp->bytes_acked);
			count(totals, own, &path, &state);
			paths++;
		}
	}
	group->kept->coupled += paths > 1;
	return paths;
}

static ALWAYS_INLINE struct own own_of(struct tcp_sock *tp)
{
	struct kept *kept = kept_of(tp);

	carried(&kept->state, tp->bytes_acked);
	return (struct own){
		.path = { .cwnd = tp->snd_cwnd, .ssthresh = tp->snd_ssthresh, .rtt = most(tp->srtt_us, 1) },
		.common = &kept->common,
		.settings = &kept->settings,
		.now = tp->tcp_mstamp,
	};
}

/* Adds the counters of a socket to the statistics. */
static ALWAYS_INLINE void account(struct kept *kept)
{
	__sync_fetch_and_add(&statistics.acknowledged, kept->acknowledged);
	__sync_fetch_and_add(&statistics.coupled, kept->coupled);
	kept->acknowledged = 0;
	kept->coupled = 0;
}

/* Returns whether the window was full when the acknowledged data was sent (net/tcp.h, tcp_is_cwnd_limited). */
static ALWAYS_INLINE int limited(const struct tcp_sock *tp)
{
	if (BITS(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

SEC("struct_ops")
void avoid(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	u32 acked = arguments[2];
	struct kept *kept = kept_of(tp);
	struct group group = { .tp = tp, .kept = kept };
	struct own own;

	kept->acknowledged++;
	if (!limited(tp))
		return;
	own = own_of(tp);
	acknowledged(&group, &own, &kept->state, least(acked, 1 << 14));
	tp->snd_cwnd = least(own.path.cwnd, tp->snd_cwnd_clamp);
	tp->snd_ssthresh = own.path.ssthresh;
}

/* Adds a loss to the statistics. */
static ALWAYS_INLINE void account_loss(struct kept *kept)
{
	__sync_fetch_and_add(&statistics.losses, 1);
	account(kept);
}

SEC("struct_ops")
u32 ssthresh(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	struct kept *kept = kept_of(tp);
	struct group group = { .tp = tp, .kept = kept };
	struct own own = own_of(tp);
	u32 threshold = reduced(&group, &own, &kept->state);

	account_loss(kept);
	return threshold;
}

/* Returns whether the kernel asks for a threshold before it enters this state. */
static ALWAYS_INLINE int reduces(u32 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_RECOVERY || state == TCP_CA_LOSS;
}

/*
 * Repairs a reduction for which the kernel skipped `ssthresh`. The function is called at the start and at the end of a
 * reduction, because the kernel may skip this program, too, at the start. At the end of CWR, the window is at the threshold
 * already; after Recovery, the kernel moves it there later. After a timeout, the threshold is where slow start ends.
 */
static ALWAYS_INLINE void repair(struct tcp_sock *tp, struct kept *kept)
{
	struct group group = { .tp = tp, .kept = kept };
	struct own own = own_of(tp);
	u32 before = tp->prior_cwnd;

	if (!repaired(&group, &own, &kept->state, before, tp->prior_ssthresh))
		return;
	tp->snd_ssthresh = own.path.ssthresh;
	if (tp->snd_cwnd > before)
		tp->snd_cwnd = own.path.ssthresh;
	account_loss(kept);
}

SEC("struct_ops")
void state(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	u8 state = arguments[1];
	u32 left = BITS((const struct inet_connection_sock *)tp, icsk_ca_state);
	struct kept *kept = kept_of(tp);

	if (reduces(state) || reduces(left))
		repair(tp, kept);
	if (state == TCP_CA_LOSS && !kept->timed_out) {
		timed_out(&kept->state);
		__sync_fetch_and_add(&statistics.timeouts, 1);
	}
	kept->timed_out = state == TCP_CA_LOSS;
}

#ifdef SAMPLES_RTT
SEC("struct_ops")
void sample(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	const struct ack_sample *sample = (const struct ack_sample *)arguments[1];
	s32 rtt = sample->rtt_us;
	u32 state = BITS((const struct inet_connection_sock *)tp, icsk_ca_state);

	sampled(&kept_of(tp)->state, rtt > 0 ? rtt : 0, state >= TCP_CA_CWR);
}
#endif

SEC("struct_ops")
u32 undo(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];

	return most(tp->snd_cwnd, tp->prior_cwnd);
}

SEC("struct_ops")
void init(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	struct kept *kept = kept_of(tp);

	*kept = (struct kept){
		.opened = 1,
		.settings = { .floor = chosen.settings.floor, .coupled_start = chosen.settings.coupled_start },
	};
	begun(&kept->state, tp->bytes_acked);
	__sync_fetch_and_add(&statistics.opened, 1);
}

SEC("struct_ops")
void release(u64 *arguments)
{
	struct kept *kept = kept_of((struct tcp_sock *)arguments[0]);

	/* The kernel may release a socket that was never initialised, or release a socket twice. */
	if (!kept->opened)
		return;
	kept->opened = 0;
	account(kept);
	__sync_fetch_and_add(&statistics.closed, 1);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)avoid,
	.set_state = (void *)state,
#ifdef SAMPLES_RTT
	.pkts_acked = (void *)sample,
#endif
	.undo_cwnd = (void *)undo,
	.init = (void *)init,
	.release = (void *)release,
	.name = NAME,
	.flags = TCP_CONG_NON_RESTRICTED,
};
