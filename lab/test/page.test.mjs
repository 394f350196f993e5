// @ts-check
/** Tests of the built page in Chromium: node --test lab/test */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync, mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { finish, launch, open, packetPixels, ready, table, write } from "./browser.mjs";
import { examples, lessons, nativeDigest, nativeFindings, serve } from "./native.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SHORT = `title = "Short"
duration = "2 s"

[[link]]
name = "one"
between = ["a", "b"]
rate = "5 Mbit/s"
delay = "10 ms"

[[link]]
name = "two"
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "30 ms"

[[flow]]
name = "transfer"
from = "a"
to = "b"
protocol = "mptcp"
paths = "disjoint"
`;

/** @type {import("playwright-core").Browser} */
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

/** @param {import("playwright-core").Page} page */
const fault = (page) => page.locator("#fault:not([hidden])").textContent();

/** @param {import("playwright-core").Page} page */
async function runShort(page) {
  await ready(page);
  await write(page, SHORT);
  await page.locator("#run").click();
  await page.waitForFunction(() => document.querySelector("#title")?.textContent === "Short");
}

test("page opens from a file and draws", async () => {
  const { page, context, errors } = await open(browser);
  await ready(page);
  await page.waitForFunction(() => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0") > 0.1);
  assert.ok((await packetPixels(page)) > 200);
  assert.deepEqual(await page.locator("#network .name").allTextContents(), ["wifi", "cellular", "core"]);
  await page.locator("#play").click();
  const rows = await table(page, "window");
  const last = rows.at(-1) ?? [];
  assert.ok(rows.length > 10 && Number(last[0]) >= 0.1 && Number(last[1]) > 10, String(last));
  assert.ok((await page.locator("#chart-window canvas").count()) === 1);
  assert.deepEqual(errors, []);
  await context.close();
});

test("server opens the named scenario with its seed", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "lab-")), "short.toml");
  writeFileSync(file, SHORT);
  const server = await serve([file, "--seed", "5"]);
  const { page, context, errors } = await open(browser, { url: server.url });
  await ready(page);
  assert.equal(await page.locator("#title").textContent(), "Short");
  assert.equal(await page.locator("#seed").inputValue(), "5");
  assert.equal(await finish(page), nativeDigest(`seed = 5\n${SHORT}`));
  assert.deepEqual(errors, []);
  server.stop();
  await context.close();
});

test("no request leaves the page", async () => {
  const { page, context, requests } = await open(browser);
  await ready(page);
  await page.locator("#share-button").click();
  await page.getByRole("button", { name: "Copy a link" }).click();
  const outside = requests.filter((url) => !/^(file|blob|data):/.test(url));
  assert.deepEqual(outside, []);
  const refused = await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => false, () => true));
  assert.ok(refused && !requests.some((url) => url.includes("127.0.0.1:9")));
  await context.close();
});

test("orders equal events, and links repeat a run", async () => {
  const { page, context } = await open(browser, { options: { permissions: ["clipboard-read", "clipboard-write"] } });
  await runShort(page);
  await page.locator("#play").click();
  await page.locator("#network .label .name").nth(0).click();
  await page.locator("#inspector button.wide").first().click();
  await page.locator("#network .link.down").waitFor();
  await page.locator("#inspector input[name=rate]").fill("3 Mbit/s");
  await page.locator("#inspector input[name=loss]").fill("0.01");
  await page.locator("#inspector input[name=limit]").fill("12 packets");
  await page.locator("#inspector button[type=submit]").click();
  await page.waitForFunction(() => /3 Mbit/.test(document.querySelector("#orders")?.textContent ?? ""));
  await page.locator("#step").click();
  await page.locator("#inspector button.wide").first().click();
  await page.waitForFunction(() => document.querySelectorAll("#orders li").length >= 2);
  await page.keyboard.press("Escape");
  const found = await finish(page);
  await page.locator("#share-button").click();
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save the scenario" }).click();
  const text = readFileSync(await (await saving).path(), "utf8");
  assert.match(text, /\[\[event\]\]/);
  assert.equal(nativeDigest(text), found);
  await page.getByRole("button", { name: "Copy a link" }).click();
  await page.waitForFunction(() => location.hash.startsWith("#v1."));
  const orders = await page.locator("#orders li").count();
  const again = await open(browser, { url: page.url() });
  await ready(again.page);
  assert.equal(await again.page.locator("#orders li").count(), orders);
  assert.equal(await finish(again.page), found);
  await again.context.close();
  await context.close();
});

test("an order during play has its exact time", async () => {
  const { page, context } = await open(browser);
  await runShort(page);
  await page.locator("#network .label .name").nth(1).click();
  await page.waitForFunction(() => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0") > 0.05);
  await page.locator("#inspector input[name=rate]").fill("1 Mbit/s");
  await page.locator("#inspector button[type=submit]").click();
  await page.locator("#orders li").waitFor();
  await page.keyboard.press("Escape");
  const found = await finish(page);
  await page.locator("#share-button").click();
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save the scenario" }).click();
  assert.equal(nativeDigest(readFileSync(await (await saving).path(), "utf8")), found);
  await page.keyboard.press("Escape");
  await page.locator("#restart").click();
  await page.waitForFunction(() => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0") < 1.9);
  assert.equal(await finish(page), found);
  await context.close();
});

test("going back gives the same packets", async () => {
  const { page, context } = await open(browser);
  await runShort(page);
  const first = await finish(page);
  await page.locator("#time").focus();
  await page.keyboard.press("PageDown");
  await page.waitForFunction(() => /^Paused at 1\.8/.test(document.querySelector("#live")?.textContent ?? ""));
  assert.equal(await finish(page), first);
  await context.close();
});

test("digests equal those of the command", async (t) => {
  const { page, context } = await open(browser, { options: { reducedMotion: "reduce" } });
  await ready(page);
  for (const [name, text] of [...lessons(), ...examples()]) {
    const short = text.replace(/^duration = .*$/m, 'duration = "4 s"').replace(/^warmup = .*$/m, "").replace(/^start = .*$/m, "").replace(/^\[\[event\]\]\n(?:[^[\n].*\n|\n)*/gm, "");
    await t.test(name, async () => {
      await page.locator("#share-button").click();
      await page.locator("#dialog input[type=file]").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(short) });
      await page.waitForFunction(() => !(/** @type {HTMLDialogElement} */ (document.querySelector("#dialog")).open));
      await page.waitForFunction(() => /^0\.000/.test(document.querySelector("#clock")?.textContent ?? ""));
      assert.equal(await finish(page), nativeDigest(short));
    });
  }
  await context.close();
});

test("keyboard alone is enough", async () => {
  const { page, context } = await open(browser, { options: { reducedMotion: "reduce" } });
  await ready(page);
  /** @param {string} selector */
  const tabTo = async (selector) => {
    for (let presses = 0; presses < 60; presses++) {
      if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`Tab does not reach ${selector}`);
  };
  await tabTo("#network .link");
  await page.keyboard.press("Enter");
  assert.ok(await page.evaluate(() => document.activeElement?.closest("#inspector") !== null));
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("#network .link.down").length === 1);
  await page.keyboard.press("Escape");
  assert.ok(await page.evaluate(() => document.activeElement?.matches("#network .link")));
  await page.keyboard.press("Space");
  assert.ok(await page.locator("#inspector").isVisible());
  await page.keyboard.press("Escape");
  await tabTo("#play");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0") > 0.02);
  await page.keyboard.press("Enter");
  await tabTo("#speed");
  await page.keyboard.press("ArrowRight");
  await tabTo("#chart-window .frame");
  for (let presses = 0; presses < 12; presses++) await page.keyboard.press("ArrowRight");
  assert.match((await page.locator("#chart-window .readout").textContent()) ?? "", / s/);
  await page.keyboard.press("+");
  assert.equal(await page.locator("#span").inputValue(), "zoom");
  await page.keyboard.press("0");
  assert.equal(await page.locator("#span").inputValue(), "whole");
  await tabTo("#editor .cm-content");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.activeElement?.closest(".cm-editor") === null));
  await page.keyboard.press("l");
  assert.ok(await page.locator("#dialog").isVisible());
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#dialog").isHidden());
  await context.close();
});

test("axe finds nothing serious", async (t) => {
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    for (const width of [1440, 390]) {
      await t.test(`${colorScheme}, ${width} pixels`, async () => {
        const { page, context } = await open(browser, { options: { colorScheme, viewport: { width, height: 900 } } });
        await ready(page);
        await page.waitForTimeout(1000);
        await page.locator("#play").click();
        await page.locator("#chart-rtt summary").click();
        assert.deepEqual(await violations(page), []);
        await page.locator("#network .label .name").nth(0).click();
        assert.deepEqual(await violations(page), []);
        await page.keyboard.press("Escape");
        await page.locator("#lessons-button").click();
        assert.deepEqual(await violations(page), []);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is too wide");
        await context.close();
      });
    }
  }
});

/** @param {import("playwright-core").Page} page */
async function violations(page) {
  // The page's policy allows no script, so axe runs in the context of the test.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    // @ts-expect-error axe is defined by its program
    const found = await axe.run({ resultTypes: ["violations"] });
    return found.violations
      .filter((/** @type {{impact: string}} */ { impact }) => impact === "serious" || impact === "critical")
      .map((/** @type {{id: string, nodes: {html: string}[]}} */ { id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
  });
}

test("why shows the findings of the command", async () => {
  const { page, context, errors } = await open(browser, { options: { reducedMotion: "reduce" } });
  await runShort(page);
  await page.locator("#play").click();
  await page.locator("#step").click();
  await page.locator("#network .label .name").nth(0).click();
  await page.locator("#inspector button.wide").first().click();
  await page.locator("#network .link.down").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#share-button").click();
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save the scenario" }).click();
  const expected = nativeFindings(readFileSync(await (await saving).path(), "utf8"));
  await page.keyboard.press("Escape");
  await page.locator("#dialog").waitFor({ state: "hidden" });
  await page.keyboard.press("w");
  await page.locator(".why").waitFor();
  await page.locator(".why h3").waitFor();
  assert.deepEqual(await violations(page), []);
  const sentences = await page.locator(".why li p").allTextContents();
  assert.equal(sentences.length, expected.length);
  assert.ok(expected.length > 0 && /^Link "one" changes during the run/.test(expected[0]?.cause ?? ""));
  for (const [index, { cause }] of expected.entries()) assert.ok(sentences[index]?.startsWith(cause), `${cause} is not in: ${sentences[index]}`);
  await page.getByRole("button", { name: /remedy 1$/ }).click();
  await page.waitForFunction(() => /The run is over/.test(document.querySelector("#live")?.textContent ?? ""));
  const rows = await page.locator("#difference td").allTextContents();
  assert.ok(Number(rows[0]) > Number(rows[1]), rows.join(", "));
  assert.match((await page.locator("#difference caption").textContent()) ?? "", /0 to 2\.00 s/);
  assert.deepEqual(errors, []);
  await context.close();
});

test("why can be cancelled and refuses UDP", async () => {
  const { page, context, errors } = await open(browser, { options: { reducedMotion: "reduce", viewport: { width: 390, height: 900 }, colorScheme: "dark" } });
  await ready(page);
  await page.locator("#why").click();
  // The late event of another dialog ends nothing.
  await page.evaluate(() => document.querySelector("#dialog")?.dispatchEvent(new Event("close")));
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".why [role=status]", { hasText: "The explanation was cancelled." }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#dialog").isHidden());
  await write(page, SHORT.replace('"mptcp"\npaths = "disjoint"', '"udp"\nworkload = { kind = "rate", rate = "1 Mbit/s" }'));
  await page.locator("#run").click();
  await page.waitForFunction(() => document.querySelector("#title")?.textContent === "Short");
  await page.locator("#why").click();
  await page.locator(".why [role=status]", { hasText: "explain needs a TCP, MPTCP or SCTP flow." }).waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is too wide");
  assert.deepEqual(errors, []);
  await context.close();
});

test("mistakes are marked and the run stays", async () => {
  const { page, context } = await open(browser);
  await runShort(page);
  await write(page, SHORT.replace('rate = "5', 'rat = "5'));
  await page.locator(".cm-lint-marker-error").waitFor();
  await page.locator("#run").click();
  assert.match((await fault(page)) ?? "", /^Line 7: unknown key "rat" .*did you mean "rate"\?$/);
  assert.equal(await page.locator("#title").textContent(), "Short");
  await page.locator("#seed").fill("-3");
  await page.locator("#run").click();
  await page.waitForFunction(() => /The seed must be/.test(document.querySelector("#fault")?.textContent ?? ""));
  await context.close();
});

test("completion offers keys and values", async () => {
  const { page, context } = await open(browser, { options: { reducedMotion: "reduce" } });
  await ready(page);
  await write(page, `${SHORT}conges`);
  await page.keyboard.press("Control+Space");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "congestion" }).waitFor();
  await write(page, `${SHORT}congestion = `);
  await page.keyboard.press("Control+Space");
  await page.locator(".cm-tooltip-autocomplete li", { hasText: "olia" }).waitFor();
  await context.close();
});

test("bad links are reported in one sentence", async (t) => {
  const large = `${SHORT}#${"x".repeat(300 * 1024)}`;
  const link = await makeLink({ scenario: large, seed: null, orders: [] });
  const whole = await makeLink({ scenario: SHORT, seed: 3, orders: [] });
  for (const [name, fragment, sentence] of /** @type {const} */ ([
    ["damaged", whole.slice(0, -12), /^This link is damaged/],
    ["changed", `${whole.slice(0, 20)}AAAA${whole.slice(24)}`, /^This link is damaged/],
    ["foreign", "section", /^This link is damaged/],
    ["newer", whole.replace("v1.", "v2."), /^This link has format 2, but this page reads formats up to 1/],
    ["too large", link, /^This scenario has 301 KiB, but the page opens at most 256 KiB/],
  ])) {
    await t.test(name, async () => {
      const { page, context, errors } = await open(browser);
      await ready(page);
      const again = await open(browser, { url: `${page.url()}#${fragment}` });
      await again.page.locator("#fault:not([hidden])").waitFor();
      assert.match((await fault(again.page)) ?? "", sentence);
      assert.deepEqual([...errors, ...again.errors], []);
      await again.context.close();
      await context.close();
    });
  }
});

