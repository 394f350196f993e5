/** Unpacks the core from the text in the page, by the module of `crates/unpack`. */

interface Exports {
  memory: WebAssembly.Memory;
  unpack_begin(length: number): number;
  unpack_step(): number;
  unpack_output(): number;
  unpack_output_len(): number;
}

/** The module of `crates/unpack` from base64. */
export function unpacker(text: string): WebAssembly.Module {
  return new WebAssembly.Module(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
}

/**
 * Unpacks a text.
 *
 * @throws Error if the text is damaged.
 */
export function unpack(by: WebAssembly.Module, text: string): Uint8Array<ArrayBuffer> {
  const exports = new WebAssembly.Instance(by, {}).exports as unknown as Exports;
  const address = exports.unpack_begin(text.length);
  new TextEncoder().encodeInto(text, new Uint8Array(exports.memory.buffer, address, text.length));
  let stepped = 0;
  while (stepped === 0) stepped = exports.unpack_step();
  if (stepped < 0) throw new Error("the packed data are damaged");
  const begin = exports.unpack_output();
  return new Uint8Array(exports.memory.buffer.slice(begin, begin + exports.unpack_output_len()));
}
