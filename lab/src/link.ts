/** The state of the page as the fragment of a link: scenario, changes of links and seed, compressed. */

import type { Order } from "./core/types";

export interface Visit {
  scenario: string;
  seed: number | null;
  orders: Order[];
}

/** Format of the links that this page writes, and the newest one that it reads. */
const VERSION = 1;

/** Largest scenario that the page opens, in bytes of UTF-8. */
export const MAX_SCENARIO_BYTES = 256 * 1024;
const MAX_VISIT_BYTES = 2 * MAX_SCENARIO_BYTES;

/** A link or scenario that cannot be opened, in one sentence. */
export class BadVisit extends Error {}

export async function fragmentOf(visit: Visit): Promise<string> {
  const text = JSON.stringify({ scenario: visit.scenario, seed: visit.seed, orders: visit.orders });
  const packed = await through(new CompressionStream("gzip"), new TextEncoder().encode(text));
  return `v${VERSION}.${base64url(packed)}`;
}

/** Reads a fragment. Gzip's checksum finds damage.
 *
 * @throws BadVisit if it is damaged, of a newer version or too large.
 */
export async function visitOf(fragment: string): Promise<Visit> {
  const parts = /^v(\d+)\.([\w-]*)$/.exec(fragment);
  if (parts === null) throw damaged();
  const version = Number(parts[1]);
  if (version > VERSION) {
    throw new BadVisit(
      `This link has format ${version}, but this page reads formats up to ${VERSION}; open it with a newer Anabranch.`,
    );
  }
  let plain: Uint8Array;
  try {
    plain = await through(new DecompressionStream("gzip"), fromBase64url(parts[2]!), MAX_VISIT_BYTES);
  } catch (error) {
    if (error instanceof BadVisit) throw error;
    throw damaged();
  }
  const visit = valid(plain);
  checkSize(visit.scenario);
  return visit;
}

/** @throws BadVisit if a scenario is larger than the page opens. */
export function checkSize(scenario: string): void {
  const bytes = new TextEncoder().encode(scenario).length;
  if (bytes > MAX_SCENARIO_BYTES) {
    throw new BadVisit(
      `This scenario has ${kib(bytes)} KiB, but the page opens at most ${kib(MAX_SCENARIO_BYTES)} KiB; ` +
        "run it with the command: anabranch run FILE.",
    );
  }
}

function kib(bytes: number): number {
  return Math.ceil(bytes / 1024);
}

function damaged(): BadVisit {
  return new BadVisit("This link is damaged: it does not contain a whole scenario; copy it again.");
}

function valid(bytes: Uint8Array): Visit {
  let value: Partial<Visit>;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Visit>;
  } catch {
    throw damaged();
  }
  const { scenario, seed, orders } = value;
  const isSeed = seed === null || (Number.isSafeInteger(seed) && Number(seed) >= 0);
  if (typeof scenario !== "string" || !isSeed || !Array.isArray(orders) || !orders.every(isOrder)) throw damaged();
  return { scenario, seed: seed as number | null, orders };
}

function isOrder(value: unknown): value is Order {
  const order = value as Partial<Order> | null;
  return (
    typeof order === "object" &&
    order !== null &&
    typeof order.at_ns === "number" &&
    order.at_ns >= 0 &&
    typeof order.link === "string" &&
    typeof order.set === "object" &&
    order.set !== null &&
    ["both", "forward", "reverse"].includes(order.direction ?? "")
  );
}

/** Sends bytes through a stream; a limit protects from data that expands without end. */
async function through(stream: GenericTransformStream, bytes: Uint8Array, limit = Infinity): Promise<Uint8Array> {
  const reader = new Blob([bytes as BlobPart]).stream().pipeThrough(stream).getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const parts: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limit) {
      await reader.cancel();
      throw new BadVisit(
        `The scenario of this link has more than ${kib(limit)} KiB, but the page opens at most ${kib(MAX_SCENARIO_BYTES)} KiB.`,
      );
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}

function base64url(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64url(text: string): Uint8Array {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
}
