/** Positions of nodes: senders at the left, receivers at the right, the rest by their distances to both. */

import type { Network } from "../core/types";

export interface Place {
  x: number;
  y: number;
}

export interface Route {
  /** Points of a quadratic curve: begin, control point, end. */
  from: Place;
  control: Place;
  to: Place;
}

export interface Layout {
  width: number;
  height: number;
  nodes: Map<string, Place>;
  /** In the order of the network's links, from the first end to the second. */
  links: Route[];
}

const SIDE_MARGIN = 74;
const TOP_MARGIN = 46;
const ROW_HEIGHT = 88;
const MIN_ROW_HEIGHT = 40;
const MAX_WIDE_ROWS = 4;
const MAX_GAP = 190;
const MAX_HEIGHT = 460;
const MIN_HEIGHT = 196;
/** Distance between the middles of two links between the same nodes. */
const PARALLEL_GAP = 150;
/** The same, where other nodes stand beside them. */
const NARROW_PARALLEL_GAP = 80;
const SWEEPS = 8;

/** Height that a network needs. */
export function neededHeight(network: Network): number {
  const rows = rowsOf(network, columnsOf(network));
  return Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, 2 * TOP_MARGIN + (rows - 1) * rowHeightOf(rows)));
}

/** Whether a column has so many nodes that their names do not fit between them. */
export function isDense(network: Network): boolean {
  return rowsOf(network, columnsOf(network)) > MAX_WIDE_ROWS;
}

function rowsOf(network: Network, columns: string[][]): number {
  return Math.max(...columns.map((names) => names.length), parallelRows(network));
}

function rowHeightOf(rows: number): number {
  return rows > MAX_WIDE_ROWS ? MIN_ROW_HEIGHT : ROW_HEIGHT;
}

export function layout(network: Network, width: number, height: number): Layout {
  const columns = columnsOf(network);
  order(columns, network);
  const nodes = new Map<string, Place>();
  const margin = Math.min(SIDE_MARGIN, width / 7);
  columns.forEach((names, column) => {
    const x = columns.length === 1 ? width / 2 : margin + (column * (width - 2 * margin)) / (columns.length - 1);
    const gap = names.length > 1 ? Math.min(MAX_GAP, (height - 2 * TOP_MARGIN) / (names.length - 1)) : 0;
    names.forEach((name, row) => nodes.set(name, { x, y: height / 2 + (row - (names.length - 1) / 2) * gap }));
  });
  return { width, height, nodes, links: routes(network, nodes, height, columns.some((names) => names.length > 1)) };
}

/** Distances in links from a set of nodes. */
function distances(network: Network, begin: string[]): Map<string, number> {
  const found = new Map(begin.map((name) => [name, 0]));
  const queue = [...begin];
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    for (const { ends } of network.links) {
      if (!ends.includes(name)) continue;
      const other = ends[0] === name ? ends[1] : ends[0];
      if (!found.has(other)) {
        found.set(other, found.get(name)! + 1);
        queue.push(other);
      }
    }
  }
  return found;
}

/** Names of the nodes by column. */
function columnsOf(network: Network): string[][] {
  const senders = network.flows.map((flow) => (flow.direction === "reverse" ? flow.to : flow.from));
  const receivers = network.flows.map((flow) => (flow.direction === "reverse" ? flow.from : flow.to));
  const starts = senders.filter((name) => !receivers.includes(name));
  const begin = starts.length > 0 ? starts : senders.slice(0, 1);
  const ends = receivers.filter((name) => !begin.includes(name));
  const after = distances(network, begin);
  const before = distances(network, ends);
  const share = (name: string): number => {
    if (begin.includes(name)) return 0;
    if (ends.includes(name)) return 1;
    const [a, b] = [after.get(name) ?? 1, before.get(name) ?? 1];
    return a / (a + b);
  };
  const shares = [...new Set(network.nodes.map(({ name }) => Math.round(share(name) * 24) / 24))].sort((a, b) => a - b);
  const columns: string[][] = shares.map(() => []);
  for (const { name } of network.nodes) columns[shares.indexOf(Math.round(share(name) * 24) / 24)]!.push(name);
  return columns;
}

function linksByPair(network: Network): Map<string, number[]> {
  const pairs = new Map<string, number[]>();
  network.links.forEach(({ ends }, index) => {
    const pair = [...ends].sort().join("\n");
    pairs.set(pair, [...(pairs.get(pair) ?? []), index]);
  });
  return pairs;
}

function parallelRows(network: Network): number {
  return Math.max(1, ...[...linksByPair(network).values()].map((links) => links.length + (links.length > 1 ? 0.4 : 0)));
}

/** Sorts the nodes of each column by the mean position of their neighbours, so that few links cross. */
function order(columns: string[][], network: Network): void {
  const place = new Map<string, number>();
  const settle = (names: string[]) =>
    names.forEach((name, row) => place.set(name, row - (names.length - 1) / 2));
  columns.forEach(settle);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const names of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const mean = (name: string): number => {
        const others = network.links.filter(({ ends }) => ends.includes(name)).map(({ ends }) => (ends[0] === name ? ends[1] : ends[0]));
        return others.reduce((sum, other) => sum + place.get(other)!, 0) / Math.max(1, others.length);
      };
      const means = new Map(names.map((name) => [name, mean(name)]));
      names.sort((a, b) => means.get(a)! - means.get(b)!);
      settle(names);
    }
  }
}

function routes(network: Network, nodes: Map<string, Place>, height: number, isNarrow: boolean): Route[] {
  const found: Route[] = [];
  for (const links of linksByPair(network).values()) {
    links.forEach((index, position) => {
      const [a, b] = network.links[index]!.ends;
      const [from, to] = [nodes.get(a)!, nodes.get(b)!];
      const gap = Math.min(isNarrow ? NARROW_PARALLEL_GAP : PARALLEL_GAP, (height - 1.6 * TOP_MARGIN) / links.length);
      const bend = links.length === 1 ? bendAround(from, to, nodes) : (position - (links.length - 1) / 2) * gap;
      found[index] = { from, control: controlPoint(from, to, bend), to };
    });
  }
  return found;
}

/** A bend for a straight link that would run through another node. */
function bendAround(from: Place, to: Place, nodes: Map<string, Place>): number {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  for (const node of nodes.values()) {
    const along = ((node.x - from.x) * dx + (node.y - from.y) * dy) / (length * length);
    const aside = ((node.x - from.x) * dy - (node.y - from.y) * dx) / length;
    if (along > 0.02 && along < 0.98 && Math.abs(aside) < 24) return aside >= 0 ? -70 : 70;
  }
  return 0;
}

/** The control point that leads a curve past its chord at a distance; positive is below a link from left to right. */
function controlPoint(from: Place, to: Place, bend: number): Place {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.max(1, Math.hypot(dx, dy));
  const side = dx < 0 || (dx === 0 && dy < 0) ? -1 : 1;
  const shift = (2 * bend * side) / length;
  return { x: (from.x + to.x) / 2 - dy * shift, y: (from.y + to.y) / 2 + dx * shift };
}

/** The point at a share of a route's length, and the direction of the route there. */
export function pointAt(route: Route, share: number): Place & { dx: number; dy: number } {
  const { from, control, to } = route;
  const rest = 1 - share;
  return {
    x: rest * rest * from.x + 2 * rest * share * control.x + share * share * to.x,
    y: rest * rest * from.y + 2 * rest * share * control.y + share * share * to.y,
    dx: 2 * rest * (control.x - from.x) + 2 * share * (to.x - control.x),
    dy: 2 * rest * (control.y - from.y) + 2 * share * (to.y - control.y),
  };
}