/** @param {object} visit */
async function makeLink(visit) {
  const packed = new Blob([JSON.stringify(visit)]).stream().pipeThrough(new CompressionStream("gzip"));
  return `v1.${Buffer.from(await new Response(packed).arrayBuffer()).toString("base64url")}`;
}

test("missing features are reported in one sentence", async (t) => {
  await t.test("WebAssembly", async () => {
    const { page, context } = await open(browser, { before: () => Reflect.deleteProperty(globalThis, "WebAssembly") });
    await page.locator("#fault:not([hidden])").waitFor();
    assert.match((await fault(page)) ?? "", /^This browser has no WebAssembly/);
    await context.close();
  });
  await t.test("DecompressionStream", async () => {
    const { page, context } = await open(browser, { before: () => Reflect.deleteProperty(globalThis, "DecompressionStream") });
    await page.locator("#fault:not([hidden])").waitFor();
    assert.match((await fault(page)) ?? "", /^This browser has no DecompressionStream/);
    await context.close();
  });
});

test("a browser that compiles no module at once runs the page", async () => {
  const { page, context, errors } = await open(browser, {
    before: () => {
      WebAssembly.Module = /** @type {typeof WebAssembly.Module} */ (
        /** @type {unknown} */ (
          function refuse() {
            throw new RangeError("the module is too large for this thread");
          }
        )
      );
    },
  });
  await ready(page);
  await finish(page);
  assert.deepEqual(errors, []);
  await context.close();
});

