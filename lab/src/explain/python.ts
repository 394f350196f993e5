/**
 * The parts of Python that the translated rules use (`lab/rules`), under Python's names. `None` is null, lists and tuples
 * are arrays.
 */

import { Dict, keyOf, PySet, type Any } from "./containers";
import { fixed } from "./format";

export { format, repr, str } from "./format";

type Options = { key?: (value: Any) => Any; default?: Any; reverse?: boolean };

export function truth(value: Any): boolean {
  if (value === null || value === undefined) return false;
  if (Array.isArray(value) || typeof value === "string") return value.length > 0;
  if (value instanceof Dict || value instanceof PySet) return value.size > 0;
  // NaN is true.
  return value !== 0 && value !== false;
}

export function or_(first: Any, ...others: (() => Any)[]): Any {
  let value = first;
  for (const other of others) {
    if (truth(value)) return value;
    value = other();
  }
  return value;
}

export function and_(first: Any, ...others: (() => Any)[]): Any {
  let value = first;
  for (const other of others) {
    if (!truth(value)) return value;
    value = other();
  }
  return value;
}

export function iter(value: Any): Iterable<Any> {
  if (value === null || value === undefined) throw new Error("None has no elements");
  return value as Iterable<Any>;
}

export function get(owner: Any, name: string): Any {
  const value = owner[name];
  if (value === undefined) throw new Error(`there is no attribute ${name}`);
  return typeof value === "function" ? value.bind(owner) : value;
}

export const getattr = get;
export const hasattr = (owner: Any, name: string) => typeof owner === "object" && owner !== null && name in owner;

/** Calls a method, also those of texts and lists. */
export function call(owner: Any, name: string, values: Any[], options?: Record<string, Any>): Any {
  if (typeof owner === "string") return TEXT[name]!(owner, ...values);
  if (Array.isArray(owner)) return LIST[name]!(owner, ...values);
  const method = owner[name];
  if (typeof method !== "function") throw new Error(`there is no method ${name}`);
  return method.apply(owner, options === undefined ? values : inOrder(method, values, options));
}

/** Calls a function with named values, in the order of its parameters. */
export function named(of: Any, function_: (...values: Any[]) => Any, values: Any[], options: Record<string, Any>): Any {
  return function_(...inOrder(of, values, options));
}

function inOrder(of: { names?: string[] }, values: Any[], options: Record<string, Any>): Any[] {
  const all = [...values];
  for (const [name, value] of Object.entries(options)) {
    const at = of.names?.indexOf(name) ?? -1;
    if (at < 0) throw new Error(`there is no parameter ${name}`);
    all[at] = value;
  }
  return all;
}

const LIST: Record<string, (list: Any[], ...values: Any[]) => Any> = {
  append: (list, value) => void list.push(value),
};

const TEXT: Record<string, (text: string, ...values: Any[]) => Any> = {
  split: (text, by) => (by === undefined ? text.trim().split(/\s+/) : text.split(by)),
  join: (text, parts) => [...iter(parts)].join(text),
  startswith: (text, start) => text.startsWith(start),
  endswith: (text, end) => text.endsWith(end),
  removesuffix: (text, end) => (end !== "" && text.endsWith(end) ? text.slice(0, -end.length) : text),
  replace: (text, old, by) => text.replaceAll(old, () => by),
  isalnum: (text) => /^[\p{L}\p{N}]+$/u.test(text),
  partition: (text, by) => {
    const at = text.indexOf(by);
    return at < 0 ? [text, "", ""] : [text.slice(0, at), by, text.slice(at + by.length)];
  },
};

/** The type `Literal[…]`: its values. */
export const Literal = Symbol("Literal");
export const get_args = (values: Any) => values;

export function at(owner: Any, key: Any): Any {
  if (owner === Literal) return key;
  if (owner instanceof Dict) return owner.at(key);
  const value = owner.at(key);
  if (value === undefined) throw new Error(`there is no element ${String(key)}`);
  return value;
}

export function put(owner: Any, key: Any, value: Any): Any {
  if (owner instanceof Dict) return owner.put(key, value);
  throw new Error("only dictionaries can change");
}

export const slice = (value: Any, from: number | null, to: number | null) => value.slice(from ?? 0, to ?? undefined);

