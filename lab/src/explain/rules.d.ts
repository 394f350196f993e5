/** The rules of `anabranch explain`, translated from Python by `lab/rules`. */
declare module "rules" {
  import type { Any } from "./containers";

  export class Options {
    constructor(flow: string | null, aim: string, seed: number | null, reps: number, jobs: number, timeLimit_s: number);
  }
  export function explain(scenario: { text: string; file: string; overrides: string[] }, options: Options): Any;
  export function head(explanation: Any): string;
  export function summary_of_others(others: Any[]): string;
  export function smallest_coverage(kind: string, count: number): number;
}