test("reduced motion keeps the run at its start", async () => {
  const { page, context } = await open(browser, { options: { reducedMotion: "reduce" } });
  await ready(page);
  await page.waitForTimeout(500);
  assert.match((await page.locator("#clock").textContent()) ?? "", /^0\.000/);
  await context.close();
});

test("every lesson opens, and its attempt works", async (t) => {
  const { page, context, errors } = await open(browser);
  await ready(page);
  await page.locator("#lessons-button").click();
  const number = await page.locator("#dialog .list button").count();
  assert.equal(number, 10);
  await page.keyboard.press("Escape");
  for (let lesson = 0; lesson < number; lesson++) {
    await page.locator("#lessons-button").click();
    await page.locator("#dialog .list button").nth(lesson).click();
    const title = (await page.locator("#lesson-title").textContent()) ?? "";
    await t.test(title, async () => {
      await page.waitForFunction(() => Number.parseFloat(document.querySelector("#clock")?.textContent ?? "0") > 0.01);
      const before = await page.locator("#editor .cm-content").textContent();
      await page.locator("#lesson .try button").click();
      await page.waitForFunction(
        (old) => document.querySelectorAll("#orders li").length > 0 || document.querySelector("#editor .cm-content")?.textContent !== old,
        before,
      );
      assert.ok(await page.locator("#fault").isHidden());
    });
  }
  assert.deepEqual(errors, []);
  await context.close();
});

