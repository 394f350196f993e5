/** Reduces the points to draw: a chart needs no more points than it has pixels. */

import type { Values } from "../store";

export interface Range {
  from: number;
  to: number;
}

/**
 * Indexes to draw of the samples in a range. Steps are multiples of a power of two, counted from the first sample, so that
 * the same samples are drawn while a run goes on.
 */
export function indexes(range: Range, maxPoints: number): number[] {
  let step = 1;
  while ((range.to - range.from) / step > maxPoints) step *= 2;
  const found: number[] = [];
  for (let at = Math.floor(range.from / step) * step; at <= range.to; at += step) found.push(at);
  if (found.at(-1) !== range.to) found.push(range.to);
  return found;
}

/** The values at the indexes; between two of them the largest counts, so that no peak is lost. */
export function thinned(values: Values, at: number[], factor: number): (number | null)[] {
  const found: (number | null)[] = [];
  let next = at[0] ?? 0;
  for (const index of at) {
    let largest: number | null = null;
    for (; next <= index; next++) {
      const value = values[next];
      if (value !== null && value !== undefined && (largest === null || value > largest)) largest = value;
    }
    found.push(largest === null ? null : largest * factor);
  }
  return found;
}
