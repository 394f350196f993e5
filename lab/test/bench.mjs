// @ts-check
/** Measures the page in Chromium: node lab/test/bench.mjs prints the best of five. */

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { finish, launch, open, PAGE, ready, write } from "./browser.mjs";

const ROUNDS = 5;
const FLOWS = 10;
const FRAMES_S = 5;
const FRAMES_RUN = "60 s";
/** Long enough that the start of a page, which takes a second, is a small part. */
const EVENTS_RUN = "600 s";
const LONG_RUN_TIMEOUT_MS = 300_000;

/** Ten flows over one bottleneck, for a duration. */
function tenFlows(/** @type {string} */ duration) {
  const link = (/** @type {string} */ name, /** @type {string} */ a, /** @type {string} */ b, /** @type {number} */ rate, /** @type {number} */ delay) =>
    `[[link]]\nname = "${name}"\nbetween = ["${a}", "${b}"]\nrate = "${rate} Mbit/s"\ndelay = "${delay} ms"\n\n`;
  let text = `title = "Ten flows"\nduration = "${duration}"\n\n`;
  text += link("bottleneck", "left", "right", 20, 10);
  for (let flow = 0; flow < FLOWS; flow++) {
    text += link(`in-${flow}`, `s${flow}`, "left", 100, 1 + flow) + link(`out-${flow}`, "right", `d${flow}`, 100, 1);
  }
  for (let flow = 0; flow < FLOWS; flow++) text += `[[flow]]\nname = "f${flow}"\nfrom = "s${flow}"\nto = "d${flow}"\nprotocol = "tcp"\ncongestion = "cubic"\n\n`;
  return text;
}

/**
 * @param {import("playwright-core").Page} page
 * @param {string} duration
 */
async function openTenFlows(page, duration) {
  await ready(page);
  await write(page, tenFlows(duration));
  await page.locator("#run").click();
  await page.waitForFunction(() => document.querySelector("#title")?.textContent === "Ten flows");
}

/** Milliseconds from the start of loading until the first packet is on the screen. */
async function firstPacket() {
  const browser = await launch();
  const { page } = await open(browser, {
    before: () => {
      const look = () => {
        // Reading the canvas takes a part of a frame: there are no packets before there are links.
        const drawn = document.querySelector("#network .link") !== null;
        const canvas = /** @type {HTMLCanvasElement | null} */ (drawn ? document.querySelector("#network canvas") : null);
        const context = canvas?.getContext("2d", { willReadFrequently: true });
        if (canvas && context && canvas.width > 0 && context.getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0)) {
          document.documentElement.dataset["first"] = String(performance.now());
        } else requestAnimationFrame(look);
      };
      document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(look));
    },
  });
  await page.waitForFunction(() => document.documentElement.dataset["first"] !== undefined);
  const time = Number(await page.evaluate(() => document.documentElement.dataset["first"]));
  await browser.close();
  return time;
}

/** Frames a second with ten flows at speed 5, and the speed reached. */
async function frames() {
  const browser = await launch();
  const { page } = await open(browser);
  await openTenFlows(page, FRAMES_RUN);
  await page.locator("#speed").fill("8");
  await page.waitForTimeout(1000);
  const measured = await page.evaluate(
    (seconds) =>
      new Promise((resolve) => {
        const clock = () => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0");
        const [begin, from] = [performance.now(), clock()];
        let count = 0;
        let before = from;
        const frame = () => {
          const now = clock();
          if (now !== before) count++;
          before = now;
          const elapsed = (performance.now() - begin) / 1000;
          if (elapsed < seconds) requestAnimationFrame(frame);
          else resolve({ frames: count / elapsed, speed: (now - from) / elapsed });
        };
        requestAnimationFrame(frame);
      }),
    FRAMES_S,
  );
  await browser.close();
  return /** @type {{ frames: number, speed: number }} */ (measured);
}

/** Events a second of the core, as fast as it goes. */
async function events() {
  const browser = await launch();
  const { page } = await open(browser);
  page.setDefaultTimeout(LONG_RUN_TIMEOUT_MS);
  await openTenFlows(page, EVENTS_RUN);
  const begin = performance.now();
  await finish(page);
  const elapsed = (performance.now() - begin) / 1000;
  const text = (await page.locator("#facts").textContent()) ?? "";
  await browser.close();
  return Number(text.split(" ")[0]?.replaceAll(",", "")) / elapsed;
}

/** @template T @param {() => Promise<T>} measure @returns {Promise<T[]>} */
async function repeat(measure) {
  const found = [];
  for (let round = 0; round < ROUNDS; round++) found.push(await measure());
  return found;
}

const html = readFileSync(PAGE);
console.log(`size: ${(html.length / 1e3).toFixed(0)} kB, ${(gzipSync(html).length / 1e3).toFixed(0)} kB with gzip`);
console.log(`first packet: ${Math.min(...(await repeat(firstPacket))).toFixed(0)} ms`);
const shown = (await repeat(frames)).sort((a, b) => b.frames - a.frames)[0];
console.log(`ten flows at speed 5: ${shown?.frames.toFixed(0)} frames a second, at speed ${shown?.speed.toFixed(1)}`);
console.log(`ten flows as fast as it goes: ${(Math.max(...(await repeat(events))) / 1e6).toFixed(2)} M events a second, charts included`);
