/** The page's side of the worker: turns messages into promises. */

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

/** Starts a worker from a program. Its first message is `first`, and `ready` has its first answer. */
export function startWorker<T>(program: string, first: Promise<unknown>): { worker: Worker; ready: Promise<T> } {
  const address = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  const worker = new Worker(address);
  const ready = new Promise<T>((resolve, reject) => {
    worker.onmessage = (event: MessageEvent<T>) => {
      URL.revokeObjectURL(address);
      resolve(event.data);
    };
    worker.onerror = (event) => reject(new CoreFailure(event.message || "the worker did not start"));
    first.then((message) => worker.postMessage(message), reject);
  });
  return { worker, ready };
}

export class Client {
  private readonly waiting = new Map<number, { resolve: (v: never) => void; reject: (e: Error) => void }>();
  private nextId = 1;

  private constructor(
    private readonly worker: Worker,
    /** The compiled module, for other workers. Fails if the worker does not start. */
    readonly module: Promise<WebAssembly.Module>,
  ) {}

  /** Starts a worker from the program and the packed module that the page contains. The worker unpacks it, so that this thread can build the page meanwhile. */
  static start(program: string, packed: string): Client {
    const { worker, ready } = startWorker<WebAssembly.Module>(program, Promise.resolve(packed));
    const client = new Client(worker, ready);
    const listen = () => {
      worker.onmessage = (event: MessageEvent<Reply>) => client.receive(event.data);
      worker.onerror = (event) => client.fail(new CoreFailure(event.message));
    };
    ready.then(listen, () => undefined);
    return client;
  }

  async call<N extends CallName>(call: N, of: Calls[N]["of"]): Promise<Calls[N]["gives"]> {
    await this.module;
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (v: never) => void, reject });
      this.worker.postMessage({ id, call, of });
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
