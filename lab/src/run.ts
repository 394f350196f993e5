/** The run that the page shows: plays, pauses, steps and repeats it, and keeps the visitor's changes of links. */

import { Client, CoreFailure, InputProblem } from "./core/client";
import type { Advanced, Network, Order, Sample } from "./core/types";
import { Store } from "./store";

/** Simulated seconds per real second; infinity is as fast as it goes. */
export const SPEEDS = [1 / 100, 1 / 50, 1 / 20, 1 / 10, 1 / 5, 1 / 2, 1, 2, 5, 10, 20, 50, Infinity] as const;

/** Real time that one request to the worker may take, so that the picture stays smooth. */
const BUDGET_MS = 13;
const FAST_BUDGET_MS = 40;
const MAX_FRAME_S = 0.1;

export interface Visible {
  network: Network;
  store: Store;
  sample: Sample;
  packets: number[];
}

export interface Listener {
  /** A run stands at its start. */
  opened(run: Run): void;
  /** Time has passed. */
  advanced(run: Run): void;
  /** Links, flows or the visitor's list of changes have changed. */
  changed(run: Run): void;
  /** Playing began or ended, or the speed changed. */
  steered(run: Run): void;
  /** The core failed and this page cannot continue the run. */
  failed(message: string): void;
}

export class Run {
  scenario = "";
  seed: number | null = null;
  orders: Order[] = [];
  now_ns = 0;
  events = 0;
  isPlaying = false;
  isOver = false;
  speed: number = 1 / 20;
  /** Speed that the machine reached lately, in simulated seconds per real second. */
  reached = 0;
  view: Visible | null = null;
  interval_ns = 0;

  private isBusy = false;
  private lastFrame_ms = 0;
  private generation = 0;
  /** The time up to which a jump runs as fast as it goes. */
  private jump_ns: number | null = null;

  constructor(
    private readonly client: Client,
    private readonly listeners: Listener[],
  ) {}

  get end_ns(): number {
    return this.view?.network.duration_ns ?? 0;
  }

  /** Whether a jump to a time goes on. */
  get isJumping(): boolean {
    return this.jump_ns !== null;
  }

  /** Opens a scenario at time 0, and may start to play it. An invalid one is an error, and the present run stays. */
  async open(scenario: string, seed: number | null, orders: Order[] = [], isPlayed = false): Promise<void> {
    const generation = ++this.generation;
    const opened = await this.client.call("open", { toml: scenario, seed, orders, interval_ns: null });
    if (generation !== this.generation) return;
    this.scenario = scenario;
    this.seed = seed;
    this.orders = [...orders];
    this.now_ns = 0;
    this.events = 0;
    this.isOver = false;
    this.jump_ns = null;
    this.isBusy = false;
    this.interval_ns = opened.interval_ns;
    const store = new Store(opened.network, opened.interval_ns);
    store.addRows(opened.rows, namesOf(opened.sample));
    this.view = { network: opened.network, store, sample: opened.sample, packets: [] };
    if (isPlayed) this.isPlaying = true;
    this.lastFrame_ms = 0;
    // The core simulates while the listeners draw.
    this.frame(performance.now());
    for (const listener of this.listeners) listener.opened(this);
  }

  /** Runs the same scenario again from time 0. */
  async restart(withOrders = true): Promise<void> {
    await this.open(this.scenario, this.seed, withOrders ? this.orders : []);
  }

  play(): void {
    if (this.isOver) return;
    this.isPlaying = true;
    this.lastFrame_ms = 0;
    this.steered();
  }

  pause(): void {
    this.isPlaying = false;
    this.jump_ns = null;
    this.steered();
  }

  setSpeed(speed: number): void {
    this.speed = speed;
    this.steered();
  }

  /** Pauses and advances by a time. */
  async step(by_ns: number): Promise<void> {
    this.pause();
    await this.advance(this.now_ns + by_ns, FAST_BUDGET_MS);
  }

  /** Goes to a time; to an earlier one by running again from the start with the same changes of links. */
  async seek(to_ns: number): Promise<void> {
    const wasPlaying = this.isPlaying;
    if (to_ns < this.now_ns) await this.restart();
    this.isPlaying = wasPlaying;
    this.jump_ns = to_ns;
    this.steered();
  }

  /** Runs again from the start until a time, without drawing meanwhile. */
  async goTo(to_ns: number): Promise<void> {
    this.pause();
    await this.restart();
    while (this.now_ns < Math.min(to_ns, this.end_ns) && !this.isBusy) await this.advance(to_ns, FAST_BUDGET_MS);
  }

