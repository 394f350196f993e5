/** The worker: unpacks the core, holds it, and answers one request after another. */

import { Core, CoreBug, CoreError } from "./abi";
import { unpack } from "./lzma";
import { Session } from "./session";
import type { Reply, Request } from "./types";

interface Scope {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown): void;
}

const scope = self as unknown as Scope;

function answer(session: Session, request: Request): unknown {
  switch (request.call) {
    case "check":
      return session.core.check(request.of.toml);
    case "keys":
      return session.core.keys();
    case "open":
      return session.open(request.of.toml, request.of.seed, request.of.orders, request.of.interval_ns);
    case "advance":
      return session.advance(request.of.until_ns, request.of.budget_ms, request.of.picture);
    case "order":
      return session.order(request.of.change);
    case "scenario":
      return session.core.scenario();
    case "result":
      return session.core.result();
    case "digest":
      return session.core.digest();
  }
}

function reply(session: Session, request: Request): Reply {
  try {
    return { id: request.id, gives: answer(session, request) };
  } catch (error) {
    if (error instanceof CoreError) return { id: request.id, problem: error.problem, isBug: false };
    const message = error instanceof CoreBug || error instanceof Error ? error.message : String(error);
    return { id: request.id, problem: { line: null, column: null, message }, isBug: true };
  }
}

/** Compiles the packed module from base64. */
async function compiled(text: string): Promise<WebAssembly.Module> {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return WebAssembly.compile(unpack(packed));
}

async function start(text: string): Promise<void> {
  const module = await compiled(text);
  const session = new Session(await Core.start(module));
  scope.onmessage = (event: MessageEvent) => {
    scope.postMessage(reply(session, event.data as Request));
  };
  scope.postMessage(module);
}

// The first message is the packed module, the first answer the compiled one. An error outside of a promise reaches the page.
scope.onmessage = (first: MessageEvent) => {
  start(first.data as string).catch((error: unknown) =>
    setTimeout(() => {
      throw error;
    }),
  );
};
