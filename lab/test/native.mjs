// @ts-check
/** Runs of the command, to compare with those of the page. */

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENVIRONMENT, PYTHON, ROOT } from "./browser.mjs";

/**
 * Digest of a run of the command.
 *
 * @param {string} scenario
 * @returns {string}
 */
export function nativeDigest(scenario) {
  const file = join(mkdtempSync(join(tmpdir(), "lab-")), "scenario.toml");
  writeFileSync(file, scenario);
  const printed = execFileSync(PYTHON, ["-m", "anabranch", "run", file, "--json"], { env: ENVIRONMENT, encoding: "utf8", maxBuffer: 1 << 26 });
  return JSON.parse(printed).digest;
}

/**
 * Causes and settings of the findings of the command.
 *
 * @param {string} scenario
 * @returns {{ cause: string, settings: string[] }[]}
 */
export function nativeFindings(scenario) {
  const file = join(mkdtempSync(join(tmpdir(), "lab-")), "scenario.toml");
  writeFileSync(file, scenario);
  const words = ["-m", "anabranch", "explain", file, "--json", "--jobs", "1", "--time-limit", "600"];
  return JSON.parse(execFileSync(PYTHON, words, { env: ENVIRONMENT, encoding: "utf8" })).findings;
}

/** The scenarios of the lessons, by name. */
export function lessons() {
  return scenarios(join(ROOT, "lab", "lessons"));
}

/** The examples that need no trace, by name. */
export function examples() {
  return scenarios(join(ROOT, "python", "anabranch", "examples")).filter(([, text]) => !text.includes("trace ="));
}

/**
 * @param {string} folder
 * @returns {[string, string][]}
 */
function scenarios(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith(".toml")).sort();
  return names.map((name) => [name, readFileSync(join(folder, name), "utf8")]);
}

/**
 * Starts the command's server and returns its address.
 *
 * @param {string[]} options
 */
export async function serve(options) {
  const server = spawn(PYTHON, ["-m", "anabranch", "lab", "--no-browser", ...options], { env: ENVIRONMENT });
  let printed = "";
  const url = await new Promise((resolve, reject) => {
    server.stdout.on("data", (data) => {
      printed += data;
      const found = /http:\/\/[\d.:]+\//.exec(printed)?.[0];
      if (found !== undefined) resolve(found);
    });
    server.stderr.on("data", (data) => (printed += data));
    server.on("exit", () => reject(new Error(printed)));
  });
  return { url, stop: () => server.kill("SIGINT") };
}
