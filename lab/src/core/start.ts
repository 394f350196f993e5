/** Starts workers from programs that the page contains. */

export interface Started<T> {
  worker: Worker;
  /** The first message of the worker. Fails if the worker does not start. */
  ready: Promise<T>;
}

/** The worker of the run, and the core that is compiled for it. */
export interface StartedCore extends Started<"ready"> {
  module: Promise<WebAssembly.Module>;
}

/** Starts a worker with a program. */
export function startWorker<T>(program: string[]): Started<T> {
  const address = URL.createObjectURL(new Blob(program, { type: "text/javascript" }));
  const worker = new Worker(address);
  const ready = new Promise<T>((resolve, reject) => {
    worker.onmessage = (event: MessageEvent<T>) => {
      URL.revokeObjectURL(address);
      resolve(event.data);
    };
    worker.onerror = (event) => reject(new Error(event.message || "the worker did not start"));
  });
  return { worker, ready };
}
