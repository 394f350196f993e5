/** Starts the worker with the core, before the browser reads the rest of the page. */

import { startWorker } from "./core/start";

// The core is a part of the program, because messages to a worker wait for pauses of the page.
const core = document.getElementById("core")!.textContent!;
globalThis.startedCore = startWorker([WORKER, `unpackCore("${core}")`]);
// `main.ts` reports a failure.
startedCore.ready.catch(() => undefined);
