/** The charts of the page: which columns each one shows, in which unit, and its sentence. */

import { look } from "../palette";
import { pathLabel, type PathColumns, type Store, type Values } from "../store";
import { digits } from "../units";

export interface Line {
  label: string;
  values: Values;
  /** Factor from the column's unit to that of the chart. */
  factor: number;
  colour: string;
  dash: number[];
  width: number;
  /** Whether the series belongs to the path with this index of colour, so that it hides with it. */
  path: number | null;
}

export interface Kind {
  id: string;
  title: string;
  unit: string;
  /** Help for the reader of the chart. */
  about(store: Store): string;
  lines(store: Store): Line[];
}

const KB = 1 / 1000;
const MIN_QUEUE_PACKETS = 5;

/** Lines of the paths; those of UDP have no window, and are left out if `isWindow`. */
function perPath(store: Store, values: (path: PathColumns) => Values, factor: number, width = 1.6, isWindow = false): Line[] {
  const shown = store.paths.filter((path) => !isWindow || path.hasWindow);
  return shown.map((path) => ({
    label: pathLabel(store, path),
    values: values(path),
    factor,
    ...look(path.look),
    width,
    path: path.look,
  }));
}

/** A slow-start threshold is the largest number until a loss sets it. Such a value would only widen the axis. */
function thresholds(store: Store): Line[] {
  return perPath(store, (path) => path.ssthresh_bytes, KB, 1).map((line) => ({
    ...line,
    label: `ssthresh ${line.label}`,
    dash: [2, 3],
  }));
}

function goodputs(store: Store): Line[] {
  const several = store.flows.filter((_, flow) => store.paths.filter((path) => path.flow === flow).length > 1);
  const totals = several.map((flow) => ({
    label: `${flow.name} together`,
    values: flow.goodput_bps,
    factor: 1e-6,
    ...look(7),
    dash: several.length > 1 ? look(8 * several.indexOf(flow) + 7).dash : [],
    width: 2.4,
    path: null,
  }));
  return [...totals, ...perPath(store, (path) => path.goodput_bps, 1e-6)];
}

/** Out-of-order data of each flow; a flow of one path has the colour of this path. */
function reordering(store: Store): Line[] {
  return store.flows.map((flow, index) => {
    const paths = store.paths.filter((path) => path.flow === index);
    return {
      label: flow.name,
      values: flow.reordering_buffer_bytes,
      factor: KB,
      ...(paths.length === 1 ? look(paths[0]!.look) : look(7 + 8 * index)),
      width: 1.6,
      path: paths.length === 1 ? paths[0]!.look : null,
    };
  });
}

/** Queues that have held more than a short burst. */
function queues(store: Store): Line[] {
  const used = store.links.filter((link) => link.largestQueue_packets >= MIN_QUEUE_PACKETS);
  const isUnique = (name: string) => used.filter((other) => other.name === name).length === 1;
  return used.map((link, index) => ({
    label: isUnique(link.name) ? link.name : `${link.name} to ${link.to}`,
    values: link.queue_packets,
    factor: 1,
    ...look(7 - (index % 8)),
    dash: look(8 * Math.floor(index / 8)).dash,
    width: 1.6,
    path: null,
  }));
}

export const KINDS: readonly Kind[] = [
  {
    id: "window",
    title: "Congestion window",
    unit: "kB",
    about: () => "cwnd of each path; dotted: its slow-start threshold",
    lines: (store) => [...perPath(store, (path) => path.cwnd_bytes, KB, 1.6, true), ...thresholds(store)],
  },
  {
    id: "goodput",
    title: "Goodput",
    unit: "Mbit/s",
    about: (store) => `new data that arrived, mean of ${digits(1000 * store.goodputWindow_s)} ms`,
    lines: goodputs,
  },
  {
    id: "rtt",
    title: "Round-trip time",
    unit: "ms",
    about: () => "srtt of each path, queues included",
    lines: (store) => perPath(store, (path) => path.srtt_s, 1000),
  },
  {
    id: "queue",
    title: "Queues",
    unit: "packets",
    about: () => "packets that wait for each link",
    lines: queues,
  },
  {
    id: "flight",
    title: "In flight",
    unit: "kB",
    about: () => "data that is sent and not acknowledged",
    lines: (store) => perPath(store, (path) => path.in_flight_bytes, KB, 1.6, true),
  },
  {
    id: "reordering",
    title: "Out-of-order data",
    unit: "kB",
    about: () => "data at the receiver that waits for a gap to close",
    lines: reordering,
  },
];

/** The chart in one sentence: present and largest value of each series. */
export function sentence(kind: Kind, store: Store): string {
  const lines = kind.lines(store).filter(({ label }) => !label.startsWith("ssthresh"));
  const at = store.length - 1;
  const time = `${(store.time_s[at] ?? 0).toFixed(2)} s`;
  if (lines.length === 0) return `${kind.title}: no value until ${time}.`;
  const parts = lines.slice(0, 12).map((line) => {
    const present = line.values[at];
    let largest = 0;
    for (const value of line.values) if (value !== null && value !== undefined && value > largest) largest = value;
    if (present === null || present === undefined) return `${line.label} has no value yet`;
    return `${line.label} ${digits(present * line.factor)} ${kind.unit} (maximum ${digits(largest * line.factor)})`;
  });
  return `${kind.title} at ${time}: ${parts.join("; ")}.`;
}
