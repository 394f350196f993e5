/** Packets on the links, drawn over the picture of the network. */

import type { Network, Sample } from "../core/types";
import { isDark, look, tone } from "../palette";
import { sum } from "../core/row";
import { pointAt, type Layout, type Route } from "./layout";

/** Numbers for each packet in the core's list. */
const FIELDS = 6;
/** Packets of at most this many bytes are drawn as acknowledgements. */
const MAX_ACK_BYTES = 120;
/** Distance of the two directions from the middle of a link. */
const LANE_GAP = 4.5;
const PACKET_LENGTH = 9;
/** On narrower pictures packets are shorter. */
const NARROW_WIDTH = 560;
/** Packets nearer than this to the ends of a link are hidden by its nodes. */
const NODE_RADIUS = 15;
const DROP_FALL_MS = 700;
/** Marks of one link end follow each other at least at this distance. */
const DROP_GAP_MS = 160;

interface Falling {
  x: number;
  y: number;
  begin_ms: number;
}

export class PacketLayer {
  private readonly context: CanvasRenderingContext2D;
  private width = 0;
  private height = 0;
  private readonly drops = new Map<number, number>();
  private readonly lastFall_ms = new Map<number, number>();
  private falling: Falling[] = [];
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  resize(width: number, height: number): void {
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  draw(
    place: Layout,
    network: Network,
    sample: Sample,
    packets: number[],
    lookOf: (flow: number, link: number) => number,
    isSlow: boolean,
  ): void {
    const context = this.context;
    context.clearRect(0, 0, this.width, this.height);
    context.lineCap = "round";
    context.globalAlpha = isSlow ? 1 : 0.55;
    const other = tone("muted");
    const isDarkNow = isDark();
    const colours = new Map<number, string>();
    const colourOf = (flow: number, link: number): string => {
      const key = flow * network.links.length + link;
      let colour = colours.get(key);
      if (colour === undefined) {
        colour = look(lookOf(flow, link), isDarkNow).colour;
        colours.set(key, colour);
      }
      return colour;
    };
    for (let at = 0; at + FIELDS <= packets.length; at += FIELDS) {
      const along = packets[at + 4]!;
      const route = place.links[packets[at]!];
      if (along < 0 || route === undefined) continue;
      const flow = packets[at + 2]!;
      const colour = flow < 0 ? other : colourOf(flow, packets[at]!);
      this.drawPacket(route, packets[at + 1] === 1, along, packets[at + 5]!, colour, network.links.length);
    }
    context.globalAlpha = 1;
    this.noteDrops(place, sample);
    this.drawFalling();
  }

  private drawPacket(route: Route, isReverse: boolean, along: number, bytes: number, colour: string, links: number): void {
    const context = this.context;
    const length = Math.hypot(route.to.x - route.from.x, route.to.y - route.from.y);
    const edge = Math.min(0.3, NODE_RADIUS / Math.max(1, length));
    const share = edge + (1 - 2 * edge) * along;
    const at = pointAt(route, isReverse ? 1 - share : share);
    const size = Math.max(1, Math.hypot(at.dx, at.dy));
    const sign = isReverse ? -1 : 1;
    const [ux, uy] = [(sign * at.dx) / size, (sign * at.dy) / size];
    const [x, y] = [at.x - uy * LANE_GAP, at.y + ux * LANE_GAP];
    context.strokeStyle = colour;
    context.fillStyle = colour;
    if (bytes <= MAX_ACK_BYTES) {
      context.beginPath();
      context.arc(x, y, 1.7, 0, 7);
      context.fill();
      return;
    }
    context.lineWidth = links > 14 || this.width < NARROW_WIDTH ? 4 : 5.5;
    context.beginPath();
    const packet = this.width < NARROW_WIDTH ? PACKET_LENGTH / 2 : PACKET_LENGTH;
    context.moveTo(x - ux * packet, y - uy * packet);
    context.lineTo(x, y);
    context.stroke();
  }

  /** Lets a mark fall from each link end that has dropped a packet since the last picture. */
  private noteDrops(place: Layout, sample: Sample): void {
    sample.links.forEach((link, index) => {
      for (const [reverse, direction] of [link.forward, link.reverse].entries()) {
        const key = 2 * index + reverse;
        const dropped = sum(direction.drops);
        const before = this.drops.get(key);
        this.drops.set(key, dropped);
        if (before === undefined || dropped <= before || this.calm.matches) continue;
        const now = performance.now();
        if (now - (this.lastFall_ms.get(key) ?? -Infinity) < DROP_GAP_MS) continue;
        this.lastFall_ms.set(key, now);
        const { x, y } = pointAt(place.links[index]!, reverse === 1 ? 0.86 : 0.14);
        this.falling.push({ x, y, begin_ms: now });
      }
    });
    this.falling = this.falling.slice(-40);
  }

  private drawFalling(): void {
    const now = performance.now();
    this.falling = this.falling.filter(({ begin_ms }) => now - begin_ms < DROP_FALL_MS);
    this.context.strokeStyle = tone("alarm");
    this.context.lineWidth = 2;
    for (const { x, y, begin_ms } of this.falling) {
      const share = (now - begin_ms) / DROP_FALL_MS;
      this.context.globalAlpha = 1 - share;
      const top = y + 6 + 26 * share * share;
      this.context.beginPath();
      this.context.moveTo(x - 4, top - 4);
      this.context.lineTo(x + 4, top + 4);
      this.context.moveTo(x + 4, top - 4);
      this.context.lineTo(x - 4, top + 4);
      this.context.stroke();
    }
    this.context.globalAlpha = 1;
  }
}