export function cmp(first: Any, second: Any): number {
  if (!Array.isArray(first)) return first < second ? -1 : first > second ? 1 : 0;
  for (let index = 0; index < Math.min(first.length, second.length); index++) {
    const order = cmp(first[index], second[index]);
    if (order !== 0) return order;
  }
  return first.length - second.length;
}

const isWithin = (first: PySet, second: PySet) => [...first].every((member) => second.has(member));

export function lt(first: Any, second: Any): boolean {
  if (first instanceof PySet) return first.size < second.size && isWithin(first, second);
  return cmp(first, second) < 0;
}
export function le(first: Any, second: Any): boolean {
  return first instanceof PySet ? isWithin(first, second) : Array.isArray(first) ? cmp(first, second) <= 0 : first <= second;
}
export const gt = (first: Any, second: Any) => lt(second, first);
export const ge = (first: Any, second: Any) => le(second, first);

export function eq(first: Any, second: Any): boolean {
  if (Array.isArray(first)) {
    return Array.isArray(second) && first.length === second.length && first.every((each, index) => eq(each, second[index]));
  }
  if (first instanceof Dict) {
    return second instanceof Dict && first.size === second.size && first.keys().every((key) => second.has(key) && eq(first.at(key), second.at(key)));
  }
  return (first ?? null) === (second ?? null);
}

export function has(owner: Any, value: Any): boolean {
  if (owner instanceof Dict || owner instanceof PySet) return owner.has(value);
  return typeof owner === "string" ? owner.includes(value) : [...iter(owner)].some((each) => eq(each, value));
}

export const add = (first: Any, second: Any) => (Array.isArray(first) ? [...first, ...second] : first + second);
export const sub = (first: Any, second: Any) => (first instanceof PySet ? new PySet([...first].filter((each) => !second.has(each))) : first - second);
export const both = (first: PySet, second: PySet) => new PySet([...first].filter((each) => second.has(each)));
export const either = (first: PySet, second: PySet) => first.union(second);

export function mul(first: Any, second: Any): Any {
  if (Array.isArray(first)) return Array.from({ length: second }, () => first).flat();
  return typeof first === "string" ? first.repeat(second) : first * second;
}

export const bool = truth;
export const len = (value: Any) => value.length ?? value.size;
export const abs = Math.abs;
export const list = (values: Any = []) => [...iter(values)];
export const tuple = list;
export const set = (values: Any = []) => new PySet(iter(values));
export const frozenset = set;
export const items = (values: Dict) => values.items();
export const any = (values: Any) => [...iter(values)].some(truth);
export const all = (values: Any) => [...iter(values)].every(truth);
export const sum = (values: Any) => [...iter(values)].reduce((total, each) => total + Number(each), 0);
export const map = (function_: Any, values: Any) => list(values).map((each: Any) => function_(each));
export const reversed = (values: Any) => list(values).reverse();
export const enumerate = (values: Any, from = 0) => list(values).map((each: Any, index: number) => [from + index, each]);

export function dict(entries: Any = []): Dict {
  return entries instanceof Dict ? new Dict(entries.items()) : new Dict(iter(entries) as Iterable<[Any, Any]>);
}
export const defaultdict = (missing: () => Any) => new Dict([], missing);
export const fromkeys = (keys: Any) => new Dict(list(keys).map((key: Any) => [key, null]));

export function Counter(values: Any): Dict {
  const counts = new Dict();
  for (const value of iter(values)) counts.put(value, counts.get(value, 0) + 1);
  return counts;
}

export function float(value: Any = 0): number {
  if (typeof value !== "string") return Number(value);
  const number = /^\s*[+-]?inf(inity)?\s*$/i.test(value) ? (value.includes("-") ? -Infinity : Infinity) : Number(value);
  if (Number.isNaN(number) || value.trim() === "") throw new Error(`"${value}" is no number`);
  return number;
}
export const int = (value: Any) => Math.trunc(float(value));
export const round = (value: number) => Number(fixed(value, 0));

export function range(from: number, to?: number): number[] {
  const [begin, end] = to === undefined ? [0, from] : [from, to];
  return Array.from({ length: Math.max(0, end - begin) }, (_, index) => begin + index);
}

export function zip(...columns: Any[]): Any[][] {
  const lists: Any[][] = columns.map(list);
  const length = Math.min(...lists.map((each) => each.length));
  return Array.from({ length }, (_, index) => lists.map((each) => each[index]));
}

export function next(values: Any, missing?: Any): Any {
  for (const value of iter(values)) return value;
  if (missing === undefined) throw new Error("there is no next element");
  return missing;
}

