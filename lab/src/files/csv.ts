/** Columns as comma-separated values (RFC 4180). */

import type { Line } from "../charts/kinds";
import type { Store } from "../store";

function field(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** All samples of some series, one row for each time. Values that do not exist are empty. */
export function csvOf(store: Store, lines: Line[], unit: string): string {
  const head = ["time in s", ...lines.map((line) => `${line.label} in ${unit}`)].map(field).join(",");
  const rows = store.time_s.map((time, at) =>
    [time, ...lines.map((line) => {
      const value = line.values[at];
      return value === null || value === undefined ? "" : Number((value * line.factor).toPrecision(12));
    })].join(","),
  );
  return `${[head, ...rows].join("\n")}\n`;
}
