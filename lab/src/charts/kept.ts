/** A run that a visitor keeps: its lines stand behind those of later runs, at the same times. */

import type { Store, Values } from "../store";
import type { Kind, Line } from "./kinds";

const DASH = [1, 3];
const WIDTH = 1.2;

export class Kept {
  private store: Store | null = null;
  private columns = new Map<Values, Values>();

  constructor(readonly run: Store) {}

  /** The lines of a chart with a value for each sample of another run; none while that is the kept run itself. */
  lines(kind: Kind, store: Store): Line[] {
    if (store === this.run) return [];
    if (store !== this.store) {
      this.store = store;
      this.columns = new Map();
    }
    return kind
      .lines(this.run)
      .filter(({ label }) => !label.startsWith("ssthresh"))
      .map((line) => ({ ...line, label: `kept ${line.label}`, values: this.aligned(line.values, store), dash: DASH, width: WIDTH }));
  }

  /** The last values of a column at or before each time; none after the end of the kept run. */
  private aligned(values: Values, store: Store): Values {
    const found = this.columns.get(values) ?? [];
    this.columns.set(values, found);
    // The next sample may replace the last one.
    found.length = Math.max(0, Math.min(found.length, store.length) - 1);
    const end_s = this.run.time_s.at(-1) ?? 0;
    for (let at = found.length; at < store.length; at++) {
      const time_s = store.time_s[at]!;
      found.push(time_s > end_s ? null : (values[this.run.indexBefore(time_s)] ?? null));
    }
    return found;
  }
}
