/** Changes of links at the present time: they take effect when the run goes on, but the page shows them at once. */

import type { Direction, Network, Order } from "./types";

const TIMES_NS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9 };
const RATES_BPS: Record<string, number> = { "bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12 };

/** A quantity in the notation of scenarios, which the core has checked. */
function quantity(text: unknown, units: Record<string, number>): number | null {
  const parts = /^\s*([\d.]+)\s*(\S+)\s*$/.exec(String(text));
  const factor = parts === null ? undefined : units[parts[2]!];
  return parts === null || factor === undefined ? null : Number(parts[1]) * factor;
}

/** Writes the new values of links into a network. */
export function withOrders(network: Network, orders: Order[]): Network {
  for (const order of orders) {
    const link = network.links.find(({ name }) => name === order.link);
    if (link === undefined) continue;
    if (order.direction !== "reverse") apply(link.forward, order.set);
    if (order.direction !== "forward") apply(link.reverse, order.set);
  }
  return network;
}

function apply(direction: Direction, set: Record<string, unknown>): void {
  if ("state" in set) direction.up = set["state"] === "up";
  direction.rate_bps = quantity(set["rate"], RATES_BPS) ?? direction.rate_bps;
  direction.delay_ns = quantity(set["delay"], TIMES_NS) ?? direction.delay_ns;
  direction.jitter_ns = quantity(set["jitter"], TIMES_NS) ?? direction.jitter_ns;
  if ("loss" in set) direction.loss = set["loss"] as Direction["loss"];
  const queue = set["queue"] as Partial<Direction["queue"]> | undefined;
  if (queue !== undefined) direction.queue = { ...direction.queue, ...queue };
  if (queue?.limit !== undefined) {
    const packets = /^\s*(\d+)\s*packets?\s*$/.exec(queue.limit);
    direction.queue_limit_packets = packets === null ? null : Number(packets[1]);
    if (packets !== null) direction.queue_limit_bytes = null;
  }
}
