/** The worker: unpacks the core, holds it, and answers one request after another. */

import { Core, CoreBug, CoreError } from "./abi";
import { Session } from "./session";
import type { Reply, Request } from "./types";
import { unpack, unpacker } from "./unpack";

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

/** The core, compiled from the packed text; its module is the first answer. */
async function started(text: string): Promise<Session> {
  const module = await WebAssembly.compile(unpack(UNPACK, text));
  const session = new Session(await Core.start(module));
  scope.postMessage(module);
  return session;
}

const UNPACK = unpacker(UNPACKER);
let session: Promise<Session>;

/** An error outside of a promise reaches the page. */
function fail(error: unknown): void {
  setTimeout(() => {
    throw error;
  });
}

globalThis.unpackCore = (text) => {
  session = started(text);
  session.catch(fail);
};

// Requests can come before the core is compiled, and wait for it.
scope.onmessage = ({ data }: MessageEvent<Request>) => {
  session.then((core) => scope.postMessage(reply(core, data)), () => undefined);
};
