/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Types of the kernel that the programs use. The loader looks up the offsets of the members by name in the BTF of the running
 * kernel (CO-RE). Unused members are omitted. None of this is an ABI: a kernel without one of these names refuses the program.
 */
#ifndef ANABRANCH_KERNEL_H
#define ANABRANCH_KERNEL_H

#include "types.h"

#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms")))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_connection_sock {
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
};

struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 srtt_us;
	u32 packets_out;
	u32 max_packets_out;
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u64 tcp_mstamp;
	u64 bytes_acked;
	u8 is_cwnd_limited : 1;
	_Bool is_mptcp;
};

struct mptcp_subflow_context {
	struct list_head node;
	u32 request_bkup : 1;
	u32 backup : 1;
	u32 stale : 1;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct mptcp_sock {
	struct list_head conn_list;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
};

#pragma clang attribute pop

/* Members that a congestion control sets. The kernel matches them by name. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 state);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

/* net/tcp.h */
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CA_CWR 2
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4
/* net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_CLOSE_WAIT 8

extern void *bpf_rdonly_cast(const void *object, u32 btf_id) KSYM;

/* The object at `address`, for reading. Reading an invalid address returns zeroes. */
#define VIEW(type, address) ((const struct type *)bpf_rdonly_cast((const void *)(address), __builtin_btf_type_id(*(struct type *)0, 1)))

/* The storage unit that contains a bit-field member, at its offset in the running kernel. */
#define HOLDER(object, member) __builtin_preserve_field_info((object)->member, 0)
#define HOLDER_SIZE(object, member) __builtin_preserve_field_info((object)->member, 1)

static ALWAYS_INLINE u64 read_holder(const void *place, u32 size)
{
	switch (size) {
	case 1: return *(const u8 *)place;
	case 2: return *(const u16 *)place;
	case 4: return *(const u32 *)place;
	case 8: return *(const u64 *)place;
	}
	return 0;
}

#define HELD(object, member) read_holder((const void *)(object) + HOLDER(object, member), HOLDER_SIZE(object, member))

/* Like HELD, but reuses `holder`, which was read for the member `other`, if the running kernel stores both in the same unit. */
#define HELD_TOO(object, member, other, holder) \
	(HOLDER(object, member) == HOLDER(object, other) ? (holder) : HELD(object, member))

/* The value of a bit-field member in its storage unit. */
#define TAKEN(object, member, holder) \
	((u64)(holder) << __builtin_preserve_field_info((object)->member, 4) >> __builtin_preserve_field_info((object)->member, 5))

#define BITS(object, member) TAKEN(object, member, HELD(object, member))

#endif
