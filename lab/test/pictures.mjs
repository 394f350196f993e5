// @ts-check
/** Writes the picture of the documents: node lab/test/pictures.mjs */

import { join } from "node:path";
import { launch, open, ready, ROOT } from "./browser.mjs";

const SIZE = { width: 1440, height: 980 };
const browser = await launch();
const { page } = await open(browser, { options: { viewport: SIZE, colorScheme: "light" } });
await ready(page);
await page.locator("#lessons-button").click();
await page.locator("#dialog .list button").last().click();
await page.locator("#time").fill("400");
await page.waitForFunction(() => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0") >= 24);
await page.waitForTimeout(2000);
await page.locator("#play").click();
await page.waitForFunction(() => /^Paused/.test(document.querySelector("#live")?.textContent ?? ""));
await page.screenshot({ path: join(ROOT, "docs", "images", "lab.png") });
await browser.close();
