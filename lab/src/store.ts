/** Samples of a run as columns over time, one column for each value that charts and tables show. */

import type { Network, Sample } from "./core/types";

export type Values = (number | null)[];

export interface PathColumns {
  flow: number;
  path: number;
  /** Index of its colour: the order in which paths appeared. */
  look: number;
  flowName: string;
  pathName: string;
  cwnd_bytes: Values;
  ssthresh_bytes: Values;
  srtt_s: Values;
  in_flight_bytes: Values;
  delivered_bytes: Values;
  goodput_bps: Values;
  retransmissions: Values;
}

export interface FlowColumns {
  name: string;
  delivered_bytes: Values;
  goodput_bps: Values;
  reordering_buffer_bytes: Values;
}

export interface LinkColumns {
  name: string;
  isForward: boolean;
  from: string;
  to: string;
  queue_packets: Values;
  queue_bytes: Values;
  dropped_packets: Values;
  sent_bytes: Values;
}

/** Goodput is measured over at least this time, so that single packets do not show as spikes. */
const GOODPUT_WINDOW_S = 0.2;

/** Between the links in the name of a path. */
const LINK_SEPARATOR = ">";

export class Store {
  readonly time_s: number[] = [];
  readonly paths: PathColumns[] = [];
  readonly flows: FlowColumns[];
  readonly links: LinkColumns[] = [];

  constructor(network: Network) {
    this.flows = network.flows.map((flow) => ({
      name: flow.name,
      delivered_bytes: [],
      goodput_bps: [],
      reordering_buffer_bytes: [],
    }));
    for (const link of network.links) {
      const [from, to] = link.ends;
      this.links.push(directionColumns(link.name, true, from, to), directionColumns(link.name, false, to, from));
    }
  }

  get length(): number {
    return this.time_s.length;
  }

  /** Adds the next sample; one at the time of the last replaces it. */
  add(sample: Sample): void {
    const now = sample.now_ns / 1e9;
    if (this.time_s.at(-1) === now) this.time_s.pop();
    const at = this.time_s.length;
    this.time_s.push(now);
    const before = this.indexBefore(now - GOODPUT_WINDOW_S);
    sample.flows.forEach((flow, index) => {
      const columns = this.flows[index]!;
      columns.delivered_bytes[at] = flow.delivered_bytes;
      columns.reordering_buffer_bytes[at] = flow.reordering_buffer_bytes;
      columns.goodput_bps[at] = this.rate(columns.delivered_bytes, before, at);
      flow.paths.forEach((path, number) => {
        const into = this.pathColumns(index, number, path.name, at);
        into.cwnd_bytes[at] = path.cwnd_bytes;
        into.ssthresh_bytes[at] = path.ssthresh_bytes;
        into.srtt_s[at] = path.srtt_s;
        into.in_flight_bytes[at] = path.in_flight_bytes;
        into.delivered_bytes[at] = path.delivered_bytes;
        into.retransmissions[at] = path.retransmissions;
        into.goodput_bps[at] = this.rate(into.delivered_bytes, before, at);
      });
    });
    sample.links.forEach((link, index) => {
      for (const [offset, values] of [link.forward, link.reverse].entries()) {
        const into = this.links[2 * index + offset]!;
        into.queue_packets[at] = values.queue_packets;
        into.queue_bytes[at] = values.queue_bytes;
        into.dropped_packets[at] = sum(values.drops);
        into.sent_bytes[at] = values.sent_bytes;
      }
    });
    // A path that a sample does not list has no value there.
    for (const path of this.paths) {
      if (path.cwnd_bytes.length <= at) for (const values of columnsOf(path)) values[at] = null;
    }
  }

  /** Index of the last sample at or before a time; 0 if there is none. */
  indexBefore(time_s: number): number {
    let [low, high] = [0, this.time_s.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time_s[middle]! <= time_s) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  private rate(delivered: Values, before: number, at: number): number | null {
    const elapsed = this.time_s[at]! - this.time_s[before]!;
    if (elapsed <= 0) return null;
    return (8 * ((delivered[at] ?? 0) - (delivered[before] ?? 0))) / elapsed;
  }

  private pathColumns(flow: number, path: number, name: string, at: number): PathColumns {
    const found = this.paths.find((columns) => columns.flow === flow && columns.path === path);
    if (found !== undefined) return found;
    const empty = (): Values => new Array<null>(at).fill(null);
    const columns: PathColumns = {
      flow,
      path,
      look: this.paths.length,
      flowName: this.flows[flow]!.name,
      pathName: name,
      cwnd_bytes: empty(),
      ssthresh_bytes: empty(),
      srtt_s: empty(),
      in_flight_bytes: empty(),
      delivered_bytes: empty(),
      goodput_bps: empty(),
      retransmissions: empty(),
    };
    this.paths.push(columns);
    return columns;
  }
}

function directionColumns(name: string, isForward: boolean, from: string, to: string): LinkColumns {
  return { name, isForward, from, to, queue_packets: [], queue_bytes: [], dropped_packets: [], sent_bytes: [] };
}

function columnsOf(path: PathColumns): Values[] {
  return Object.values(path).filter((value): value is Values => Array.isArray(value));
}

/** Sum of the counts of a table. */
export function sum(counts: Record<string, number>): number {
  let total = 0;
  for (const value of Object.values(counts)) total += value;
  return total;
}

/** Name of a path for legends: the flow, and of its links those that not all of its paths have. */
export function pathLabel(store: Store, path: PathColumns): string {
  const siblings = store.paths.filter((other) => other.flow === path.flow);
  if (siblings.length === 1) return path.flowName;
  const own = path.pathName.split(LINK_SEPARATOR).filter((link) => !siblings.every((other) => other.pathName.split(LINK_SEPARATOR).includes(link)));
  return `${path.flowName} · ${own.join(LINK_SEPARATOR) || path.pathName}`;
}
