// @ts-check
/** The names by which programs import the rules that `lab/rules` has translated, and the modules that the rules import. */

import { join, resolve } from "node:path";

const HERE = import.meta.dirname;

/** @param {string} rules File of the translated rules. */
export function aliases(rules) {
  const own = (/** @type {string} */ name) => join(HERE, "src", "explain", name);
  return { rules: resolve(rules), python: own("python.ts"), host: own("host.ts") };
}
