/** The worker: holds the core, and answers one request after another. */

import { Core, CoreBug, CoreError } from "./abi";
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

/** An error outside of a promise reaches the page. */
function fail(error: unknown): void {
  setTimeout(() => {
    throw error;
  });
}

// The first message is the compiled core. Requests that come before it has started wait for it.
scope.onmessage = ({ data: module }: MessageEvent<WebAssembly.Module>) => {
  const session = Core.start(module).then((core) => new Session(core));
  session.then(() => scope.postMessage("ready"), fail);
  scope.onmessage = ({ data }: MessageEvent<Request>) => {
    session.then((core) => scope.postMessage(reply(core, data)), () => undefined);
  };
};
