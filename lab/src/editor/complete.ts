/** Completion of keys and values, from the core's tables. */

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Key, Keys } from "../core/types";
import { contextAt, type Context } from "./toml";

/** The keys that are valid at a position of the text. */
export function keysAt(keys: Keys, context: Context): Key[] {
  const section = keys.sections.find((candidate) => candidate.header === context.header);
  let level = section?.keys ?? [];
  for (const name of context.within) {
    const table = level.find((key) => key.name === name)?.table;
    if (table === null || table === undefined) return [];
    const kind = table.tag === null ? null : new RegExp(`${table.tag}\\s*=\\s*"([^"]*)"`).exec(context.before)?.[1];
    const chosen = table.kinds.filter((candidate) => candidate.name === null || candidate.name === kind);
    const tag = table.tag === null ? [] : [tagKey(table.tag, table.kinds)];
    level = [...tag, ...chosen.flatMap((candidate) => candidate.keys)];
  }
  return forProtocol(level, context);
}

function tagKey(name: string, kinds: NonNullable<Key["table"]>["kinds"]): Key {
  const values = kinds.filter((kind) => kind.name !== null).map((kind) => ({ name: `"${kind.name}"`, doc: kind.doc }));
  return { name, doc: "The kind, which decides the other keys.", default: null, required: true, example: values[0]?.name ?? null, protocols: null, values, table: null };
}

function forProtocol(keys: Key[], context: Context): Key[] {
  const protocol = /^\s*protocol\s*=\s*"([^"]*)"/m.exec(context.entry)?.[1];
  if (protocol === undefined) return keys;
  return keys.filter((key) => key.protocols === null || key.protocols.includes(protocol));
}

function keyOption(key: Key): Completion {
  const value = key.example ?? key.default ?? key.values[0]?.name ?? "";
  return {
    label: key.name,
    apply: `${key.name} = ${value}`,
    type: "property",
    detail: key.required ? "required" : key.default === null ? "" : `default ${key.default}`,
    info: key.doc,
  };
}

function headerOptions(keys: Keys): Completion[] {
  return keys.sections.filter(({ header }) => header !== "").map(({ header }) => ({ label: header, type: "class" }));
}

/** A source of completions for the editor. */
export function completeWith(keys: Keys): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const text = context.state.doc.toString();
    const place = contextAt(text, context.pos);
    if (/#/.test(place.before.replace(/"[^"]*"/g, ""))) return null;
    const known = keysAt(keys, place);
    if (place.key !== null) {
      const values = known.find((key) => key.name === place.key)?.values ?? [];
      const word = context.matchBefore(/["\w:-]*/);
      if (word === null || values.length === 0 || (word.from === word.to && !context.explicit)) return null;
      return { from: word.from, options: values.map(({ name, doc }) => ({ label: name, type: "enum", info: doc })) };
    }
    const word = context.matchBefore(/\[{0,2}[\w-]*/);
    if (word === null || (word.from === word.to && !context.explicit)) return null;
    const isTop = place.within.length === 0;
    const options = [...known.map(keyOption), ...(isTop ? headerOptions(keys) : [])];
    return { from: word.from, options, validFor: /^[[\w-]*$/ };
  };
}
