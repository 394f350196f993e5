/** Values that cross the border of the simulator's core: the JSON of `crates/lab`, and the messages of its worker. */

/** A mistake in a scenario, a change or a call, as the command line prints it. Line and column count from 1. */
export interface Problem {
  line: number | null;
  column: number | null;
  message: string;
}

export interface Direction {
  up: boolean;
  /** Bits per second; null if the rate follows a trace. */
  rate_bps: number | null;
  delay_ns: number;
  jitter_ns: number;
  mtu: number;
  queue: { kind: string; limit: string };
  queue_limit_packets: number | null;
  queue_limit_bytes: number | null;
  loss: { model: string; rate?: number };
}

export interface Link {
  name: string;
  /** Names of the two nodes; forward is from the first to the second. */
  ends: [string, string];
  forward: Direction;
  reverse: Direction;
}

export interface Node {
  name: string;
  host: boolean;
  middlebox: string | null;
}

export interface Path {
  name: string;
  links: string[];
}

export interface Flow {
  name: string;
  from: string;
  to: string;
  through: string | null;
  protocol: string;
  congestion: string | null;
  scheduler: string | null;
  direction: "forward" | "reverse" | "both";
  start_ns: number;
  paths: Path[];
}

export interface LinkEvent {
  at_ns: number;
  link: string;
  direction?: "both" | "forward" | "reverse";
  set: Record<string, unknown>;
}

export interface Network {
  title: string;
  duration_ns: number;
  warmup_ns: number;
  seed: string;
  over: boolean;
  nodes: Node[];
  links: Link[];
  flows: Flow[];
  events: LinkEvent[];
}

export interface PathSample {
  name: string;
  usable: boolean;
  backup: boolean;
  cwnd_bytes: number;
  ssthresh_bytes: number | null;
  srtt_s: number | null;
  in_flight_bytes: number;
  sent_bytes: number;
  delivered_bytes: number;
  retransmissions: number;
  timeouts: number;
}

export interface FlowSample {
  state: string;
  delivered_bytes: number;
  receive_buffer_bytes: number;
  reordering_buffer_bytes: number;
  paths: PathSample[];
}

export interface DirectionSample {
  up: boolean;
  queue_packets: number;
  queue_bytes: number;
  sent_packets: number;
  sent_bytes: number;
  drops: Record<string, number>;
  marks: number;
}

export interface Sample {
  now_ns: number;
  events: number;
  over: boolean;
  flows: FlowSample[];
  links: { forward: DirectionSample; reverse: DirectionSample }[];
}

/** A change of a link at a time of the run, made by a visitor; equal to the same `[[event]]` of a scenario. */
export interface Order {
  at_ns: number;
  link: string;
  direction: "both" | "forward" | "reverse";
  set: Record<string, unknown>;
}

export interface Keys {
  sections: Section[];
}

export interface Section {
  header: string;
  keys: Key[];
}

export interface Key {
  name: string;
  doc: string;
  default: string | null;
  required: boolean;
  example: string | null;
  protocols: string[] | null;
  values: { name: string; doc: string }[];
  table: null | { tag: string | null; kinds: { name: string | null; doc: string; keys: Key[] }[] };
}

/** Requests to the worker by name, with their arguments and answers. */
export interface Calls {
  check: { of: { toml: string }; gives: Problem[] };
  keys: { of: object; gives: Keys };
  open: { of: { toml: string; seed: number | null; orders: Order[]; interval_ns: number | null }; gives: Opened };
  advance: { of: { until_ns: number; budget_ms: number; picture: boolean }; gives: Advanced };
  order: { of: { change: Omit<Order, "at_ns"> }; gives: Ordered };
  scenario: { of: object; gives: string };
  result: { of: object; gives: unknown };
  digest: { of: object; gives: string };
}

export interface Opened {
  network: Network;
  rows: Float64Array;
  sample: Sample;
  interval_ns: number;
}

export interface Ordered {
  /** The change of a link, with the time at which the core accepted it. */
  order: Order;
  network: Network;
}

export interface Advanced {
  now_ns: number;
  events: number;
  over: boolean;
  /** The samples taken meanwhile, as rows. */
  rows: Float64Array;
  /** The last one. */
  sample: Sample;
  /** The network, if an event or a visitor has changed it or a flow has a new path. */
  network: Network | null;
  /** Six numbers for each packet on a link: link, direction, flow, side, position, bytes. */
  packets: number[];
}

export type CallName = keyof Calls;
export type Request = { [N in CallName]: { id: number; call: N; of: Calls[N]["of"] } }[CallName];
export type Reply = { id: number; gives: unknown } | { id: number; problem: Problem; isBug: boolean };
