/** The list of the visitor's changes of links, each of which can be taken back. */

import type { Order } from "../core/types";
import { h } from "../dom";
import { count, timeText } from "../units";

/** A change in one line. */
export function orderText(order: Order): string {
  const side = order.direction === "both" ? "" : ` (${order.direction})`;
  const changes = Object.entries(order.set).map(([key, value]) =>
    key === "state" ? (value === "down" ? "cut" : "restored") : `${key} ${typeof value === "object" ? Object.values(value as object).join(" ") : String(value)}`,
  );
  return `${order.link}${side}: ${changes.join(", ")}`;
}

export class Orders {
  constructor(
    private readonly box: HTMLDetailsElement,
    private readonly remove: (index: number) => void,
  ) {}

  show(orders: Order[]): void {
    this.box.hidden = orders.length === 0;
    const items = orders.map((order, index) =>
      h(
        "li",
        {},
        h("b", {}, timeText(order.at_ns)),
        ` ${orderText(order)} `,
        h("button", { type: "button", class: "small", "aria-label": `Take back: ${orderText(order)}`, onclick: () => this.remove(index) }, "take back"),
      ),
    );
    const summary = h("summary", {}, `${count(orders.length, "change")} of links in this run`);
    this.box.replaceChildren(summary, h("ul", {}, ...items));
  }
}
