/** Samples as rows of numbers, as `crates/lab/src/row.rs` makes them; they are faster than JSON and objects. */

/** Numbers of a path, a flow without its paths, and a direction of a link; the row's first two are its length and time. */
export const PATH_FIELDS = 7;
export const FLOW_FIELDS = 3;
export const DIRECTION_FIELDS = 4;
export const HEAD_FIELDS = 2;

/** Sum of the counts of a table. */
export function sum(counts: Record<string, number>): number {
  let total = 0;
  for (const name in counts) total += counts[name]!;
  return total;
}

/** Rows one after another. */
export function joined(rows: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(rows.reduce((length, row) => length + row.length, 0));
  let at = 0;
  for (const row of rows) {
    all.set(row, at);
    at += row.length;
  }
  return all;
}
