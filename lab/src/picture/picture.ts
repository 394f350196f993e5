/** The network as a picture: hosts, routers and links with their values; links are buttons. */

import type { Direction, DirectionSample, Link, Network, Sample } from "../core/types";
import { s, setText } from "../dom";
import { sum } from "../core/row";
import { bytesText, delayText, rateText } from "../units";
import { isDense, layout, neededHeight, pointAt, type Layout, type Route } from "./layout";
import { PacketLayer } from "./packets";

/** Up to this many links have a label each; of more, only those that are slower than most. */
const MAX_LABELLED_LINKS = 7;
/** Vertical distances of a link's name from its middle. */
const LABEL_ABOVE = -25;
const LABEL_BELOW = 22;
const QUEUE_WIDTH = 9;
const QUEUE_HEIGHT = 34;
/** Position of a queue on its link: near the sending end. */
const QUEUE_PLACE = 0.17;

interface Gauge {
  fill: SVGRectElement;
  group: SVGGElement;
}

interface Drawn {
  /** Name, values and losses, beside the button: its own name for screen readers has all of them. */
  label: SVGGElement;
  button: SVGGElement;
  values: SVGTextElement | null;
  losses: SVGTextElement | null;
  gauges: [Gauge, Gauge];
}

export class Picture {
  private readonly svg: SVGSVGElement;
  /** Nodes lie over the packets. */
  private readonly nodes: SVGSVGElement;
  private readonly packets: PacketLayer;
  private network: Network | null = null;
  private place: Layout | null = null;
  private drawn: Drawn[] = [];
  private selected: string | null = null;

  constructor(
    private readonly box: HTMLElement,
    private readonly select: (link: string) => void,
  ) {
    this.svg = s("svg", { class: "network", role: "group", "aria-label": "Network" });
    this.nodes = s("svg", { class: "network nodes", role: "group", "aria-label": "Nodes" });
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    box.append(this.svg, canvas, this.nodes);
    this.packets = new PacketLayer(canvas);
    new ResizeObserver(() => this.redraw()).observe(box);
  }

  /** The layers of the drawing, for export. */
  get layers(): SVGSVGElement[] {
    return [this.svg, this.nodes];
  }

  show(network: Network): void {
    const isSame = this.network !== null && shape(this.network) === shape(network);
    this.network = network;
    if (isSame && this.place !== null) this.updateLabels();
    else this.redraw();
  }

  mark(link: string | null): void {
    this.selected = link;
    this.drawn.forEach((drawn, index) => {
      drawn.button.classList.toggle("selected", this.network?.links[index]?.name === link);
    });
  }

  /** Shows queues, drops and packets of the present moment. */
  update(sample: Sample, packets: number[], lookOf: (flow: number, link: number) => number, isSlow: boolean): void {
    if (this.network === null || this.place === null) return;
    sample.links.forEach((link, index) => {
      const drawn = this.drawn[index];
      const shown = this.network!.links[index];
      if (drawn === undefined || shown === undefined) return;
      this.fill(drawn.gauges[0], shown.forward, link.forward);
      this.fill(drawn.gauges[1], shown.reverse, link.reverse);
      const lost = sum(link.forward.drops) + sum(link.reverse.drops);
      if (drawn.losses !== null) setText(drawn.losses, lost > 0 ? `${lost} dropped` : "");
    });
    this.packets.draw(this.place, this.network, sample, packets, lookOf, isSlow);
  }

  private fill(gauge: Gauge, direction: Direction, sample: DirectionSample): void {
    const share = Math.min(1, fillShare(direction, sample));
    gauge.group.classList.toggle("used", share > 0);
    gauge.fill.setAttribute("height", (share * (QUEUE_HEIGHT - 2)).toFixed(1));
    gauge.fill.classList.toggle("high", share > 0.9);
  }

