/** The dialog that explains why a flow is slow: progress, causes, and remedies to open. */

import { h, setText } from "../dom";
import type { Explanation, Finding, Question } from "../explain/explainer";
import type { Explaining } from "../explain/client";
import { count, digits } from "../units";

/** Seeds with which the best remedies run, and the time after which no run begins. */
const SEEDS = 5;
const TIME_LIMIT_S = 20;

/** The present run, for the question. */
export type Asked = Pick<Question, "scenario" | "seed" | "orders"> & { flows: string[] };

export interface WhyEvents {
  start(): Explaining;
  /** Opens the present run with a remedy. */
  open(scenario: string): Promise<void>;
}

export class Why {
  private readonly flow: HTMLSelectElement;
  private readonly aim = h("select", {}, h("option", { value: "goodput" }, "goodput or completion"), h("option", { value: "delay" }, "delay"));
  private readonly button = h("button", { type: "button", class: "primary", onclick: () => this.toggle() });
  private readonly bar = h("progress", { "aria-label": "Runs", max: 1, value: 0 });
  private readonly state = h("p", { role: "status" });
  private readonly found = h("div", {});
  private explaining: Explaining | null = null;
  private isRunning = false;

  constructor(
    private readonly asked: Asked,
    private readonly events: WhyEvents,
  ) {
    const names = asked.flows.map((name) => h("option", { value: name }, name));
    this.flow = h("select", {}, h("option", { value: "" }, "first with several paths"), ...names);
  }

  content(): HTMLElement {
    void this.explain();
    const choices = h("div", { class: "choices" }, h("label", {}, "Flow ", this.flow), h("label", {}, "Aim ", this.aim), this.button);
    const text = "Each remedy runs in this page on the same scenario, with your changes of links. Causes are ranked by the gain of their remedies.";
    return h("div", { class: "why" }, h("p", {}, text), choices, this.bar, this.state, this.found);
  }

  /** Ends the runs; to be called when the dialog closes. */
  end(): void {
    this.explaining?.end();
    this.explaining = null;
  }

  private toggle(): void {
    if (this.isRunning) this.end();
    else void this.explain();
  }

  private async explain(): Promise<void> {
    this.end();
    const explaining = this.events.start();
    this.explaining = explaining;
    this.show(true, "The scenario runs without a change.");
    this.found.replaceChildren();
    const { scenario, seed, orders } = this.asked;
    const question = { scenario, seed, orders, flow: this.flow.value || null, aim: this.aim.value as Question["aim"], reps: SEEDS, timeLimit_s: TIME_LIMIT_S };
    try {
      const explanation = await explaining.explain(question, (done, planned) => this.progress(done, planned));
      this.show(false, runsText(explanation));
      this.found.replaceChildren(...this.results(explanation));
    } catch (error) {
      this.show(false, error instanceof Error ? error.message : String(error));
    }
  }

  private progress(done: number, planned: number): void {
    [this.bar.max, this.bar.value] = [planned, done];
    // A screen reader hears every fifth run.
    if (done % 5 === 0) setText(this.state, `${done} of ${planned} runs so far.`);
  }

  private show(isRunning: boolean, text: string): void {
    this.isRunning = isRunning;
    this.bar.hidden = !isRunning;
    this.bar.removeAttribute("value");
    setText(this.button, isRunning ? "Cancel" : "Explain");
    setText(this.state, text);
  }

  private results(explanation: Explanation): HTMLElement[] {
    const findings = explanation.findings.map((finding, index) => this.item(finding, index + 1));
    const more = [...(explanation.others === null ? [] : [explanation.others]), ...explanation.notes];
    return [h("h3", {}, explanation.head), h("ol", {}, ...findings), ...more.map((text) => h("p", { class: "note" }, text))];
  }

  private item({ sentence, command, settings }: Finding, number: number): HTMLElement {
    if (settings.length === 0) return h("li", {}, h("p", {}, sentence));
    const [cause, gain] = around(sentence, command);
    const label = `Open beside this run: remedy ${number}`;
    const button = h("button", { type: "button", "aria-label": label, onclick: () => void this.open(settings) }, "Open beside this run");
    return h("li", {}, h("p", {}, cause, h("code", {}, command), gain), button);
  }

  private async open(settings: string[]): Promise<void> {
    try {
      await this.events.open(await this.explaining!.variant(settings));
    } catch (error) {
      setText(this.state, error instanceof Error ? error.message : String(error));
    }
  }
}

/** The parts of a sentence before and after the last mention of a text. */
function around(sentence: string, text: string): [string, string] {
  const at = sentence.lastIndexOf(text);
  return at < 0 ? [`${sentence} `, ""] : [sentence.slice(0, at), sentence.slice(at + text.length)];
}

function runsText({ runs, elapsed_s, leftOut }: Explanation): string {
  const text = `${count(runs, "run")} in ${digits(elapsed_s)} s.`;
  return leftOut === 0 ? text : `${text} The limit of ${TIME_LIMIT_S} s left out ${leftOut} remedies.`;
}
