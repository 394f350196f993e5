/** The settings of a link, which a visitor changes while the run goes on. */

import type { Direction, DirectionSample, Link, Network, Order, Sample } from "../core/types";
import { h, setText } from "../dom";
import { queueText } from "../picture/picture";
import { sum } from "../core/row";
import { tomlTime } from "../units";

type Side = Order["direction"];
type Change = Omit<Order, "at_ns">;

const RATE_UNITS = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]] as const;

/** A rate in the notation of scenarios. */
export function tomlRate(bps: number): string {
  const [factor, unit] = RATE_UNITS.find(([size]) => bps >= size) ?? [1, "bit/s"];
  return `${Number((bps / factor).toPrecision(12))} ${unit}`;
}

export class Inspector {
  private link: Link | null = null;
  private side: Side = "both";
  private readonly title = h("h2", { id: "inspector-title" });
  private readonly state = h("p", { class: "state" });
  private readonly problem = h("p", { class: "problem", role: "alert" });
  private readonly cut = h("button", { type: "button", class: "wide", onclick: () => this.toggle() });
  private readonly form: HTMLFormElement;
  private readonly fields: Record<"rate" | "delay" | "jitter" | "loss" | "kind" | "limit", HTMLInputElement | HTMLSelectElement>;
  private returnTo: HTMLElement | SVGElement | null = null;

