/** The functions of the WebAssembly module, with text and JSON instead of addresses and lengths. */

import type { Keys, Network, Order, Problem, Sample } from "./types";

interface Exports {
  memory: WebAssembly.Memory;
  lab_alloc(length: number): number;
  lab_free(address: number, length: number): void;
  lab_output(): number;
  lab_output_len(): number;
  lab_check(address: number, length: number): number;
  lab_keys(): number;
  lab_open(address: number, length: number, seed: bigint): number;
  lab_open_variant(address: number, length: number, seed: bigint): number;
  lab_coupled(): number;
  lab_step_until(handle: number, ns: number): number;
  lab_now(handle: number): number;
  lab_events(handle: number): number;
  lab_sample(handle: number): number;
  lab_row(handle: number): number;
  lab_order(handle: number, address: number, length: number): number;
  lab_network(handle: number): number;
  lab_packets(handle: number): number;
  lab_result(handle: number): number;
  lab_digest(handle: number): number;
  lab_scenario(handle: number): number;
  lab_close(handle: number): void;
}

/** A mistake in the input of the core. */
export class CoreError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
  }
}

/** A panic of the core: a bug. The instance must not be used again. */
export class CoreBug extends Error {}

/** The scenario's own seed, as the module writes it. */
const OWN_SEED = -1n;

function chosen(seed: number | null): bigint {
  return seed === null ? OWN_SEED : BigInt(seed);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The core, with one run at most. */
export class Core {
  private readonly exports: Exports;
  private handle = 0;

  private constructor(instance: WebAssembly.Instance) {
    this.exports = instance.exports as unknown as Exports;
  }

  static async start(module: WebAssembly.Module): Promise<Core> {
    return new Core(await WebAssembly.instantiate(module, {}));
  }

  check(toml: string): Problem[] {
    return this.json<Problem[]>(this.withText(toml, (at, length) => this.exports.lab_check(at, length)));
  }

  keys(): Keys {
    return this.json<Keys>(this.call(() => this.exports.lab_keys()));
  }

  /** Opens a run at time 0 and closes the one before. A mistake in the scenario keeps the one before. */
  open(toml: string, seed: number | null): void {
    this.keep(this.withText(toml, (at, length) => this.exports.lab_open(at, length, chosen(seed))));
  }

  /** As `open`, with settings "KEY=VALUE". */
  openVariant(scenario: string, settings: string[], seed: number | null): void {
    const text = JSON.stringify({ scenario, settings });
    this.keep(this.withText(text, (at, length) => this.exports.lab_open_variant(at, length, chosen(seed))));
  }

  /** The congestion controls that couple paths. */
  coupled(): string[] {
    return this.json<string[]>(this.call(() => this.exports.lab_coupled()));
  }

  stepUntil(ns: number): void {
    this.checked(this.call(() => this.exports.lab_step_until(this.handle, ns)));
  }

  now(): number {
    return this.exports.lab_now(this.handle);
  }

  events(): number {
    return this.exports.lab_events(this.handle);
  }

  sample(): Sample {
    return this.json<Sample>(this.call(() => this.exports.lab_sample(this.handle)));
  }

  /** The values of `sample` that charts show; `row.ts` has their order. */
  row(): Float64Array {
    const length = this.checked(this.call(() => this.exports.lab_row(this.handle)));
    const address = this.exports.lab_output();
    return new Float64Array(this.exports.memory.buffer.slice(address, address + length));
  }

  order(order: Omit<Order, "at_ns">): void {
    const { link, direction, set } = order;
    const text = JSON.stringify({ link, direction, set });
    this.checked(this.withText(text, (at, length) => this.exports.lab_order(this.handle, at, length)));
  }

  network(): Network {
    return this.json<Network>(this.call(() => this.exports.lab_network(this.handle)));
  }

  packets(): number[] {
    return this.json<number[]>(this.call(() => this.exports.lab_packets(this.handle)));
  }

  result(): unknown {
    return this.json<unknown>(this.call(() => this.exports.lab_result(this.handle)));
  }

  digest(): string {
    return this.text(this.call(() => this.exports.lab_digest(this.handle)));
  }

  scenario(): string {
    return this.text(this.call(() => this.exports.lab_scenario(this.handle)));
  }

  close(): void {
    if (this.handle > 0) {
      this.exports.lab_close(this.handle);
      this.handle = 0;
    }
  }

  private keep(returned: number): void {
    const handle = this.checked(returned);
    this.close();
    this.handle = handle;
  }

  /** Calls a function with the address and length of a text. */
  private withText(text: string, call: (address: number, length: number) => number): number {
    const bytes = encoder.encode(text);
    const address = this.exports.lab_alloc(bytes.length);
    new Uint8Array(this.exports.memory.buffer, address, bytes.length).set(bytes);
    const returned = this.call(() => call(address, bytes.length));
    this.exports.lab_free(address, bytes.length);
    return returned;
  }

  /** Calls a function; a trap becomes a `CoreBug` with the text of the panic. */
  private call(call: () => number): number {
    try {
      return call();
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError) {
        throw new CoreBug(this.output(this.exports.lab_output_len()) || error.message);
      }
      throw error;
    }
  }

  private checked(returned: number): number {
    if (returned < 0) throw new CoreError(JSON.parse(this.output(-returned)) as Problem);
    return returned;
  }

  private text(returned: number): string {
    return this.output(this.checked(returned));
  }

  private json<T>(returned: number): T {
    return JSON.parse(this.text(returned)) as T;
  }

  private output(length: number): string {
    // The address is read after the call, since the memory may have moved.
    return decoder.decode(new Uint8Array(this.exports.memory.buffer, this.exports.lab_output(), length));
  }
}
