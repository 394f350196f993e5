/** Dictionaries and sets of Python: keys are equal by value, and stay in the order in which they came. */

// Values of translated Python have no static types.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Any = any;

/** A text or number that equal keys share; other objects are their own keys. */
export function keyOf(value: Any): Any {
  if (Array.isArray(value)) return `(${value.map((part) => JSON.stringify(keyOf(part))).join(",")})`;
  return typeof value === "string" ? `"${value}` : (value ?? null);
}

export class Dict {
  private readonly entries = new Map<Any, [Any, Any]>();

  constructor(
    entries: Iterable<[Any, Any]> = [],
    private readonly missing: (() => Any) | null = null,
  ) {
    for (const [key, value] of entries) this.put(key, value);
  }

  get size(): number {
    return this.entries.size;
  }

  has(key: Any): boolean {
    return this.entries.has(keyOf(key));
  }

  at(key: Any): Any {
    const found = this.entries.get(keyOf(key));
    if (found !== undefined) return found[1];
    if (this.missing === null) throw new Error(`there is no key ${String(key)}`);
    return this.put(key, this.missing());
  }

  put(key: Any, value: Any): Any {
    const found = this.entries.get(keyOf(key));
    if (found === undefined) this.entries.set(keyOf(key), [key, value]);
    else found[1] = value;
    return value;
  }

  get(key: Any, missing: Any = null): Any {
    return this.has(key) ? this.at(key) : missing;
  }

  setdefault(key: Any, value: Any): Any {
    return this.has(key) ? this.at(key) : this.put(key, value);
  }

  items(): [Any, Any][] {
    return [...this.entries.values()];
  }

  keys(): Any[] {
    return this.items().map(([key]) => key);
  }

  values(): Any[] {
    return this.items().map(([, value]) => value);
  }

  [Symbol.iterator](): Iterator<Any> {
    return this.keys()[Symbol.iterator]();
  }
}

export class PySet {
  private readonly members: Dict;

  constructor(members: Iterable<Any> = []) {
    this.members = new Dict([...members].map((each) => [each, null]));
  }

  get size(): number {
    return this.members.size;
  }

  has(member: Any): boolean {
    return this.members.has(member);
  }

  union(...others: Iterable<Any>[]): PySet {
    return new PySet([...this, ...others.flatMap((other) => [...other])]);
  }

  [Symbol.iterator](): Iterator<Any> {
    return this.members.keys()[Symbol.iterator]();
  }
}

/** A value of JSON with dictionaries instead of objects. */
export function fromJson(value: Any): Any {
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value !== "object" || value === null) return value;
  return new Dict(Object.entries(value).map(([key, inner]) => [key, fromJson(inner)]));
}

/** A value of JSON with objects instead of dictionaries. */
export function toJson(value: Any): Any {
  if (Array.isArray(value)) return value.map(toJson);
  if (!(value instanceof Dict)) return value ?? null;
  return Object.fromEntries(value.items().map(([key, inner]) => [key, toJson(inner)]));
}
