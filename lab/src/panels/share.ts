/** The dialog that saves and shares a run. */

import { h } from "../dom";

export interface ShareEvents {
  copyLink(): Promise<string>;
  saveScenario(): Promise<void>;
  saveCsv(): void;
  savePicture(): Promise<void>;
  saveResult(): Promise<void>;
  openFile(file: File): Promise<void>;
}

export function shareDialog(events: ShareEvents): HTMLElement {
  const address = h("input", { readonly: true, "aria-label": "Link to this run", placeholder: "the link appears here" });
  const copy = async () => {
    address.value = await events.copyLink();
    address.select();
    try {
      await navigator.clipboard.writeText(address.value);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy it from here";
    }
  };
  const button = h("button", { type: "button", class: "primary", onclick: () => void copy() }, "Copy a link");
  const file = h("input", {
    type: "file",
    accept: ".toml,text/plain",
    hidden: true,
    onchange: (event) => {
      const chosen = (event.target as HTMLInputElement).files?.[0];
      if (chosen !== undefined) void events.openFile(chosen);
    },
  });
  const row = (control: HTMLElement, text: string, extra: HTMLElement | null = null) =>
    h("div", {}, control, h("div", {}, extra, h("p", {}, text)));
  const act = (label: string, run: () => unknown) => h("button", { type: "button", onclick: () => void run() }, label);
  return h(
    "div",
    { class: "actions" },
    row(button, "Scenario, seed and your changes of links are in the link itself. It opens the same run.", address),
    row(act("Save the scenario", () => events.saveScenario()), "One TOML file with your changes as events; anabranch run repeats the run with the same digest."),
    row(act("Save all data", () => events.saveCsv()), "All samples of all charts as CSV. Each chart also has its own CSV, SVG and PNG."),
    row(act("Save the network", () => events.savePicture()), "The picture of the network as SVG."),
    row(act("Save the result", () => events.saveResult()), "The result document, as anabranch run --json prints it; at the end of the run."),
    row(act("Open a scenario", () => file.click()), "A TOML file from this computer.", file),
  );
}
