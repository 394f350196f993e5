/** The mean goodputs of a run and of the kept one until the same time, and their differences. */

import { h } from "../dom";
import type { Store } from "../store";
import { digits } from "../units";

const MEGA = 1e6;

export class Difference {
  private text = "";

  constructor(private readonly box: HTMLElement) {}

  show(store: Store, kept: Store | null): void {
    this.box.hidden = kept === null || kept === store;
    if (kept === null || kept === store) return;
    const time_s = Math.min(store.time_s.at(-1) ?? 0, kept.time_s.at(-1) ?? 0);
    const rows = [...new Set([...store.flows, ...kept.flows].map(({ name }) => name))].map((name) => row(name, goodput_bps(store, name, time_s), goodput_bps(kept, name, time_s)));
    const text = JSON.stringify([time_s.toFixed(2), rows]);
    if (text === this.text) return;
    this.text = text;
    const head = ["Flow", "This run, Mbit/s", "Kept run, Mbit/s", "Difference"].map((title) => h("th", { scope: "col" }, title));
    const body = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name!), ...cells.map((cell) => h("td", {}, cell))));
    const caption = h("caption", {}, `Mean goodput from 0 to ${time_s.toFixed(2)} s`);
    this.box.replaceChildren(h("table", {}, caption, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)));
  }
}

/** Mean goodput of a flow from the start until a time; null if the run has no such flow, or at time 0. */
function goodput_bps(store: Store, name: string, time_s: number): number | null {
  const flow = store.flows.find((candidate) => candidate.name === name);
  const at = store.indexBefore(time_s);
  const elapsed_s = store.time_s[at] ?? 0;
  return flow === undefined || elapsed_s === 0 ? null : (8 * (flow.delivered_bytes[at] ?? 0)) / elapsed_s;
}

function row(name: string, now: number | null, kept: number | null): string[] {
  const rates = [now, kept].map((rate) => (rate === null ? "–" : (rate / MEGA).toFixed(2)));
  return [name, ...rates, now === null || kept === null ? "–" : differenceText(now, kept)];
}

function differenceText(now: number, kept: number): string {
  const change = now - kept;
  const amount = (Math.abs(change) / MEGA).toFixed(2);
  const sign = Number(amount) === 0 ? "" : change < 0 ? "−" : "+";
  const share = kept > 0 && sign !== "" ? ` (${sign}${digits(Math.abs((100 * change) / kept))} %)` : "";
  return `${sign}${amount}${share}`;
}
