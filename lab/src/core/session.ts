/** A run in the worker: steps, samples at a fixed interval of simulated time, and changes of links at their times. */

import { Core } from "./abi";
import { withOrders } from "./pending";
import { joined } from "./row";
import type { Advanced, Network, Opened, Order, Ordered, Sample } from "./types";

/** Approximate number of samples of a whole run; the interval is rounded to 1, 2 or 5 times a power of ten. */
const SAMPLES_PER_RUN = 4000;
const MIN_INTERVAL_NS = 1e6;

/** The sampling interval for a run of a duration. */
export function samplingInterval(duration_ns: number): number {
  const wanted = Math.max(MIN_INTERVAL_NS, duration_ns / SAMPLES_PER_RUN);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const factor = [1, 2, 5, 10].find((f) => f * power >= wanted * 0.999) ?? 10;
  return Math.round(factor * power);
}

export class Session {
  private interval_ns = MIN_INTERVAL_NS;
  private nextSample_ns = 0;
  private pending: Order[] = [];
  private end_ns = 0;
  private paths = 0;
  /** Changes of links at the present time, which take effect when the run goes on. */
  private fresh: Order[] = [];
  private eventTimes: number[] = [];

  constructor(readonly core: Core) {}

  open(toml: string, seed: number | null, orders: Order[], interval_ns: number | null): Opened {
    this.core.open(toml, seed);
    const network = this.core.network();
    this.end_ns = network.duration_ns;
    this.interval_ns = interval_ns ?? samplingInterval(this.end_ns);
    this.nextSample_ns = this.interval_ns;
    this.pending = [...orders].sort((a, b) => a.at_ns - b.at_ns);
    this.paths = 0;
    this.fresh = [];
    this.remember(network);
    this.applyDue();
    const sample = this.core.sample();
    const shown = withOrders(this.core.network(), this.fresh);
    return { network: shown, rows: this.core.row(), sample, interval_ns: this.interval_ns };
  }

  order(change: Omit<Order, "at_ns">): Ordered {
    const order = { at_ns: this.core.now(), ...change };
    this.core.order(order);
    this.fresh.push(order);
    const network = this.core.network();
    this.remember(network);
    return { order, network: withOrders(network, this.fresh) };
  }

  /** Steps until a time or until the budget of real time is used up, and returns the samples taken meanwhile. */
  advance(until_ns: number, budget_ms: number, picture: boolean): Advanced {
    const begin = performance.now();
    const before = this.core.now();
    const rows: Float64Array[] = [];
    if (before < until_ns) this.fresh = [];
    const until = Math.min(Math.floor(until_ns), this.end_ns);
    let now = before;
    while (now < until) {
      const due = this.pending[0]?.at_ns ?? Infinity;
      const next = Math.min(until, this.nextSample_ns, due);
      this.core.stepUntil(next);
      now = next;
      this.applyDue(now);
      if (now >= this.nextSample_ns) {
        rows.push(this.core.row());
        this.nextSample_ns += this.interval_ns;
      }
      if (performance.now() - begin > budget_ms) break;
    }
    // The second number of a row is its time.
    if (rows.at(-1)?.[1] !== now) rows.push(this.core.row());
    const sample = this.core.sample();
    return {
      now_ns: now,
      events: sample.events,
      over: sample.over,
      rows: joined(rows),
      sample,
      network: this.changedNetwork(before, now, sample),
      packets: picture ? this.core.packets() : [],
    };
  }

  private applyDue(now = 0): void {
    while (this.pending.length > 0 && this.pending[0]!.at_ns <= now) {
      const order = this.pending.shift()!;
      this.core.order(order);
      this.fresh.push(order);
      this.eventTimes.push(now);
    }
  }

  private remember(network: Network): void {
    this.eventTimes = network.events.map((event) => event.at_ns);
  }

  /** The network, unless nothing in it has changed since the last call. */
  private changedNetwork(before: number, now: number, sample: Sample): Network | null {
    const paths = sample.flows.reduce((sum, flow) => sum + flow.paths.length, 0);
    const hasEvent = this.eventTimes.some((at) => at >= before && at <= now);
    if (paths === this.paths && !hasEvent) return null;
    this.paths = paths;
    const network = this.core.network();
    this.remember(network);
    return network;
  }
}
