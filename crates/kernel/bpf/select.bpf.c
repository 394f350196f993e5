// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets the congestion control of every TCP connection of a cgroup when the connection starts to connect, and again when it is
 * established, because Multipath TCP resets that of a joining subflow. Applications may set TCP_CONGESTION afterwards.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

/* The loader replaces this name in .rodata. */
const volatile struct {
	char name[16];
} choice = {};

/* linux/bpf.h */
struct bpf_sock_ops {
	u32 op;
};
#define BPF_SOCK_OPS_TCP_CONNECT_CB 3
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB 4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5

static long (*const bpf_setsockopt)(void *context, int level, int name, const void *value, int length) = (void *)49;

#define IPPROTO_TCP 6
#define TCP_CONGESTION 13

SEC("sockops")
int select(struct bpf_sock_ops *context)
{
	switch (context->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_setsockopt(context, IPPROTO_TCP, TCP_CONGESTION, (const void *)choice.name, sizeof(choice.name));
	}
	return 1;
}
