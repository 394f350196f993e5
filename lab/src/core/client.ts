/** The page's side of the worker: turns messages into promises. */

import type { StartedCore } from "./start";
import type { CallName, Calls, Problem, Reply } from "./types";

/** A mistake in the input. */
export class InputProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
  }
}

/** A bug of the core; the worker has ended. */
export class CoreFailure extends Error {}

/** A browser without a feature that the page needs. */
export class MissingFeature extends Error {}

export class Client {
  private readonly waiting = new Map<number, { resolve: (v: never) => void; reject: (e: Error) => void }>();
  private nextId = 1;
  private failure: CoreFailure | null = null;

  /** The compiled core, for other workers. */
  readonly module: Promise<WebAssembly.Module>;
  private readonly worker: Worker;

  /** Takes over a worker that gets the compiled core. It can be called before, and answers later. */
  constructor({ worker, ready, module }: StartedCore) {
    this.worker = worker;
    this.module = module;
    const listen = () => {
      worker.onmessage = (event: MessageEvent<Reply>) => this.receive(event.data);
      worker.onerror = (event) => this.fail(new CoreFailure(event.message));
    };
    Promise.all([ready, module]).then(listen, (error: Error) => this.fail(new CoreFailure(error.message)));
  }

  call<N extends CallName>(call: N, of: Calls[N]["of"]): Promise<Calls[N]["gives"]> {
    if (this.failure !== null) return Promise.reject(this.failure);
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (v: never) => void, reject });
      // The worker gets the core first.
      this.module
        .then(() => this.worker.postMessage({ id, call, of }))
        .catch((error: Error) => this.fail(new CoreFailure(error.message)));
    });
  }

  end(): void {
    this.worker.terminate();
  }

  private receive(reply: Reply): void {
    const waiter = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    if (waiter === undefined) return;
    if ("gives" in reply) waiter.resolve(reply.gives as never);
    else if (reply.isBug) this.fail(new CoreFailure(reply.problem.message), waiter);
    else waiter.reject(new InputProblem(reply.problem));
  }

  private fail(error: CoreFailure, first?: { reject: (e: Error) => void }): void {
    this.failure = error;
    this.end();
    first?.reject(error);
    for (const waiter of this.waiting.values()) waiter.reject(error);
    this.waiting.clear();
  }
}

/** @throws MissingFeature if the browser lacks what the page needs. */
export function requireFeatures(): void {
  if (typeof WebAssembly !== "object") {
    throw new MissingFeature("This browser has no WebAssembly, which the simulator needs; use a current one.");
  }
  if (typeof DecompressionStream !== "function") {
    throw new MissingFeature("This browser has no DecompressionStream, which reads links to runs; use a current one.");
  }
}
