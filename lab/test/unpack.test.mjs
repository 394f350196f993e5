// @ts-check
/** Tests of the module that unpacks the core: node --test lab/test/unpack.test.mjs */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { PYTHON, ROOT } from "./browser.mjs";

const FOLDER = mkdtempSync(join(tmpdir(), "unpack-"));
const TARGET = process.env["CARGO_TARGET_DIR"] ?? join(ROOT, "target");
const UNPACKER = readFileSync(join(TARGET, "wasm32-unknown-unknown", "lab", "anabranch_unpack.wasm")).toString("base64");
/** @type {(by: WebAssembly.Instance, text: string) => Uint8Array} */
let unpack;
/** @type {WebAssembly.Instance} */
let instance;

before(async () => {
  const outfile = join(FOLDER, "unpack.mjs");
  await build({ entryPoints: [join(ROOT, "lab", "src", "core", "unpack.ts")], outfile, format: "esm" });
  const module = await import(pathToFileURL(outfile).href);
  unpack = module.unpack;
  instance = await module.unpacker(UNPACKER);
});

/** @param {Uint8Array} data */
function packed(data) {
  const [plain, out] = [join(FOLDER, "plain"), join(FOLDER, "packed")];
  writeFileSync(plain, data);
  execFileSync(PYTHON, [join(ROOT, "lab", "pack.py"), plain, out]);
  return new Uint8Array(readFileSync(out));
}

/** @param {Uint8Array} data */
const unpacked = (data) => unpack(instance, Buffer.from(data).toString("base64"));

/**
 * Pseudorandom bytes below a limit: the smaller the limit, the more they repeat.
 *
 * @param {number} length
 * @param {number} limit
 */
function random(length, limit) {
  let state = 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 16) % limit;
  });
}

/** @param {number} length */
function records(length) {
  const noise = random(length, 256);
  return noise.map((byte, at) => (at % 24 < 20 ? at % 24 : byte));
}

test("unpacked data equal those that were packed", () => {
  /** @type {Record<string, Uint8Array>} */
  const cases = {
    nothing: new Uint8Array(),
    "one byte": Uint8Array.of(200),
    "one byte many times": new Uint8Array(300_000).fill(7),
    "noise": random(70_000, 256),
    "two letters": random(70_000, 2),
    "a far repetition": Uint8Array.of(...random(60_000, 256), ...random(60_000, 256)),
    "fields of records": records(200_000),
    "a text": new Uint8Array(readFileSync(join(ROOT, "ARCHITECTURE.md"))),
    "a program": new Uint8Array(readFileSync(process.execPath)).subarray(0, 3_000_000),
  };
  for (const [name, data] of Object.entries(cases)) {
    assert.ok(Buffer.compare(unpacked(packed(data)), data) === 0, name);
  }
});

test("damaged data are refused or differ", () => {
  const data = new Uint8Array(readFileSync(join(ROOT, "ARCHITECTURE.md")));
  const whole = packed(data);
  // The last bytes only complete the range decoder's code.
  for (let at = 5; at < whole.length - 8; at += 997) {
    const damaged = whole.slice();
    damaged[at] = (damaged[at] ?? 0) ^ 0x55;
    /** @type {Uint8Array | null} */
    let found = null;
    try {
      found = unpacked(damaged);
    } catch (error) {
      assert.equal(String(error), "Error: the packed data are damaged");
    }
    assert.ok(found === null || Buffer.compare(found, data) !== 0, `byte ${at}`);
  }
});

test("other texts are refused", () => {
  const whole = packed(new Uint8Array(readFileSync(join(ROOT, "ARCHITECTURE.md"))));
  const text = Buffer.from(whole).toString("base64");
  for (const damaged of ["", "AAAA", "Zm9vYmFyZm9v", text.slice(1), `${text.slice(0, 40)}-${text.slice(41)}`, `//////${text.slice(6)}`]) {
    assert.throws(() => unpack(instance, damaged), { message: "the packed data are damaged" }, damaged.slice(0, 50));
  }
});
