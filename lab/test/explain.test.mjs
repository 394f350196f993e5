// @ts-check
/** Explanations of the page equal those of `anabranch explain`: node --test lab/test/explain.test.mjs */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { ENVIRONMENT, PYTHON, ROOT } from "./browser.mjs";
import { explainer, programs } from "./explainer.mjs";
import { examples, lessons } from "./native.mjs";

const TARGET = process.env["CARGO_TARGET_DIR"] ?? join(ROOT, "target");
const RULES = process.env["LAB_RULES"] ?? join(ROOT, "target", "lab-rules.js");
const CORE = join(TARGET, "wasm32-unknown-unknown", "lab", "anabranch_lab.wasm");

/**
 * Two paths from a server to a phone, with other values of keys as TOML.
 *
 * @param {{ dsl?: Record<string, string>, lte?: Record<string, string>, flow?: Record<string, string>, duration?: string }} changed
 */
function twoPaths({ dsl = {}, lte = {}, flow = {}, duration = "3 s" } = {}) {
  const between = '["phone", "server"]';
  const first = { name: '"dsl"', between, rate: '"1 Mbit/s"', delay: '"10 ms"', queue: '{ limit = "64 kB" }', reverse: '{ rate = "8 Mbit/s" }', ...dsl };
  const second = { name: '"lte"', between, rate: '"5 Mbit/s"', delay: '"20 ms"', queue: '{ limit = "150 kB" }', reverse: '{ rate = "12 Mbit/s" }', ...lte };
  const transfer = { name: '"F"', from: '"server"', to: '"phone"', protocol: '"mptcp"', ...flow };
  const table = (/** @type {string} */ header, /** @type {Record<string, string>} */ values) =>
    [`[[${header}]]`, ...Object.entries(values).map(([key, value]) => `${key} = ${value}`), ""].join("\n");
  return `duration = "${duration}"\nwarmup = "1 s"\n${table("link", first)}${table("link", second)}${table("flow", transfer)}`;
}

const COMPETITOR = '[[flow]]\nname = "tcp"\nfrom = "server"\nto = "phone"\nprotocol = "tcp"\n';
const EVENTS = '[[event]]\nat = "1.5 s"\nlink = "lte"\nset = { state = "down" }\n[[event]]\nat = "2 s"\nlink = "dsl"\nset = { loss = { model = "bernoulli", rate = 0.02 }, delay = "60 ms" }\n';

/** Two paths that share a link: their possible rate is the optimum of a linear programme. */
const SHARED = `duration = "3 s"
[link_defaults]
rate = "6 Mbit/s"
delay = "5 ms"
[[link]]
name = "a"
between = ["S", "R"]
[[link]]
name = "b"
between = ["S", "R"]
rate = "3 Mbit/s"
[[link]]
name = "core"
between = ["R", "D"]
rate = "7 Mbit/s"
queue = { limit = "4 packets" }
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
`;
const THROUGH_M = `duration = "3 s"
[[link]]
name = "a"
between = ["S", "M"]
rate = "10 Mbit/s"
[[link]]
name = "a2"
between = ["M", "D"]
rate = "10 Mbit/s"
[[link]]
name = "b"
between = ["S", "D"]
rate = "5 Mbit/s"
[[middlebox]]
node = "M"
does = { kind = "strip-options" }
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
`;

const FAR = { delay: '"100 ms"' };
const FEW = { rate: '"40 kbit/s"' };
const FAULTS = {
  none: {},
  "receive buffer": { flow: { receive_buffer: '"32 kB"' } },
  "both buffers": { flow: { send_buffer: '"32 kB"', receive_buffer: '"32 kB"' } },
  application: { flow: { workload: '{ kind = "rate", rate = "2 Mbit/s" }' } },
  backup: { flow: { backup: '["lte"]' } },
  "one path": { flow: { protocol: '"tcp"' } },
  "link down": { lte: { state: '"down"' } },
  "random loss": { lte: { loss: '{ model = "bernoulli", rate = 0.02 }' }, dsl: { loss: '{ model = "bernoulli", rate = 0.01 }' } },
  "short queues": { lte: { queue: '{ limit = "3 packets" }' }, dsl: { queue: '{ limit = "4 packets" }' } },
  "short transfer": { dsl: FAR, lte: FAR, flow: { workload: '{ kind = "file", size = "60 kB" }' } },
  "way back": { dsl: FEW, lte: FEW },
  "requests over SCTP": { flow: { protocol: '"sctp"', workload: '{ kind = "request-response", request = "3 kB", response = "3 kB" }' } },
  "CMT-SCTP": { flow: { protocol: '"cmt-sctp"', receive_buffer: '"40 kB"', buffer_splitting: '"both"' } },
  "small packets": { lte: { mtu: "600" }, flow: { mtu: "576" } },
  "redundant scheduler": { flow: { scheduler: '"redundant"' } },
  "long queue": { lte: { queue: '{ limit = "2 MB" }' } },
  "short run": { duration: "1.02 s" },
};

/** Examples with events of flows, shared bottlenecks, several addresses, random losses, and a middlebox. */
const EXAMPLES = ["behind-a-nat", "bursty-loss", "dual-stack", "half-bottleneck", "handover", "ring"].map((name) => `${name}.toml`);

/**
 * A scenario cut to three seconds, with its events at other times.
 *
 * @param {string} text
 */