  /** Runs on to the end, without pictures on the way. */
  async finish(): Promise<void> {
    this.pause();
    while (!this.isOver && !this.isBusy) await this.advance(this.end_ns, FAST_BUDGET_MS);
  }

  /** Changes a link at the present time. */
  async order(change: Omit<Order, "at_ns">): Promise<void> {
    if (this.view === null) return;
    const generation = this.generation;
    const { order, network } = await this.client.call("order", { change });
    if (generation !== this.generation) return;
    const later = this.orders.filter((other) => other.at_ns > order.at_ns);
    // A second change of a key at the same time replaces the first, as in the core.
    const kept = this.orders.filter((other) => !later.includes(other)).flatMap((other) => without(other, order));
    this.orders = [...kept, order, ...later];
    this.view.network = network;
    for (const listener of this.listeners) listener.changed(this);
  }

  /** Removes a change of a link and runs again to the present time. */
  async removeOrder(index: number): Promise<void> {
    const now = this.now_ns;
    await this.open(this.scenario, this.seed, this.orders.filter((_, at) => at !== index));
    await this.seek(now);
  }

  /** To be called for each frame of the screen. */
  frame(now_ms: number): void {
    const elapsed_s = this.lastFrame_ms === 0 ? 1 / 60 : Math.min(MAX_FRAME_S, (now_ms - this.lastFrame_ms) / 1000);
    if (this.isBusy || this.view === null) return;
    if (this.jump_ns !== null) {
      if (this.now_ns >= Math.min(this.jump_ns, this.end_ns)) {
        this.jump_ns = null;
        this.steered();
      } else {
        void this.advance(this.jump_ns, FAST_BUDGET_MS);
      }
      this.lastFrame_ms = now_ms;
      return;
    }
    if (!this.isPlaying) return;
    this.lastFrame_ms = now_ms;
    const isFast = this.speed === Infinity;
    const target = isFast ? this.end_ns : this.now_ns + elapsed_s * 1e9 * this.speed;
    const before = this.now_ns;
    void this.advance(target, isFast ? FAST_BUDGET_MS : BUDGET_MS).then(() => {
      const speed = (this.now_ns - before) / 1e9 / elapsed_s;
      this.reached = this.reached === 0 ? speed : 0.9 * this.reached + 0.1 * speed;
      // As fast as it goes: the worker does not wait for the screen.
      if (isFast && this.isPlaying && this.speed === Infinity) this.frame(performance.now());
    });
  }

  /** Digest of the run until now. */
  digest(): Promise<string> {
    return this.client.call("digest", {});
  }

  result(): Promise<unknown> {
    return this.client.call("result", {});
  }

  /** The scenario with all defaults, the seed and the changes of links as events. */
  asScenario(): Promise<string> {
    return this.client.call("scenario", {});
  }

  private async advance(until_ns: number, budget_ms: number): Promise<void> {
    if (this.isBusy || this.view === null || this.isOver) return;
    const generation = this.generation;
    this.isBusy = true;
    let step: Advanced;
    try {
      step = await this.client.call("advance", { until_ns, budget_ms, picture: true });
    } catch (error) {
      this.isPlaying = false;
      if (error instanceof CoreFailure || error instanceof InputProblem) {
        for (const listener of this.listeners) listener.failed(error.message);
        return;
      }
      throw error;
    }
    if (generation !== this.generation) return;
    this.isBusy = false;
    this.take(step);
  }

  private take(step: Advanced): void {
    const view = this.view!;
    this.now_ns = step.now_ns;
    this.events = step.events;
    view.store.addRows(step.rows, namesOf(step.sample));
    view.sample = step.sample;
    view.packets = step.packets;
    if (step.network !== null) {
      view.network = step.network;
      for (const listener of this.listeners) listener.changed(this);
    }
    if (step.over && !this.isOver) {
      this.isOver = true;
      this.isPlaying = false;
      this.jump_ns = null;
      this.steered();
    }
    for (const listener of this.listeners) listener.advanced(this);
  }

  private steered(): void {
    for (const listener of this.listeners) listener.steered(this);
  }
}

/** Names of the paths of each flow. */
function namesOf(sample: Sample): string[][] {
  return sample.flows.map((flow) => flow.paths.map(({ name }) => name));
}

/** A change without the keys that a later change of the same time, link and direction sets; none if no key is left. */
function without(order: Order, later: Order): Order[] {
  if (order.at_ns !== later.at_ns || order.link !== later.link || order.direction !== later.direction) return [order];
  const left = Object.entries(order.set).filter(([key]) => !(key in later.set));
  return left.length === 0 ? [] : [{ ...order, set: Object.fromEntries(left) }];
}
