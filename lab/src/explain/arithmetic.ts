/** The simplex method for the possible rates of networks, and plain sums. */

const TOLERANCE = 1e-12;

export function plainSum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * The smallest cost with `uses · x ≤ limits` and x ≥ 0, for limits of at least 0, so that x = 0 is a start. Bland's rule
 * avoids cycles.
 */
export function solveSimplex(costs: number[], uses: number[][], limits: number[]): { cost: number } {
  const rows = uses.map((row, at) => [...row, ...limits.map((_, other) => Number(other === at)), limits[at]!]);
  const prices = [...costs, ...limits.map(() => 0), 0];
  const last = prices.length - 1;
  for (;;) {
    const column = prices.findIndex((price, at) => at < last && price < -TOLERANCE);
    if (column < 0) return { cost: -prices[last]! };
    const row = bindingRow(rows, column, last);
    if (row === null) throw new Error("the rates of the network have no bound");
    pivot([...rows, prices], row, column);
  }
}

/** The row that limits a variable first; null if none does. */
function bindingRow(rows: number[][], column: number, last: number): number[] | null {
  let found: number[] | null = null;
  for (const row of rows) {
    if (row[column]! <= TOLERANCE) continue;
    if (found === null || row[last]! / row[column]! < found[last]! / found[column]!) found = row;
  }
  return found;
}

/** Makes a column the unit vector of a row. */
function pivot(all: number[][], row: number[], column: number): void {
  const divisor = row[column]!;
  row.forEach((value, at) => (row[at] = value / divisor));
  for (const other of all) {
    const factor = other[column]!;
    if (other !== row && factor !== 0) row.forEach((value, at) => (other[at] = other[at]! - factor * value));
  }
}
