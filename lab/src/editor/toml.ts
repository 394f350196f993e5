/** Finds the header and the inline tables that contain a position of a TOML text. */

export interface Context {
  /** Header of the table, such as `[[link]]`; empty at the top. */
  header: string;
  /** Keys of the inline tables around the position, outermost first. */
  within: string[];
  /** Keys before "=" on the same level, if the position is in a value. */
  key: string | null;
  /** Text of the innermost table up to the position, and of the whole entry of the header. */
  before: string;
  entry: string;
}

const HEADER = /^\s*(\[\[?[\w.-]+\]\]?)/;

/** The context of an offset. */
export function contextAt(text: string, offset: number): Context {
  const lineStart = text.lastIndexOf("\n", offset - 1) + 1;
  let header = "";
  let entryStart = 0;
  let at = 0;
  for (const line of text.slice(0, lineStart).split("\n")) {
    const found = HEADER.exec(line);
    if (found !== null) {
      header = found[1]!;
      entryStart = at;
    }
    at += line.length + 1;
  }
  const rest = text.slice(entryStart + 1);
  const end = rest.search(/^\s*\[/m);
  const entry = text.slice(entryStart, end < 0 ? undefined : entryStart + 1 + end);
  return { header, entry, ...inlineContext(text.slice(lineStart, offset)) };
}

/** The inline tables and the key at the end of a line. */
function inlineContext(line: string): Pick<Context, "within" | "key" | "before"> {
  const within: string[] = [];
  let key: string | null = null;
  let begin = 0;
  let isText = false;
  for (let at = 0; at < line.length; at++) {
    const character = line[at]!;
    if (isText) {
      if (character === '"') isText = false;
      continue;
    }
    if (character === '"') isText = true;
    else if (character === "#") break;
    else if (character === "=") key = line.slice(begin, at).trim();
    else if (character === "{") {
      within.push(key ?? "");
      key = null;
      begin = at + 1;
    } else if (character === "}") {
      key = within.pop() ?? null;
    } else if (character === ",") {
      key = null;
      begin = at + 1;
    }
  }
  return { within, key, before: line.slice(begin) };
}

/** The name in the `[[link]]` around an offset; null if it is elsewhere. */
export function linkAt(text: string, offset: number): string | null {
  const lineEnd = text.indexOf("\n", offset);
  const { header, entry } = contextAt(text, lineEnd < 0 ? text.length : lineEnd + 1);
  if (header !== "[[link]]") return null;
  const name = /^\s*name\s*=\s*"([^"]*)"/m.exec(entry)?.[1];
  if (name !== undefined) return name;
  const ends = /^\s*between\s*=\s*\[\s*"([^"]*)"\s*,\s*"([^"]*)"/m.exec(entry);
  return ends === null ? null : `${ends[1]}-${ends[2]}`;
}

/** Offset of the `[[link]]` with a name; null if the text has none. */
export function offsetOfLink(text: string, name: string): number | null {
  for (const match of text.matchAll(/^\s*\[\[link\]\]/gm)) {
    const offset = match.index + match[0].length;
    if (linkAt(text, offset) === name) return match.index + match[0].indexOf("[[");
  }
  return null;
}