export function sorted(options: Options, values: Any): Any[] {
  const key = options.key ?? ((value: Any) => value);
  const sign = options.reverse === true ? -1 : 1;
  const keyed = list(values).map((value: Any) => [key(value), value]);
  return keyed.sort(([first]: Any, [second]: Any) => sign * cmp(first, second)).map(([, value]: Any) => value);
}

/** The first extreme value; `sign` is 1 for the largest. */
function extreme(sign: 1 | -1, options: Options, values: Any[]): Any {
  const among = values.length === 1 ? list(values[0]) : values;
  const key = options.key ?? ((value: Any) => value);
  if (among.length === 0) {
    if ("default" in options) return options.default;
    throw new Error("there is no extreme value of nothing");
  }
  return among.reduce((best: Any, value: Any) => (sign * cmp(key(value), key(best)) > 0 ? value : best));
}
export const max = (options: Options, ...values: Any[]) => extreme(1, options, values);
export const min = (options: Options, ...values: Any[]) => extreme(-1, options, values);

/** Whether a value has one of some types. A number of JSON without a fraction counts as both int and float. */
export function isinstance(value: Any, types: string[]): boolean {
  return types.some((type) => {
    switch (type) {
      case "str":
        return typeof value === "string";
      case "bool":
        return typeof value === "boolean";
      case "int":
        return typeof value === "boolean" || Number.isInteger(value);
      case "float":
        return typeof value === "number";
      case "dict":
        return value instanceof Dict;
      default:
        return Array.isArray(value);
    }
  });
}

/** A copy of a data class with other values. */
export function replace(value: Any, changes: Record<string, Any>): Any {
  const names = value.constructor.names as string[];
  return new value.constructor(...names.map((name) => (name in changes ? changes[name] : value[name])));
}

/** The value of a cached property: computed at its first use. */
export function once(owner: Any, name: string, compute: () => Any): Any {
  const value = compute();
  Object.defineProperty(owner, name, { value });
  return value;
}

export function memo(function_: (...values: Any[]) => Any): (...values: Any[]) => Any {
  const known = new Map<Any, Any>();
  return (...values) => {
    const key = keyOf(values);
    if (!known.has(key)) known.set(key, function_(...values));
    return known.get(key);
  };
}

/** The sum without rounding errors on the way: partial sums that do not overlap (Shewchuk 1997). */
function fsum(values: Any): number {
  const partials: number[] = [];
  for (const each of iter(values)) {
    let value = Number(each);
    if (!Number.isFinite(value)) return list(values).reduce((total: number, next_: Any) => total + Number(next_), 0);
    let kept = 0;
    for (const part of partials) {
      const [large, small] = Math.abs(value) < Math.abs(part) ? [part, value] : [value, part];
      const high = large + small;
      const low = small - (high - large);
      if (low !== 0) partials[kept++] = low;
      value = high;
    }
    partials.length = kept;
    partials.push(value);
  }
  let total = 0;
  while (partials.length > 0) {
    const before = total;
    const next_ = partials.pop()!;
    total = before + next_;
    const rest = next_ - (total - before);
    if (rest === 0) continue;
    // Half-even rounding looks at the sign of all that is left.
    const below = partials.at(-1) ?? 0;
    if ((rest < 0 && below < 0) || (rest > 0 && below > 0)) {
      const twice = 2 * rest;
      if (total + twice - total === twice) total += twice;
    }
    break;
  }
  return total;
}

export const math = {
  inf: Infinity,
  nan: NaN,
  fsum,
  isinf: (value: number) => Math.abs(value) === Infinity,
  isnan: Number.isNaN,
  isfinite: Number.isFinite,
  ceil: Math.ceil,
  log2: Math.log2,
  sqrt: Math.sqrt,
};

export const statistics = {
  fmean: (values: Any) => {
    const all_ = list(values);
    return fsum(all_) / all_.length;
  },
};

export const itertools = {
  combinations: (values: Any, size: number) => {
    if (size !== 2) throw new Error("only pairs have a translation");
    const among = list(values);
    return among.flatMap((first, index) => among.slice(index + 1).map((second) => [first, second]));
  },
};

const dumps = Object.assign((value: string) => JSON.stringify(value), { names: ["value", "ensure_ascii"] });
export const json = { dumps };

export const shlex = {
  quote: (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`),
};

