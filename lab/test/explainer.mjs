// @ts-check
/** Explanations by the programs of the page in this process, without a browser. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { aliases } from "../rules.mjs";

/**
 * @param {string} rules File of the translated rules.
 * @param {string} core File of the module.
 * @returns {Promise<import("../src/explain/explainer.ts").Explainer>}
 */
export async function explainer(rules, core) {
  const { Core, Explainer } = await programs(rules);
  return new Explainer(await Core.start(new WebAssembly.Module(readFileSync(core))));
}

/** @param {string} rules */
export async function programs(rules) {
  const folder = join(import.meta.dirname, "..", "src");
  const contents = ["core/abi", "explain/explainer", "explain/format", "explain/python", "explain/arithmetic"].map((name) => `export * from "./${name}";`).join("\n");
  const built = await build({
    stdin: { contents, resolveDir: folder },
    bundle: true,
    write: false,
    format: "esm",
    alias: aliases(rules),
  });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0]?.contents ?? "").toString("base64")}`);
}
