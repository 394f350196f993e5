/** Starts the page. */

import { App } from "./app";
import { Client, requireFeatures } from "./core/client";
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

function fail(error: unknown): void {
  showFault(error instanceof Error ? error.message : String(error));
}

/** The worker with the core, which has been started; null in a browser that lacks a feature. */
function started(): Client | null {
  try {
    requireFeatures();
    return new Client(startedCore);
  } catch (error) {
    fail(error);
    return null;
  }
}

async function start(): Promise<void> {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  const client = started();
  if (client === null) return;
  const app = new App(client, () => new Explaining(EXPLAINER, client.module));
  let wanted: Visit | null = null;
  try {
    wanted = await visit();
  } catch (error) {
    await app.start(null);
    fail(error);
    return;
  }
  await app.start(wanted);
}

void start();
