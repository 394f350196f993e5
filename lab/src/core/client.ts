/** The page's side of the worker: unpacks and compiles the module, and turns messages into promises. */

import { unpack } from "./lzma";
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

/** Starts a worker from a program and the module that is its first message; `ready` ends with its first answer. */
export function startWorker(program: string, module: WebAssembly.Module): { worker: Worker; ready: Promise<void> } {
  const address = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  const worker = new Worker(address);
  const ready = new Promise<void>((resolve, reject) => {
    worker.onmessage = () => {
      URL.revokeObjectURL(address);
      resolve();
    };
    worker.onerror = (event) => reject(new CoreFailure(event.message || "the worker did not start"));
    worker.postMessage(module);
  });
  return { worker, ready };
}

export class Client {
  private readonly waiting = new Map<number, { resolve: (v: never) => void; reject: (e: Error) => void }>();
  private nextId = 1;

  private constructor(private readonly worker: Worker) {
    worker.onmessage = (event: MessageEvent<Reply>) => this.receive(event.data);
    worker.onerror = (event) => this.fail(new CoreFailure(event.message));
  }

  /** Starts a worker from the program and the compressed module that the page contains. */
  static async start(program: string, module: WebAssembly.Module): Promise<Client> {
    const { worker, ready } = startWorker(program, module);
    await ready;
    return new Client(worker);
  }

  call<N extends CallName>(call: N, of: Calls[N]["of"]): Promise<Calls[N]["gives"]> {
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

/** Compiles the packed module from base64. */
export async function compile(text: string): Promise<WebAssembly.Module> {
  if (typeof WebAssembly !== "object") {
    throw new MissingFeature("This browser has no WebAssembly, which the simulator needs; use a current one.");
  }
  if (typeof DecompressionStream !== "function") {
    throw new MissingFeature("This browser has no DecompressionStream, which reads links to runs; use a current one.");
  }
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return WebAssembly.compile(unpack(packed));
}
