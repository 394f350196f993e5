/** Starts the page. */

import { App } from "./app";
import { Client, compile } from "./core/client";
import { byId } from "./dom";
import { Explaining } from "./explain/client";
import { visitOf, type Visit } from "./link";
import { showFault } from "./panels/fault";
import { isDark } from "./palette";

/** The scenario that the command put into the page; null if there is none. */
function given(): Visit | null {
  const value = JSON.parse(byId("given").textContent ?? "null") as { scenario: string; seed: number | null } | null;
  return value === null ? null : { scenario: value.scenario, seed: value.seed, orders: [] };
}

async function visit(): Promise<Visit | null> {
  const fragment = location.hash.slice(1);
  return fragment === "" ? given() : visitOf(fragment);
}

async function start(): Promise<void> {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  let module: WebAssembly.Module;
  try {
    module = await compile(byId("core").textContent ?? "");
  } catch (error) {
    showFault(error instanceof Error ? error.message : String(error));
    return;
  }
  const app = new App(await Client.start(WORKER, module), () => new Explaining(EXPLAINER, module));
  let wanted: Visit | null = null;
  try {
    wanted = await visit();
  } catch (error) {
    await app.start(null);
    showFault(error instanceof Error ? error.message : String(error));
    return;
  }
  await app.start(wanted);
}

void start();
