/** Samples of a run as columns over time, one column for each value that charts and tables show. */

import { DIRECTION_FIELDS, FLOW_FIELDS, HEAD_FIELDS, PATH_FIELDS } from "./core/row";
import type { Network } from "./core/types";

export type Values = (number | null)[];

export interface PathColumns {
  flow: number;
  path: number;
  /** Index of the path's colour: paths are numbered in the order in which they appear. */
  look: number;
  flowName: string;
  pathName: string;
  /** Whether the path has had a congestion window; paths of UDP have none. */
  hasWindow: boolean;
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
  largestQueue_packets: number;
}

/** Goodput is a mean over this share of the run, between two limits, so that single packets do not show as spikes. */
const GOODPUT_WINDOW_SHARE = 1 / 100;
const MIN_GOODPUT_WINDOW_S = 0.1;
const MAX_GOODPUT_WINDOW_S = 1;

/** Separator of the links in the name of a path. */
const LINK_SEPARATOR = ">";

export class Store {
  readonly time_s: number[] = [];
  readonly paths: PathColumns[] = [];
  readonly flows: FlowColumns[];
  readonly links: LinkColumns[] = [];
  /** Time over which goodput is a mean. */
  readonly goodputWindow_s: number;

  /** Whether the last sample stands between two regular ones; the next one replaces it. */
  private isLastProvisional = false;

  constructor(
    network: Network,
    private readonly interval_ns: number,
  ) {
    const wanted_s = (network.duration_ns / 1e9) * GOODPUT_WINDOW_SHARE;
    this.goodputWindow_s = Math.min(MAX_GOODPUT_WINDOW_S, Math.max(MIN_GOODPUT_WINDOW_S, wanted_s));
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

  /** Adds the rows of several samples. `names` has, for each flow, the names of its paths in the last sample. */
  addRows(rows: Float64Array, names: readonly string[][]): void {
    for (let at = 0; at < rows.length; at += rows[at]!) this.addRow(rows, at, names);
  }

  /** Adds the next sample; one at the time of a regular one replaces it. */
  private addRow(rows: Float64Array, begin: number, names: readonly string[][]): void {
    const now = rows[begin + 1]! / 1e9;
    if (this.time_s.at(-1) === now || this.isLastProvisional) this.time_s.pop();
    this.isLastProvisional = rows[begin + 1]! % this.interval_ns !== 0;
    const at = this.time_s.length;
    this.time_s.push(now);
    const before = this.indexBefore(now - this.goodputWindow_s);
    let next = begin + HEAD_FIELDS;
    this.flows.forEach((flow, index) => {
      flow.delivered_bytes[at] = rows[next]!;
      flow.reordering_buffer_bytes[at] = rows[next + 1]!;
      flow.goodput_bps[at] = this.rate(flow.delivered_bytes, before, at);
      const paths = rows[next + 2]!;
      next += FLOW_FIELDS;
      for (let number = 0; number < paths; number++, next += PATH_FIELDS) {
        const path = this.pathColumns(index, number, names[index]?.[number] ?? `path ${number + 1}`, at);
        path.cwnd_bytes[at] = rows[next]!;
        path.hasWindow ||= rows[next]! > 0;
        path.ssthresh_bytes[at] = valueOf(rows[next + 1]!);
        path.srtt_s[at] = valueOf(rows[next + 2]!);
        path.in_flight_bytes[at] = rows[next + 3]!;
        path.delivered_bytes[at] = rows[next + 4]!;
        path.retransmissions[at] = rows[next + 5]!;
        path.goodput_bps[at] = this.rate(path.delivered_bytes, before, at);
      }
    });
    for (const link of this.links) {
      link.queue_packets[at] = rows[next]!;
      link.queue_bytes[at] = rows[next + 1]!;
      link.dropped_packets[at] = rows[next + 2]!;
      link.sent_bytes[at] = rows[next + 3]!;
      link.largestQueue_packets = Math.max(link.largestQueue_packets, rows[next]!);
      next += DIRECTION_FIELDS;
    }
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
      hasWindow: false,
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
  return { name, isForward, from, to, queue_packets: [], queue_bytes: [], dropped_packets: [], sent_bytes: [], largestQueue_packets: 0 };
}

function columnsOf(path: PathColumns): Values[] {
  return Object.values(path).filter((value): value is Values => Array.isArray(value));
}

function valueOf(number: number): number | null {
  return Number.isNaN(number) ? null : number;
}

/** Name of a path for legends: the flow, and those links of the path that other paths of the flow lack. */
export function pathLabel(store: Store, path: PathColumns): string {
  const siblings = store.paths.filter((other) => other.flow === path.flow);
  if (siblings.length === 1) return path.flowName;
  const own = path.pathName.split(LINK_SEPARATOR).filter((link) => !siblings.every((other) => other.pathName.split(LINK_SEPARATOR).includes(link)));
  return `${path.flowName} · ${own.join(LINK_SEPARATOR) || path.pathName}`;
}
