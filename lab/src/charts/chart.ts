/** One chart: a figure with heading, canvas, sentence, table of its data and buttons for its files. */

import uPlot from "uplot";
import { csvOf } from "../files/csv";
import { chartSvg } from "../files/chart-svg";
import { png } from "../files/png";
import { h, save, setText } from "../dom";
import { tone } from "../palette";
import type { Store } from "../store";
import { digits } from "../units";
import type { Kept } from "./kept";
import { sentence, type Kind, type Line } from "./kinds";
import { indexes, thinned } from "./thin";

const HEIGHT = 168;
const MAX_POINTS = 1000;
const TABLE_ROWS = 20;
const AXIS_WIDTH = 46;

export interface View {
  from_s: number;
  to_s: number;
}

export interface Shared {
  /** Called with the part of the run that a visitor selected; null is the whole run. */
  zoom(view: View | null): void;
  /** Name of files that the page saves. */
  fileName(): string;
}

export class Chart {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private lines: Line[] = [];
  private series = "";
  private store: Store | null = null;
  private view: View = { from_s: 0, to_s: 1 };
  private hidden: ReadonlySet<number> = new Set();
  private kept: Kept | null = null;
  private readonly canvasBox = h("div", { class: "plot", "aria-hidden": "true" });
  private readonly sentence = h("figcaption", { class: "visually-hidden" });
  private readonly readout = h("div", { class: "readout", "aria-hidden": "true" });
  private readonly legend = h("div", { class: "legend", "aria-hidden": "true" });
  private readonly table = h("details", { class: "table" }, h("summary", {}, "Data table"));
  private readonly frame: HTMLElement;
  private readonly about = h("p", { class: "about" });
  /** Charts outside the window of the browser are drawn when they come into it. */
  private isVisible = true;

