/** Unpacks the core from the text in the page, by the module of `crates/unpack`. */

interface Exports {
  memory: WebAssembly.Memory;
  unpack_begin(length: number): number;
  unpack_step(): number;
  unpack_output(): number;
  unpack_output_len(): number;
}

/**
 * Starts the module of `crates/unpack`, which is in base64. Some browsers refuse to do this at once outside of workers; there it
 * takes until they have read the rest of the page.
 */
export function unpacker(text: string): WebAssembly.Instance | Promise<WebAssembly.Instance> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(bytes));
  } catch {
    return WebAssembly.instantiate(bytes).then(({ instance }) => instance);
  }
}

/**
 * Unpacks a text.
 *
 * @throws Error if the text is damaged.
 */
export function unpack(by: WebAssembly.Instance, text: string): Uint8Array<ArrayBuffer> {
  const exports = by.exports as unknown as Exports;
  const address = exports.unpack_begin(text.length);
  new TextEncoder().encodeInto(text, new Uint8Array(exports.memory.buffer, address, text.length));
  let stepped = 0;
  while (stepped === 0) stepped = exports.unpack_step();
  if (stepped < 0) throw new Error("the packed data are damaged");
  const begin = exports.unpack_output();
  return new Uint8Array(exports.memory.buffer.slice(begin, begin + exports.unpack_output_len()));
}