  private redraw(): void {
    const width = this.box.clientWidth;
    if (this.network === null || width === 0) return;
    const network = this.network;
    this.box.style.minHeight = `${neededHeight(network)}px`;
    const height = this.box.clientHeight;
    this.place = layout(network, width, height);
    for (const layer of this.layers) {
      layer.setAttribute("viewBox", `0 0 ${width} ${height}`);
      layer.setAttribute("height", String(height));
      layer.setAttribute("width", String(width));
    }
    this.packets.resize(width, height);
    const labelled = labelledLinks(network);
    this.drawn = network.links.map((link, index) =>
      this.drawLink(link, this.place!.links[index]!, labelled.has(index)),
    );
    this.svg.replaceChildren(...this.drawn.map(({ button }) => button), ...this.drawn.map((drawn) => drawn.label));
    this.nodes.replaceChildren(...network.nodes.map((node) => this.drawNode(node.name, node.host, node.middlebox)));
    this.updateLabels();
    this.mark(this.selected);
  }

  private drawLink(link: Link, route: Route, isLabelled: boolean): Drawn {
    const path = `M${route.from.x},${route.from.y}Q${route.control.x},${route.control.y} ${route.to.x},${route.to.y}`;
    const line = s("path", { class: "line", d: path });
    const gauges: [Gauge, Gauge] = [this.gauge(route, QUEUE_PLACE, true), this.gauge(route, 1 - QUEUE_PLACE, false)];
    const middle = pointAt(route, 0.5);
    const isSteep = Math.abs(middle.dy) > 0.9 * Math.abs(middle.dx);
    const anchor = isSteep ? "start" : "middle";
    const at = isSteep ? { x: middle.x + 10, y: middle.y } : { x: middle.x, y: middle.y };
    const above = this.labelShift(middle, route);
    const shift = isSteep ? -4 : above;
    const label = (y: number, kind: string) => s("text", { x: at.x, y, class: kind, "text-anchor": anchor });
    const name = label(at.y + shift, "name");
    name.textContent = link.name;
    const values = label(at.y + shift + 13, "values");
    const losses = label(at.y + shift + (above > 0 || isSteep ? 27 : -13), "losses");
    const texts = isLabelled ? [name, values, losses] : [];
    const open = () => this.select(link.name);
    const button = s(
      "g",
      {
        class: "link",
        tabindex: 0,
        role: "button",
        onclick: open,
        onkeydown: (event) => {
          const key = (event as KeyboardEvent).key;
          if (key === "Enter" || key === " ") {
            event.preventDefault();
            event.stopPropagation();
            open();
          }
        },
      },
      s("path", { class: "hit", d: path }),
      line,
      gauges[0].group,
      gauges[1].group,
    );
    const group = s("g", { class: "label", "aria-hidden": "true", onclick: open }, ...texts);
    return { label: group, button, values: isLabelled ? values : null, losses: isLabelled ? losses : null, gauges };
  }

  /** Whether the texts of a link stand above or below it: where other links are farther away. */
  private labelShift(middle: { x: number; y: number }, own: Route): number {
    const clearance = (shift: number): number => {
      const centre = { x: middle.x, y: middle.y + shift + 6 };
      let nearest = Infinity;
      for (const route of this.place!.links) {
        if (route === own) continue;
        for (let share = 0; share <= 1; share += 0.05) {
          const point = pointAt(route, share);
          nearest = Math.min(nearest, Math.hypot(0.4 * (point.x - centre.x), point.y - centre.y));
        }
      }
      return nearest;
    };
    return clearance(LABEL_BELOW) > clearance(LABEL_ABOVE) + 4 ? LABEL_BELOW : LABEL_ABOVE;
  }

  /** A column that shows how full the queue of one end is, beside the line. */
  private gauge(route: Route, place: number, isForward: boolean): Gauge {
    const at = pointAt(route, place);
    const length = Math.max(1, Math.hypot(at.dx, at.dy));
    const side = isForward ? 1 : -1;
    const x = at.x + (-at.dy / length) * 0 - QUEUE_WIDTH / 2;
    const y = at.y - (side * at.dx >= 0 ? QUEUE_HEIGHT + 5 : -5);
    const fill = s("rect", { class: "fill", x: x + 1, y: y + 1, width: QUEUE_WIDTH - 2, height: 0 });
    // The column fills from its lower end.
    fill.setAttribute("transform", `rotate(180 ${x + QUEUE_WIDTH / 2} ${y + QUEUE_HEIGHT / 2})`);
    const frame = s("rect", { class: "frame", x, y, width: QUEUE_WIDTH, height: QUEUE_HEIGHT, rx: 2 });
    return { fill, group: s("g", { class: "queue" }, frame, fill) };
  }