test("files of charts have the data", async () => {
  const { page, context } = await open(browser);
  await runShort(page);
  await finish(page);
  /** @param {string} name */
  const saved = async (name) => {
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: `Save Goodput as ${name}` }).click();
    return readFileSync(await (await saving).path());
  };
  const rows = (await saved("CSV")).toString().trim().split("\n").map((row) => row.split(","));
  assert.deepEqual(rows[0], ["time in s", "transfer together in Mbit/s", "transfer · one in Mbit/s", "transfer · two in Mbit/s"]);
  assert.equal(Number(rows.at(-1)?.[0]), 2);
  const together = rows.slice(1).map((row) => Number(row[1]));
  const mean = together.reduce((sum, value) => sum + value, 0) / together.length;
  assert.ok(mean > 3 && mean < 7, String(mean));
  const svg = (await saved("SVG")).toString();
  assert.match(svg, /^<svg [^]*<\/svg>$/);
  assert.deepEqual((await saved("PNG")).subarray(0, 4), Buffer.from([0x89, 0x50, 0x4e, 0x47]));
  await context.close();
});

test("kept run stands behind later runs", async () => {
  const { page, context, errors } = await open(browser);
  await runShort(page);
  const headings = () => page.locator("#chart-goodput thead th").allTextContents();
  const first = await finish(page);
  const kept = await table(page, "goodput");
  await page.locator("#keep").click();
  assert.ok(await page.locator("#difference").isHidden());
  await write(page, SHORT.replace("5 Mbit/s", "9 Mbit/s"));
  await page.locator("#run").click();
  await page.waitForFunction(() => document.querySelector("#difference:not([hidden])") !== null);
  assert.notEqual(await finish(page), first);
  const together = "transfer together, Mbit/s";
  assert.deepEqual((await headings()).filter((name) => name.endsWith(together)), [`kept ${together}`, together]);
  const rows = await table(page, "goodput");
  assert.deepEqual(rows.map((row) => row.slice(0, 4)), kept);
  const [now, before, change] = await page.locator("#difference td").allTextContents();
  assert.ok(Number(now) > Number(before) && Number(before) > 3, `${now} ${before}`);
  const [, amount, share = ""] = /^\+([0-9.]+) \(\+([0-9.]+) %\)$/.exec(change ?? "") ?? [];
  assert.ok(Math.abs(Number(amount) - (Number(now) - Number(before))) < 0.011, `${change}`);
  assert.ok(Math.abs(Number(share) - (100 * Number(amount)) / Number(before)) < 1, `${change}`);
  await page.locator("#keep").focus();
  await page.keyboard.press("k");
  assert.deepEqual((await headings()).filter((name) => name.endsWith(together)), [together]);
  assert.ok(await page.locator("#difference").isHidden());
  assert.deepEqual(errors, []);
  await context.close();
});
