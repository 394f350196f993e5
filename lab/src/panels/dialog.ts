/** The modal dialog of the page. */

import { byId, h, setText } from "../dom";

export function openDialog(title: string, content: HTMLElement): void {
  setText(byId("dialog-title"), title);
  byId("dialog-body").replaceChildren(content);
  byId<HTMLDialogElement>("dialog").showModal();
}

export function closeDialog(): void {
  byId<HTMLDialogElement>("dialog").close();
}

export function prepareDialog(): void {
  const dialog = byId<HTMLDialogElement>("dialog");
  byId("dialog-close").addEventListener("click", closeDialog);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) closeDialog();
  });
}

const KEYS: readonly (readonly [string, string])[] = [
  ["space", "play or pause"],
  [".", "a step of 1 ms"],
  ["r", "restart"],
  ["[ and ]", "slower and faster"],
  ["k", "keep this run to compare later ones with it, or drop it"],
  ["w", "explain why a flow is slow"],
  ["l", "lessons"],
  ["Enter on a link", "cut it, or change its rate, delay, loss and queue"],
  ["← → on a chart", "move the cursor of all charts"],
  ["+ − 0 on a chart", "zoom in, zoom out, whole run"],
  ["Ctrl Enter in the text", "run the scenario"],
  ["Ctrl Space in the text", "complete a key or a value"],
];

export function helpContent(): HTMLElement {
  const keys = KEYS.flatMap(([key, meaning]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)]);
  return h(
    "div",
    {},
    h("dl", { class: "keys" }, ...keys),
    h("p", {}, "Drag over a chart to zoom; a double click shows the whole run. The time slider goes back by running the same scenario again, which gives the same packets: equal scenario, seed and changes give equal runs."),
    h("p", {}, "In the picture, bars are packets with data and dots are acknowledgements; the column beside a link shows how full its queue is; a falling cross is a dropped packet."),
  );
}