function shorter(text) {
  let events = 0;
  const cut = text.replace(/^duration = .*$/m, 'duration = "3 s"').replace(/^warmup = .*$/m, "").replace(/^start = .*$/gm, "");
  return cut.replace(/^at = .*$/gm, () => `at = "${(1 + 0.25 * events++).toFixed(2)} s"`);
}

/** @typedef {{ text: string, flow?: string, aim?: string, seed?: number, reps?: number }} Case */

/** @type {[string, Case][]} */
const CASES = [
  ...lessons().map(([name, text]) => /** @type {[string, Case]} */ ([`lesson ${name}`, { text: shorter(text) }])),
  ...examples().filter(([name]) => EXAMPLES.includes(name)).map(([name, text]) => /** @type {[string, Case]} */ ([`example ${name}`, { text: shorter(text), reps: 1 }])),
  ...Object.entries(FAULTS).map(([name, changed]) => /** @type {[string, Case]} */ ([name, { text: twoPaths(changed) }])),
  ["five seeds", { text: twoPaths(FAULTS["random loss"]), reps: 5 }],
  ["other flows", { text: twoPaths() + COMPETITOR, flow: "tcp", seed: 7 }],
  ["events", { text: twoPaths() + EVENTS }],
  ["delay", { text: twoPaths({ lte: { queue: '{ limit = "2 MB" }' } }), aim: "delay" }],
  ["shared link", { text: SHARED }],
  ["middlebox", { text: THROUGH_M }],
];

test("explanations equal those of the command", async (t) => {
  const cases = CASES.map(([, given]) => ({ flow: null, aim: "goodput", seed: null, reps: 2, ...given }));
  const expected = inPython("explanations", cases);
  const page = await explainer(RULES, CORE);
  for (const [index, [name]] of CASES.entries()) {
    await t.test(name, () => assert.deepEqual(found(page, cases[index]), without(expected[index])));
  }
});

/** Numbers with ties, exponents and many digits, and others with random digits. */
function numbers() {
  const chosen = [0, 0.5, 1.5, 2.5, -2.5, 0.125, 0.375, 2.675, 1e-5, 9.9995e-5, 123456789.5, 999.5, 0.0005, 12345, 100000, 1234567];
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return [...chosen, ...Array.from({ length: 300 }, () => Number(((random() - 0.5) * 10 ** (random() * 14 - 6)).toPrecision(1 + Math.floor(random() * 16))))];
}

test("numbers have the texts of Python", async () => {
  const { format, repr } = await programs(RULES);
  const specs = [".3g", ".2g", "g", ",", ".0f", "+.0f", ",.0f", ".1f", ".2f", ".3f", ".9f"];
  const values = numbers();
  const expected = inPython("texts", { specs, values });
  const found_ = values.map((value) => [repr(value), ...specs.map((spec) => format(value, spec))]);
  assert.deepEqual(found_, expected);
});

test("rates of networks are those of the solver", async () => {
  const { solveSimplex } = await programs(RULES);
  let state = 7;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const programmes = Array.from({ length: 60 }, () => {
    const [paths, links] = [1 + Math.floor(random() * 6), 1 + Math.floor(random() * 6)];
    const uses = Array.from({ length: links }, () => Array.from({ length: paths }, () => Number(random() < 0.5)));
    // Each path has a link, which bounds its rate; some links are down.
    uses.push(Array.from({ length: paths }, () => 1));
    return { costs: Array.from({ length: paths }, () => -1), uses, limits: uses.map(() => (random() < 0.1 ? 0 : random())) };
  });
  const expected = inPython("costs", programmes);
  for (const [index, { costs, uses, limits }] of programmes.entries()) {
    assert.ok(Math.abs(solveSimplex(costs, uses, limits).cost - expected[index]) < 1e-9, JSON.stringify(programmes[index]));
  }
});

test("a seed that a page cannot read is refused", async () => {
  const page = await explainer(RULES, CORE);
  const question = { seed: null, orders: [], flow: null, aim: /** @type {const} */ ("goodput"), reps: 2, timeLimit_s: 60 };
  assert.throws(() => page.explain({ ...question, scenario: `seed = 9007199254740993\n${twoPaths()}` }, () => undefined), /choose a smaller seed/);
});

/**
 * The answer of `explanations.py`.
 *
 * @param {string} name
 * @param {unknown} input
 */
function inPython(name, input) {
  const options = { env: ENVIRONMENT, input: JSON.stringify(input), encoding: /** @type {const} */ ("utf8"), maxBuffer: 1 << 28 };
  return JSON.parse(execFileSync(PYTHON, [join(ROOT, "lab", "test", "explanations.py"), name], options));
}

/**
 * The explanation of the page in the form of `explanations.py`, without the elapsed time.
 *
 * @param {import("../src/explain/explainer.ts").Explainer} page
 * @param {any} given
 */
function found(page, given) {
  try {
    const { document, head, findings, others } = page.explain({ ...given, scenario: given.text, orders: [], timeLimit_s: 600 }, () => undefined);
    return without({ document, head, sentences: findings.map(({ sentence, command }) => ({ sentence, command })), others });
  } catch (error) {
    return { message: error instanceof Error ? error.message : String(error) };
  }
}

/** @param {any} explained */
function without(explained) {
  if (explained.document !== undefined) delete explained.document.elapsed_s;
  return explained;
}
