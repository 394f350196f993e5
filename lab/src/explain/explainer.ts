/** Explains a run of the page: the rules with the core that runs the variants. */

import type { Core } from "../core/abi";
import { Session } from "../core/session";
import type { Order } from "../core/types";
import { toJson, type Any } from "./containers";
import { use } from "./host";
import { explain, head, Options, smallest_coverage, summary_of_others } from "rules";

/** The run to explain. Orders that a visitor gave count as events of the scenario. */
export interface Question {
  scenario: string;
  seed: number | null;
  orders: Order[];
  /** Name of a flow; the rules choose one if null. */
  flow: string | null;
  aim: "goodput" | "delay";
  reps: number;
  timeLimit_s: number;
}

export interface Finding {
  /** Cause, remedy and gain. */
  sentence: string;
  /** The remedy as options of the command line; empty if there is nothing to mend. */
  command: string;
  settings: string[];
}

export interface Explanation {
  /** The flow and its present number. */
  head: string;
  findings: Finding[];
  /** Remedies that gain little; null if there are none. */
  others: string | null;
  notes: string[];
  runs: number;
  leftOut: number;
  elapsed_s: number;
  /** All numbers, with the keys of `anabranch explain --json`. */
  document: Any;
}

export class Explainer {
  /** The scenario of the last question with its orders, and its seed. */
  private scenario = "";
  private seed: number | null = null;

  constructor(private readonly core: Core) {}

  explain(question: Question, progress: (done: number, planned: number) => void): Explanation {
    use({ core: this.core, progress, coverage: smallest_coverage });
    this.prepare(question);
    const { flow, aim, reps, timeLimit_s } = question;
    const options = new Options(flow, aim, this.seed, reps, 1, timeLimit_s);
    const found = explain({ text: this.scenario, file: "scenario", overrides: [] }, options);
    return {
      head: head(found),
      findings: found.findings.map(({ sentence, command, settings }: Finding) => ({ sentence, command, settings })),
      others: found.others.length > 0 ? summary_of_others(found.others) : null,
      notes: found.notes,
      runs: found.runs,
      leftOut: found.left_out,
      elapsed_s: found.elapsed_s,
      document: toJson(found.document()),
    };
  }

  /** The scenario with settings, as text. */
  variant(settings: string[]): string {
    this.core.openVariant(this.scenario, settings, this.seed);
    const text = this.core.scenario();
    this.core.close();
    return text;
  }

  private prepare({ scenario, seed, orders }: Question): void {
    [this.scenario, this.seed] = [scenario, seed];
    if (orders.length === 0) return;
    const session = new Session(this.core);
    session.open(scenario, seed, orders, null);
    session.advance(Math.max(...orders.map((order) => order.at_ns)), Infinity, false);
    // The text contains the seed, and the orders as events.
    [this.scenario, this.seed] = [this.core.scenario(), null];
    this.core.close();
  }
}
