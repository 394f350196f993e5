/**
 * The functions that the rules of explanations need from the page instead of the package (`HOSTS` in `lab/rules`): runs by
 * the core, and arithmetic that libraries do in Python.
 */

import { CoreError, type Core } from "../core/abi";
import { fromJson, PySet, type Any } from "./containers";
import { plainSum, solveSimplex } from "./arithmetic";

/** The largest integer that a page reads exactly. */
export const LARGEST_SEED = Number.MAX_SAFE_INTEGER;

/** 0.975 quantiles of Student's t by degrees of freedom, from 1. */
const QUANTILES = [
  12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934, 2.5705818356363146, 2.4469118511449786,
  2.364624251592784, 2.306004135204166, 2.262157162798205,
];
const CONFIDENCE = 0.95;

export class InputError extends Error {}

interface Request {
  scenario: string;
  overrides: string[];
  seed: number | null;
}

/** The surroundings of an explanation. */
export interface Surroundings {
  /** Runs the variants. */
  core: Core;
  progress: (done: number, planned: number) => void;
  /** The smallest coverage of an interval of a kind from a number of values (`anabranch.coverage`). */
  coverage: (kind: string, count: number) => number;
}

let here: Surroundings | null = null;

/** Sets the functions that the next explanation calls. */
export function use(surroundings: Surroundings): void {
  here = surroundings;
}

function surroundings(): Surroundings {
  if (here === null) throw new Error("an explanation needs its surroundings");
  return here;
}

function opened(request: Request, seed: number | null): Core {
  const { core } = surroundings();
  try {
    core.openVariant(request.scenario, request.overrides, seed);
  } catch (error) {
    if (error instanceof CoreError) throw new InputError(error.message);
    throw error;
  }
  return core;
}

export function simulate(request: Request): Any {
  const run = opened(request, request.seed);
  run.stepUntil(Infinity);
  return fromJson(run.result());
}

export function validate(request: Request): void {
  opened(request, null).close();
}

export const checker = () => validate;
export const coupled = () => new PySet(surroundings().core.coupled());
export const require = () => undefined;
export const nearest = (_: string, known: string[]) => `known: ${[...known].sort().join(", ")}`;

/** Runs variants one after the other until a time limit. */
export class Trials {
  runs = 0;
  private readonly begun_s = now_s();
  private readonly end_s: number;

  constructor(_jobs: number, timeLimit_s: number) {
    this.end_s = this.begun_s + timeLimit_s;
  }

  get elapsed_s(): number {
    return now_s() - this.begun_s;
  }

  first(scenario: { text: string; overrides: string[] }, seed: number | null): Any {
    const document = simulate({ scenario: scenario.text, overrides: scenario.overrides, seed });
    if (!Number.isSafeInteger(document.at("seed"))) {
      throw new InputError(`the seed is larger than ${LARGEST_SEED}, the largest one in a page; choose a smaller seed`);
    }
    this.runs++;
    return document;
  }

  run(requests: Request[], share = 1): Any[] {
    const end_s = now_s() + share * (this.end_s - now_s());
    const planned = this.runs + requests.length;
    return requests.map((request) => {
      if (now_s() > end_s) return null;
      surroundings().progress(this.runs, planned);
      try {
        const document = simulate(request);
        this.runs++;
        return document;
      } catch (error) {
        if (error instanceof InputError) return null;
        throw error;
      }
    });
  }

  close(): void {
    surroundings().core.close();
  }
}

function now_s(): number {
  return performance.now() / 1000;
}

/** Student's t interval of a mean; null without a spread. */
export function interval_of(values: number[], centre: string, interval: string): Any {
  const count = values.length;
  if (centre !== "mean" || interval !== "t") throw new Error(`an interval "${interval}" of a ${centre} is not known here`);
  if (count < 2 || values.every((value) => value === values[0])) return null;
  const quantile = QUANTILES[count - 2];
  if (quantile === undefined) throw new Error(`an interval of ${count} values is not known here`);
  const mean = plainSum(values) / count;
  const variance = plainSum(values.map((value) => (value - mean) ** 2)) / (count - 1);
  const reach = (quantile * Math.sqrt(variance)) / Math.sqrt(count);
  return { low: mean - reach, high: mean + reach, coverage: Math.min(CONFIDENCE, surroundings().coverage("t", count)) };
}

export const solve = solveSimplex;