  private drawNode(name: string, isHost: boolean, middlebox: string | null): SVGGElement {
    const { x, y } = this.place!.nodes.get(name)!;
    const shapeOf = isHost
      ? s("rect", { x: x - 15, y: y - 15, width: 30, height: 30, rx: 8 })
      : s("circle", { cx: x, cy: y, r: 11 });
    const icon = isHost
      ? s("path", { class: "icon", d: `M${x - 7},${y - 6}h14v9h-14zM${x - 4},${y + 7}h8` })
      : s("path", { class: "icon", d: `M${x - 5},${y}h10m-3,-3l3,3l-3,3m-4,-6l-3,3l3,3` });
    const { width } = this.place!;
    // In dense columns of hosts, names stand at the outer side.
    const isLeft = x < width / 2;
    const isBeside = isHost && isDense(this.network!);
    const text = isBeside
      ? s("text", { x: x + (isLeft ? -22 : 22), y: y + 4, "text-anchor": isLeft ? "end" : "start" })
      : s("text", { x, y: y + (isHost ? 30 : 26), "text-anchor": "middle" });
    text.textContent = middlebox === null ? name : `${name} (${middlebox})`;
    return s("g", { class: isHost ? "node host" : "node router" }, shapeOf, icon, text);
  }

  private updateLabels(): void {
    this.network!.links.forEach((link, index) => {
      const drawn = this.drawn[index]!;
      const isUp = link.forward.up && link.reverse.up;
      for (const part of [drawn.button, drawn.label]) part.classList.toggle("down", !isUp);
      if (drawn.values !== null) setText(drawn.values, isUp ? valuesText(link) : "cut");
      drawn.button.setAttribute("aria-label", describe(link));
    });
  }
}

function shape(network: Network): string {
  return JSON.stringify([network.nodes, network.links.map(({ name, ends }) => [name, ends]), network.flows.map((f) => [f.from, f.to])]);
}

/** Indexes of the links that have a label. */
function labelledLinks(network: Network): Set<number> {
  const all = network.links.map((_, index) => index);
  if (all.length <= MAX_LABELLED_LINKS) return new Set(all);
  const rates = network.links.map(({ forward, reverse }) => Math.min(forward.rate_bps ?? 0, reverse.rate_bps ?? 0));
  const slowest = Math.min(...rates);
  return new Set(all.filter((index) => rates[index]! <= 3 * slowest));
}

function valuesText(link: Link): string {
  const { forward, reverse } = link;
  const rate = rateText(forward.rate_bps);
  const back = rateText(reverse.rate_bps);
  const loss = forward.loss.model === "bernoulli" ? ` · ${Number((100 * (forward.loss.rate ?? 0)).toPrecision(3))} % loss` : "";
  return `${rate === back ? rate : `${rate} → ${back} ←`} · ${delayText(forward.delay_ns)}${loss}`;
}

/** A link in one sentence, for screen readers. */
export function describe(link: Link): string {
  const { forward } = link;
  const state = forward.up && link.reverse.up ? "" : ", cut";
  return (
    `Link ${link.name} between ${link.ends[0]} and ${link.ends[1]}${state}: ${rateText(forward.rate_bps)}, ` +
    `${delayText(forward.delay_ns)}, queue ${forward.queue.kind} of ${forward.queue.limit}. Opens its settings.`
  );
}

/** Share of its limit that a queue holds. */
export function fillShare(direction: Direction, sample: DirectionSample): number {
  if (direction.queue_limit_packets !== null) return sample.queue_packets / direction.queue_limit_packets;
  if (direction.queue_limit_bytes !== null) return sample.queue_bytes / direction.queue_limit_bytes;
  return 0;
}

/** The length of a queue in the unit of its limit. */
export function queueText(direction: Direction, sample: DirectionSample): string {
  if (direction.queue_limit_packets !== null) return `${sample.queue_packets} of ${direction.queue_limit_packets} packets`;
  return `${bytesText(sample.queue_bytes)} of ${direction.queue.limit}`;
}
