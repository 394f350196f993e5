// Runs scenarios in the WebAssembly module and prints their digests. Input: node digests.mjs MODULE < JSON list of
// {text, seed, orders: [[time_ns, order]], step_ns}. Output: one digest per line.
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const lab = instance.exports;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

const output = (len) => decoder.decode(new Uint8Array(lab.memory.buffer, lab.lab_output(), Math.abs(len)));
const checked = (status) => {
  if (status < 0) throw new Error(output(status));
  return status;
};
const withText = (text, call) => {
  const bytes = encoder.encode(text);
  const address = lab.lab_alloc(bytes.length);
  new Uint8Array(lab.memory.buffer, address, bytes.length).set(bytes);
  const status = call(address, bytes.length);
  lab.lab_free(address, bytes.length);
  return checked(status);
};

for (const { text, seed, orders, step_ns } of JSON.parse(readFileSync(0, "utf-8"))) {
  const run = withText(text, (address, len) => lab.lab_open(address, len, BigInt(seed)));
  const { duration_ns } = JSON.parse(output(checked(lab.lab_network(run))));
  const stops = orders.map(([at]) => at);
  for (let at = step_ns; at < duration_ns && step_ns > 0; at += step_ns) stops.push(at);
  stops.push(duration_ns);
  for (const stop of [...new Set(stops)].sort((a, b) => a - b)) {
    checked(lab.lab_step_until(run, stop));
    checked(lab.lab_sample(run));
    for (const [at, order] of orders) {
      if (at === stop) withText(order, (address, len) => lab.lab_order(run, address, len));
    }
  }
  console.log(output(checked(lab.lab_digest(run))));
  lab.lab_close(run);
}
