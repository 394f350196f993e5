/** Texts of values as Python writes them: `str`, `repr` and the formats of f-strings. */

import { Dict, PySet, type Any } from "./containers";

/** Digits behind the last one of a format that show a tie: a double has no run of 60 zeros after a 5. */
const TIE_DIGITS = 60;
const MAX_DIGITS = 100;

export function str(value: Any): string {
  return typeof value === "string" ? value : repr(value);
}

export function repr(value: Any): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return numberText(value);
  if (typeof value === "string") return value.includes("'") ? JSON.stringify(value) : `'${value}'`;
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (value instanceof Dict) return `{${value.items().map(([key, inner]) => `${repr(key)}: ${repr(inner)}`).join(", ")}}`;
  if (value instanceof PySet) return `{${[...value].map(repr).join(", ")}}`;
  throw new Error("this value has no text");
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  const isPlain = size === 0 || (size >= 1e-4 && size < 1e16);
  return isPlain ? String(value) : withPythonExponent(value.toExponential());
}

/** An exponent has two digits or more. */
function withPythonExponent(text: string): string {
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

/** A number by a format such as ".3g", ",", "+.0f" or ",.0f". */
export function format(value: number, spec: string): string {
  const parts = /^(\+?)(,?)(?:\.(\d+))?([fg]?)$/.exec(spec);
  if (parts === null) throw new Error(`the format "${spec}" has no translation`);
  const [, sign, comma, digits, kind] = parts;
  let text = numberText(value);
  if (Number.isFinite(value) && kind === "f") text = fixed(value, Number(digits ?? 6));
  else if (Number.isFinite(value) && kind === "g") text = general(value, Number(digits ?? 6));
  if (comma === ",") text = text.replace(/^(-?)(\d+)/, (_, minus: string, whole: string) => minus + whole.replace(/\B(?=(\d{3})+$)/g, ","));
  return sign === "+" && !text.startsWith("-") ? `+${text}` : text;
}

/** Rounds to digits after the point; a tie goes to the even digit. */
export function fixed(value: number, digits: number): string {
  const exact = value.toFixed(Math.min(MAX_DIGITS, digits + TIE_DIGITS));
  const cut = exact.indexOf(".") + 1 + digits;
  return rounded(exact, cut, value.toFixed(digits));
}

/** The rounded text, or at a tie the digits before it if their last one is even. */
function rounded(exact: string, cut: number, nearest: string): string {
  const isTie = /^50*$/.test(exact.slice(cut));
  const before = exact.slice(0, cut).replace(/\.$/, "");
  return isTie && Number(before.at(-1)) % 2 === 0 ? before : nearest;
}

function general(value: number, precision: number): string {
  const digits = Math.max(1, precision);
  const [mantissa, exponent] = exponential(value, digits - 1).split("e");
  const power = Number(exponent);
  if (power < -4 || power >= digits) return withPythonExponent(`${trimmed(mantissa!)}e${power < 0 ? "-" : "+"}${Math.abs(power)}`);
  return trimmed(Number(`${mantissa}e${power}`).toFixed(digits - 1 - power));
}

/** As `toExponential`; a tie goes to the even digit. */
function exponential(value: number, digits: number): string {
  const nearest = value.toExponential(digits);
  const exact = value.toExponential(Math.min(MAX_DIGITS, digits + TIE_DIGITS));
  const [mantissa, exponent] = exact.split("e");
  const chosen = rounded(mantissa!, mantissa!.indexOf(".") + 1 + digits, "");
  return chosen === "" ? nearest : `${chosen}e${exponent}`;
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
