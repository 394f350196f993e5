/** Numbers with units, for people. */

const SPACE = "\u202f";

/** A number with at most three significant digits and no exponent. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toString();
  return String(Number(value.toPrecision(3)));
}

function scaled(value: number, units: readonly (readonly [number, string])[]): string {
  const [factor, unit] = units.find(([f]) => Math.abs(value) >= f) ?? units.at(-1)!;
  return `${digits(value / factor)}${SPACE}${unit}`;
}

export function rateText(bps: number | null): string {
  if (bps === null) return "trace";
  return scaled(bps, [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]]);
}

export function bytesText(bytes: number): string {
  return scaled(bytes, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
}

export function delayText(ns: number): string {
  return ns === 0 ? `0${SPACE}ms` : scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
}

/** Simulated time in seconds with as many decimals as an interval needs. */
export function timeText(ns: number, decimals = 3): string {
  return `${(ns / 1e9).toFixed(decimals)}${SPACE}s`;
}

/** A duration in the notation of scenarios, exact to the nanosecond. */
export function tomlTime(ns: number): string {
  for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]] as const) {
    if (Number.isInteger(ns / factor)) return `${ns / factor} ${unit}`;
  }
  return `${ns} ns`;
}

export function factorText(speed: number): string {
  if (speed === Infinity) return "as fast as it goes";
  return speed >= 1 ? `×${digits(speed)}` : `1/${digits(1 / speed)}`;
}

/** A count with its noun. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
