// @ts-check
/** The browser of the tests, and small helpers for pages of the laboratory. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const ROOT = join(import.meta.dirname, "..", "..");
export const PAGE = join(ROOT, "python", "anabranch", "lab", "lab.html");
export const PYTHON = join(ROOT, ".venv", "bin", "python");
export const ENVIRONMENT = { ...process.env, PYTHONPATH: join(ROOT, "python") };
const TIMEOUT_MS = 20_000;
const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** @typedef {import("playwright-core").Page} Page */

export async function launch() {
  const executablePath = process.env["CHROMIUM"] ?? PROGRAMS.find((program) => existsSync(program));
  if (executablePath === undefined) throw new Error("no Chromium; install it: apt-get install chromium");
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/**
 * A page of the laboratory, with all requests that it made and all errors of its programs.
 *
 * @param {import("playwright-core").Browser} browser
 * @param {{ url?: string, options?: import("playwright-core").BrowserContextOptions, before?: () => void }} [chosen]
 */
export async function open(browser, { url, options, before } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, acceptDownloads: true, ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  /** @type {string[]} */
  const requests = [];
  /** @type {string[]} */
  const errors = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  if (before !== undefined) await page.addInitScript(before);
  await page.goto(url ?? pathToFileURL(PAGE).href);
  return { page, context, requests, errors };
}

/**
 * Waits until a run goes on or stands at its start.
 *
 * @param {Page} page
 */
export async function ready(page) {
  await page.waitForFunction(() => document.querySelectorAll("#network .link").length > 0);
}

/**
 * Writes a scenario into the editor, as if it was pasted.
 *
 * @param {Page} page
 * @param {string} text
 */
export async function write(page, text) {
  await page.locator("#editor .cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/**
 * Runs the present scenario to its end as fast as it goes, and returns the digest.
 *
 * @param {Page} page
 */
export async function finish(page) {
  await page.locator("#speed").focus();
  await page.keyboard.press("End");
  const play = page.locator("#play");
  if ((await play.getAttribute("aria-label")) === "Play") await play.click();
  return digest(page);
}

/**
 * The digest of the run, which the page shows while it rests.
 *
 * @param {Page} page
 */
export async function digest(page) {
  await page.waitForFunction(() => /The run is over/.test(document.querySelector("#live")?.textContent ?? ""));
  await page.waitForFunction(() => /digest [0-9a-f]{16}/.test(document.querySelector("#facts")?.textContent ?? ""));
  const text = (await page.locator("#facts").textContent()) ?? "";
  return /digest ([0-9a-f]{16})/.exec(text)?.[1];
}

/**
 * Number of coloured pixels of the layer with packets.
 *
 * @param {Page} page
 */
export async function packetPixels(page) {
  return page.evaluate(() => {
    const canvas = /** @type {HTMLCanvasElement} */ (document.querySelector("#network canvas"));
    const { data } = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let at = 3; at < data.length; at += 4) if (/** @type {number} */ (data[at]) > 100) found++;
    return found;
  });
}

/**
 * The rows of a chart's data table, as numbers; a dash is NaN.
 *
 * @param {Page} page
 * @param {string} id
 */
export async function table(page, id) {
  const details = page.locator(`#chart-${id} details`);
  if ((await details.getAttribute("open")) === null) await details.locator("summary").click();
  await page.waitForSelector(`#chart-${id} table`);
  return page.evaluate((chart) => {
    const rows = [...document.querySelectorAll(`#chart-${chart} tbody tr`)];
    return rows.map((row) => [...row.children].map((cell) => Number(cell.textContent)));
  }, id);
}