  constructor(
    private readonly box: HTMLElement,
    private readonly order: (change: Change) => Promise<void>,
    private readonly closed: () => void,
  ) {
    const input = (name: string, example: string) => h("input", { name, autocomplete: "off", spellcheck: "false", placeholder: example });
    this.fields = {
      rate: input("rate", "10 Mbit/s"),
      delay: input("delay", "20 ms"),
      jitter: input("jitter", "0 ms"),
      loss: input("loss", "0.01"),
      kind: h("select", { name: "kind" }, ...["fifo", "red", "codel", "fq-codel"].map((kind) => h("option", {}, kind))),
      limit: input("limit", "100 packets"),
    };
    const side = h(
      "select",
      { name: "side", onchange: (event) => this.setSide((event.target as HTMLSelectElement).value as Side) },
      h("option", { value: "both" }, "both directions"),
      h("option", { value: "forward" }),
      h("option", { value: "reverse" }),
    );
    const row = (label: string, field: HTMLElement) => h("label", {}, h("span", {}, label), field);
    this.form = h(
      "form",
      { onsubmit: (event) => this.submit(event) },
      row("Change", side),
      row("Rate", this.fields.rate),
      row("Delay", this.fields.delay),
      row("Jitter", this.fields.jitter),
      row("Loss (share)", this.fields.loss),
      row("Queue", this.fields.kind),
      row("Queue limit", this.fields.limit),
      h("button", { type: "submit", class: "primary wide" }, "Apply now"),
    );
    const close = h("button", { type: "button", class: "close", "aria-label": "Close the settings of the link", onclick: () => this.close() }, "×");
    box.append(h("header", {}, this.title, close), this.state, this.cut, this.form, this.problem);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      event.stopPropagation();
    });
  }

  get isOpen(): boolean {
    return !this.box.hidden;
  }

  get linkName(): string | null {
    return this.isOpen ? (this.link?.name ?? null) : null;
  }

  open(link: Link): void {
    this.returnTo = document.activeElement as HTMLElement | SVGElement | null;
    this.link = link;
    this.side = "both";
    const [, forward, reverse] = this.form.elements.namedItem("side") instanceof HTMLSelectElement ? (this.form.elements.namedItem("side") as HTMLSelectElement).options : [];
    if (forward !== undefined && reverse !== undefined) {
      forward.textContent = `${link.ends[0]} → ${link.ends[1]}`;
      reverse.textContent = `${link.ends[1]} → ${link.ends[0]}`;
    }
    (this.form.elements.namedItem("side") as HTMLSelectElement).value = "both";
    setText(this.title, link.name);
    setText(this.problem, "");
    this.fill();
    this.box.hidden = false;
    this.cut.focus({ preventScroll: true });
  }

  close(): void {
    if (!this.isOpen) return;
    this.box.hidden = true;
    this.closed();
    this.returnTo?.focus();
  }

  /** Shows the values in force after a change. */
  refresh(network: Network): void {
    const link = network.links.find(({ name }) => name === this.link?.name);
    if (link === undefined) return this.close();
    this.link = link;
    if (!this.form.contains(document.activeElement)) this.fill();
    else setText(this.cut, this.isUp() ? "Cut the link" : "Restore the link");
  }

  /** Shows queues and drops of the present moment. */
  update(network: Network, sample: Sample): void {
    if (!this.isOpen || this.link === null) return;
    const index = network.links.findIndex(({ name }) => name === this.link!.name);
    const values = sample.links[index];
    if (values === undefined) return;
    const [from, to] = this.link.ends;
    const line = (a: string, b: string, direction: Direction, now: DirectionSample) =>
      `${a} → ${b}: queue ${queueText(direction, now)}, ${sum(now.drops)} dropped`;
    setText(this.state, `${line(from, to, this.link.forward, values.forward)}\n${line(to, from, this.link.reverse, values.reverse)}`);
  }

  private direction(): Direction {
    return this.side === "reverse" ? this.link!.reverse : this.link!.forward;
  }

  private isUp(): boolean {
    return this.link!.forward.up && this.link!.reverse.up;
  }

  private setSide(side: Side): void {
    this.side = side;
    this.fill();
  }

  private fill(): void {
    const direction = this.direction();
    this.fields.rate.value = direction.rate_bps === null ? "" : tomlRate(direction.rate_bps);
    this.fields.rate.disabled = direction.rate_bps === null;
    this.fields.delay.value = tomlTime(direction.delay_ns);
    this.fields.jitter.value = tomlTime(direction.jitter_ns);
    this.fields.loss.value = direction.loss.model === "bernoulli" ? String(direction.loss.rate ?? 0) : direction.loss.model === "none" ? "0" : direction.loss.model;
    this.fields.kind.value = direction.queue.kind;
    this.fields.limit.value = direction.queue.limit;
    setText(this.cut, this.isUp() ? "Cut the link" : "Restore the link");
    this.cut.classList.toggle("danger", this.isUp());
  }

  private toggle(): void {
    void this.send({ state: this.isUp() ? "down" : "up" }, "both");
  }

  private submit(event: Event): void {
    event.preventDefault();
    const set = this.changes();
    if (Object.keys(set).length > 0) void this.send(set, this.side);
  }

  /** The keys whose fields differ from the values in force. */
  private changes(): Record<string, unknown> {
    const direction = this.direction();
    const { rate, delay, jitter, loss, kind, limit } = this.fields;
    const set: Record<string, unknown> = {};
    if (direction.rate_bps !== null && rate.value !== tomlRate(direction.rate_bps)) set["rate"] = rate.value;
    if (delay.value !== tomlTime(direction.delay_ns)) set["delay"] = delay.value;
    if (jitter.value !== tomlTime(direction.jitter_ns)) set["jitter"] = jitter.value;
    const oldLoss = direction.loss.model === "bernoulli" ? String(direction.loss.rate ?? 0) : direction.loss.model === "none" ? "0" : direction.loss.model;
    if (loss.value !== oldLoss) set["loss"] = Number(loss.value) === 0 ? { model: "none" } : { model: "bernoulli", rate: Number(loss.value) };
    const queue: Record<string, string> = {};
    if (kind.value !== direction.queue.kind) queue["kind"] = kind.value;
    if (limit.value !== direction.queue.limit) queue["limit"] = limit.value;
    if (Object.keys(queue).length > 0) set["queue"] = queue;
    return set;
  }

  private async send(set: Record<string, unknown>, direction: Side): Promise<void> {
    setText(this.problem, "");
    try {
      await this.order({ link: this.link!.name, direction, set });
      this.fill();
    } catch (error) {
      setText(this.problem, error instanceof Error ? error.message : String(error));
    }
  }
}
