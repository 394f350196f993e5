/** Starts the worker of the run and compiles the core, before the browser reads the rest of the page. */

import { startWorker } from "./core/start";
import { unpack, unpacker } from "./core/unpack";

/** The core is unpacked here, because a worker takes as long to start: both go on at the same time. */
async function compiled(text: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(unpack(await unpacker(UNPACKER), text));
}

const started = startWorker<"ready">([WORKER]);
const module = compiled(document.getElementById("core")!.textContent!).then((core) => {
  started.worker.postMessage(core);
  return core;
});
globalThis.startedCore = { ...started, module };
// `main.ts` reports failures.
module.catch(() => undefined);
started.ready.catch(() => undefined);
