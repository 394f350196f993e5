// @ts-check
/**
 * Builds the page: one HTML file with style, programs, the core, which `pack.py` has packed, and the rules of explanations,
 * which `rules` has translated.
 *
 *     node build.mjs PACKED UNPACKER.wasm RULES.js OUT.html
 */

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { aliases } from "./rules.mjs";

const HERE = import.meta.dirname;
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke-width="4" stroke-linecap="round"><path stroke="#0072b2" d="M2,16h4c5,0 5,-9 10,-9s5,9 10,9h4"/><path stroke="#e69f00" d="M6,16c5,0 5,9 10,9s5,-9 10,-9"/></svg>';

/** @param {{ outputFiles: { text: string }[] }} built */
function text(built) {
  return built.outputFiles.map((file) => file.text).join("");
}

/**
 * @param {string} entry
 * @param {Record<string, string>} defined
 */
async function bundle(entry, defined) {
  const built = await build({
    entryPoints: [join(HERE, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    loader: { ".toml": "text" },
    define: defined,
    alias: aliases(rulesFile ?? ""),
  });
  // "</script" would end the element that holds the program.
  return text(built).replaceAll("</script", "<\\/script");
}

async function style() {
  const built = await build({
    entryPoints: [join(HERE, "src", "style.css")],
    minify: true,
    write: false,
  });
  return readFileSync(join(HERE, "node_modules", "uplot", "dist", "uPlot.min.css"), "utf8") + text(built);
}

/**
 * No request is possible; the only scripts are those with these digests, and their workers.
 *
 * @param {string[]} programs
 */
function policy(programs) {
  const digests = programs.map((program) => `'sha256-${createHash("sha256").update(program).digest("base64")}'`);
  return [
    "default-src 'none'",
    `script-src ${digests.join(" ")} 'wasm-unsafe-eval'`,
    "worker-src blob:",
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "connect-src 'none'",
    "form-action 'none'",
    "base-uri 'none'",
  ].join("; ");
}

const [coreFile, unpackerFile, rulesFile, pageFile] = process.argv.slice(2);
if (coreFile === undefined || unpackerFile === undefined || rulesFile === undefined || pageFile === undefined) {
  console.error("build.mjs needs four names: PACKED, UNPACKER.wasm, RULES.js and OUT.html");
  process.exit(2);
}
const worker = await bundle("core/worker.ts", {});
const unpacker = readFileSync(unpackerFile).toString("base64");
const explainer = await bundle("explain/worker.ts", {});
const programs = {
  BOOT: await bundle("boot.ts", { WORKER: JSON.stringify(worker), UNPACKER: JSON.stringify(unpacker) }),
  EDITOR: await bundle("editor/program.ts", {}),
  PROGRAM: await bundle("main.ts", { EXPLAINER: JSON.stringify(explainer) }),
};
/** @type {Record<string, string>} */
const parts = {
  ...programs,
  POLICY: policy(Object.values(programs)),
  ICON: encodeURIComponent(ICON),
  STYLE: await style(),
  CORE: readFileSync(coreFile).toString("base64"),
};
const template = readFileSync(join(HERE, "src", "page.html"), "utf8");
const page = template.replace(/%([A-Z]+)%/g, (whole, name) => parts[name] ?? whole);
mkdirSync(dirname(pageFile), { recursive: true });
writeFileSync(pageFile, page);
console.log(`${pageFile}: ${(page.length / 1e3).toFixed(0)} kB, ${(gzipSync(page).length / 1e3).toFixed(0)} kB compressed`);