  constructor(
    readonly kind: Kind,
    private readonly shared: Shared,
  ) {
    this.frame = h(
      "div",
      {
        class: "frame",
        tabindex: 0,
        role: "group",
        "aria-label": `${kind.title}: arrow keys move the cursor, + and − zoom, 0 shows the whole run`,
        onkeydown: (event) => this.key(event as KeyboardEvent),
      },
      this.canvasBox,
      this.readout,
    );
    const button = (text: string, label: string, act: () => void) =>
      h("button", { type: "button", class: "small", "aria-label": label, onclick: act }, text);
    this.element = h(
      "figure",
      { class: "chart", id: `chart-${kind.id}` },
      h(
        "header",
        {},
        h("h3", {}, kind.title, h("span", { class: "unit" }, ` ${kind.unit}`)),
        this.about,
        this.legend,
      ),
      this.frame,
      this.sentence,
      h(
        "div",
        { class: "under" },
        this.table,
        h(
          "div",
          { class: "files" },
          button("CSV", `Save ${kind.title} as CSV`, () => this.saveCsv()),
          button("SVG", `Save ${kind.title} as SVG`, () => this.saveSvg()),
          button("PNG", `Save ${kind.title} as PNG`, () => void this.savePng()),
        ),
      ),
    );
    this.table.addEventListener("toggle", () => this.fillTable());
    new ResizeObserver(() => this.resize()).observe(this.canvasBox);
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry?.isIntersecting ?? true;
      if (this.isVisible && this.store !== null) this.draw(this.store, this.view, this.hidden, this.kept);
    }).observe(this.element);
  }

  /** Draws the part of a run that `view` selects, before a kept run. */
  draw(store: Store, view: View, hidden: ReadonlySet<number>, kept: Kept | null): void {
    this.store = store;
    this.kept = kept;
    this.view = view;
    this.hidden = hidden;
    setText(this.about, this.kind.about(store));
    if (!this.isVisible) return;
    const lines = this.linesOf(store);
    const key = JSON.stringify(lines.map(({ label, colour, dash, width }) => [label, colour, dash, width]));
    this.lines = lines;
    if (this.plot === null || key !== this.series) {
      this.series = key;
      this.create();
    }
    const plot = this.plot;
    if (plot === null) return;
    lines.forEach((line, index) => {
      const isShown = line.path === null || !hidden.has(line.path);
      if (plot.series[index + 1]!.show !== isShown) plot.setSeries(index + 1, { show: isShown });
    });
    const shown = this.data();
    plot.batch(() => {
      plot.setData(shown, false);
      plot.setScale("x", { min: view.from_s, max: view.to_s });
    });
  }

  /** Writes the sentence, and the table if it is open. */
  describe(): void {
    if (this.store === null) return;
    this.lines = this.linesOf(this.store);
    setText(this.sentence, sentence(this.kind, this.store));
    this.fillTable();
  }

  /** Makes the chart again, after a change of colours. */
  restyle(): void {
    this.series = "";
    if (this.store !== null) this.draw(this.store, this.view, this.hidden, this.kept);
  }

  private linesOf(store: Store): Line[] {
    return [...(this.kept?.lines(this.kind, store) ?? []), ...this.kind.lines(store)];
  }

  private data(): uPlot.AlignedData {
    const store = this.store!;
    const range = { from: store.indexBefore(this.view.from_s), to: Math.min(store.length - 1, store.indexBefore(this.view.to_s) + 1) };
    const at = indexes(range, Math.min(MAX_POINTS, Math.max(200, 1.5 * this.canvasBox.clientWidth)));
    const columns = this.lines.map((line) => thinned(line.values, at, line.factor));
    return [at.map((index) => store.time_s[index]!), ...columns] as uPlot.AlignedData;
  }

  private create(): void {
    this.plot?.destroy();
    this.plot = null;
    this.drawLegend();
    const width = this.canvasBox.clientWidth;
    if (width === 0 || this.store === null) return;
    const axis = { stroke: tone("muted"), grid: { stroke: tone("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options: uPlot.Options = {
      width,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 16, 0, 0],
      cursor: {
        sync: { key: "anabranch" },
        y: false,
        points: { size: 5 },
        drag: { x: true, y: false, setScale: false },
      },
      scales: { x: { time: false }, y: { range: (_plot, low, high) => [Math.min(0, low ?? 0), high === null || high <= 0 ? 1 : 1.08 * high] } },
      axes: [
        { ...axis, size: 24, values: (_plot, values) => values.map((value) => `${Number(value.toPrecision(6))} s`), space: 70 },
        { ...axis, size: AXIS_WIDTH, values: (_plot, values) => values.map((value) => digits(value)), space: 32 },
      ],
      series: [
        {},
        ...this.lines.map((line) => ({
          label: line.label,
          stroke: line.colour,
          width: line.width,
          dash: line.dash,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: {
        setSelect: [(plot) => this.select(plot)],
        setCursor: [(plot) => this.read(plot)],
      },
    };
    this.plot = new uPlot(options, this.data(), this.canvasBox);
    this.plot.over.addEventListener("dblclick", () => this.shared.zoom(null));
  }

  /** Names of the series, if they are not those of the paths, which the page lists once. */
  private drawLegend(): void {
    const own = this.lines.filter((line) => line.path === null);
    this.legend.replaceChildren(
      ...own.map((line) => {
        const mark = h("i", {});
        mark.style.background = line.colour;
        return h("span", {}, mark, line.label);
      }),
    );
  }

  private resize(): void {
    const width = this.canvasBox.clientWidth;
    if (width === 0) return;
    if (this.plot !== null) this.plot.setSize({ width, height: HEIGHT });
    else if (this.store !== null) this.restyle();
  }

  private select(plot: uPlot): void {
    if (plot.select.width < 4) return;
    const from_s = plot.posToVal(plot.select.left, "x");
    const to_s = plot.posToVal(plot.select.left + plot.select.width, "x");
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.shared.zoom({ from_s: Math.max(0, from_s), to_s });
  }

  /** Shows the values at the cursor. */
  private read(plot: uPlot): void {
    const at = plot.cursor.idx;
    const isHere = this.canvasBox.matches(":hover") || this.frame === document.activeElement;
    if (at === null || at === undefined || !isHere) {
      this.readout.replaceChildren();
      return;
    }
    const time = plot.data[0][at]!;
    const rows = this.lines.flatMap((line, index) => {
      const value = plot.data[index + 1]?.[at];
      if (value === null || value === undefined || !plot.series[index + 1]!.show || line.label.startsWith("ssthresh")) return [];
      const mark = h("i", {});
      mark.style.background = line.colour;
      return [h("div", {}, mark, `${line.label} `, h("b", {}, digits(value)))];
    });
    this.readout.replaceChildren(h("div", {}, `${time.toFixed(3)} s`), ...rows.slice(-12));
    const isRight = (plot.cursor.left ?? 0) > plot.over.clientWidth / 2;
    this.readout.classList.toggle("left", isRight);
  }

  private key(event: KeyboardEvent): void {
    const plot = this.plot;
    if (plot === null) return;
    const { from_s, to_s } = this.view;
    const middle = (from_s + to_s) / 2;
    const zoomTo = (factor: number) =>
      this.shared.zoom({ from_s: Math.max(0, middle - ((to_s - from_s) * factor) / 2), to_s: middle + ((to_s - from_s) * factor) / 2 });
    const move = (pixels: number) => {
      const left = Math.min(plot.over.clientWidth - 1, Math.max(0, (plot.cursor.left ?? 0) + pixels));
      plot.setCursor({ left, top: 10 }, true);
    };
    const actions: Record<string, () => void> = {
      ArrowLeft: () => move(event.shiftKey ? -40 : -6),
      ArrowRight: () => move(event.shiftKey ? 40 : 6),
      "+": () => zoomTo(0.5),
      "-": () => zoomTo(2),
      "0": () => this.shared.zoom(null),
    };
    const act = actions[event.key];
    if (act === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  private fillTable(): void {
    if (!this.table.open || this.store === null) return;
    const store = this.store;
    const [first, last] = [store.indexBefore(this.view.from_s), store.indexBefore(this.view.to_s)];
    const rows = Math.min(TABLE_ROWS, last - first + 1);
    const at = Array.from({ length: rows }, (_, row) => Math.round(first + (row * (last - first)) / Math.max(1, rows - 1)));
    const head = h("tr", {}, h("th", { scope: "col" }, "Time in s"), ...this.lines.map((line) => h("th", { scope: "col" }, `${line.label}, ${this.kind.unit}`)));
    const body = at.map((index) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, store.time_s[index]!.toFixed(3)),
        ...this.lines.map((line) => {
          const value = line.values[index];
          return h("td", {}, value === null || value === undefined ? "–" : digits(value * line.factor));
        }),
      ),
    );
    const table = h("table", {}, h("caption", {}, `${this.kind.title}, ${rows} of ${store.length} samples`), h("thead", {}, head), h("tbody", {}, ...body));
    const box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${this.kind.title} as a table` }, table);
    this.table.replaceChildren(this.table.firstElementChild!, box);
  }

  private saveCsv(): void {
    if (this.store !== null) save(`${this.shared.fileName()}-${this.kind.id}.csv`, csvOf(this.store, this.lines, this.kind.unit), "text/csv");
  }

  private svgText(): string {
    const shown = this.lines.filter((line) => line.path === null || !this.hidden.has(line.path));
    return chartSvg(this.kind, this.store!, shown, this.view);
  }

  private saveSvg(): void {
    if (this.store !== null) save(`${this.shared.fileName()}-${this.kind.id}.svg`, this.svgText(), "image/svg+xml");
  }

  private async savePng(): Promise<void> {
    if (this.store !== null) save(`${this.shared.fileName()}-${this.kind.id}.png`, await png(this.svgText()));
  }
}
