/** All charts of the page with their shared part of the run, legend and hidden paths. */

import { h, setText } from "../dom";
import { look } from "../palette";
import { pathLabel, type Store } from "../store";
import { rateText } from "../units";
import { Chart, type View } from "./chart";
import { Kept } from "./kept";
import { KINDS } from "./kinds";

/** Factor by which the right edge grows while a whole run is shown, so that the axes seldom change. */
const GROWTH = 1.25;
const MIN_VIEW_S = 0.5;

/** Part of the run to show: a fixed part, all of it, or the last seconds. */
export type Span = View | "whole" | number;

export class Charts {
  readonly charts: Chart[];
  private store: Store | null = null;
  private span: Span = "whole";
  private readonly hidden = new Set<number>();
  private chips: { button: HTMLButtonElement; value: HTMLElement }[] = [];
  private end_s = 0;
  private legendKey = "";
  private isDescribed = true;
  private kept: Kept | null = null;

  constructor(
    box: HTMLElement,
    private readonly legend: HTMLElement,
    private readonly onSpan: (span: Span) => void,
    fileName: () => string,
  ) {
    const shared = { zoom: (view: View | null) => this.show(view ?? "whole"), fileName };
    this.charts = KINDS.map((kind) => new Chart(kind, shared));
    box.append(...this.charts.map((chart) => chart.element));
  }

  /** Takes another run, which the next drawing shows. */
  open(store: Store, end_s: number): void {
    this.store = store;
    this.end_s = end_s;
    this.legendKey = "";
    if (typeof this.span === "object") this.span = "whole";
    this.onSpan(this.span);
    this.isDescribed = false;
  }

  /** The run that stands behind the present one; null if none is kept. */
  get keptRun(): Store | null {
    return this.kept?.run ?? null;
  }

  /** Keeps the present run behind later ones, or drops the kept one. */
  toggleKept(): void {
    this.kept = this.kept === null && this.store !== null ? new Kept(this.store) : null;
    this.draw();
    this.describe();
  }

  show(span: Span): void {
    this.span = span;
    this.onSpan(span);
    this.draw();
    this.describe();
  }

  draw(): void {
    if (this.store === null) return;
    this.drawLegend(this.store);
    const view = this.view(this.store);
    for (const chart of this.charts) chart.draw(this.store, view, this.hidden, this.kept);
    if (!this.isDescribed) this.describe();
  }

  describe(): void {
    this.isDescribed = true;
    for (const chart of this.charts) chart.describe();
  }

  restyle(): void {
    this.legendKey = "";
    if (this.store !== null) this.drawLegend(this.store);
    for (const chart of this.charts) chart.restyle();
  }

  private view(store: Store): View {
    const now = store.time_s.at(-1) ?? 0;
    if (typeof this.span === "object") return this.span;
    if (typeof this.span === "number") return { from_s: Math.max(0, now - this.span), to_s: Math.max(now, this.span) };
    let to = MIN_VIEW_S;
    while (to < now) to *= GROWTH;
    return { from_s: 0, to_s: Math.min(to, Math.max(this.end_s, MIN_VIEW_S)) };
  }

  private drawLegend(store: Store): void {
    const labels = store.paths.map((path) => pathLabel(store, path));
    const key = labels.join("\n");
    if (key !== this.legendKey) {
      this.legendKey = key;
      this.chips = store.paths.map((path, index) => {
        const { colour, dash } = look(path.look);
        const mark = h("i", { class: dash.length > 0 ? "dashed" : "" });
        mark.style.setProperty("--line", colour);
        const value = h("span", { class: "value" });
        const button = h(
          "button",
          { type: "button", class: "chip", "aria-pressed": !this.hidden.has(path.look) ? "true" : "false", title: "Show or hide this path", onclick: () => this.toggle(path.look) },
          mark,
          h("span", {}, labels[index]!),
          value,
        );
        return { button, value };
      });
      this.legend.replaceChildren(...this.chips.map(({ button }) => button));
    }
    store.paths.forEach((path, index) => setText(this.chips[index]!.value, rateText(Math.round(path.goodput_bps.at(-1) ?? 0))));
  }

  private toggle(path: number): void {
    if (this.hidden.has(path)) this.hidden.delete(path);
    else this.hidden.add(path);
    this.chips.forEach(({ button }, index) => {
      button.setAttribute("aria-pressed", this.hidden.has(this.store!.paths[index]!.look) ? "false" : "true");
    });
    this.draw();
  }
}
