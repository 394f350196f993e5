/** The worker of explanations: answers one request after another, and reports its progress. */

import { Core, CoreError } from "../core/abi";
import { Explainer, type Explanation, type Question } from "./explainer";
import { InputError } from "./host";

export type Request = { explain: Question } | { variant: string[] };
export type Reply =
  | { done: number; planned: number }
  | { explanation: Explanation }
  | { text: string }
  | { message: string; isBug: boolean };

interface Scope {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: Reply | "ready"): void;
}

const scope = self as unknown as Scope;

function answer(explainer: Explainer, request: Request): Reply {
  if ("variant" in request) return { text: explainer.variant(request.variant) };
  return { explanation: explainer.explain(request.explain, (done, planned) => scope.postMessage({ done, planned })) };
}

function reply(explainer: Explainer, request: Request): Reply {
  try {
    return answer(explainer, request);
  } catch (error) {
    const isBug = !(error instanceof InputError || error instanceof CoreError);
    return { message: error instanceof Error ? error.message : String(error), isBug };
  }
}

// The first message is the compiled module.
scope.onmessage = async (first: MessageEvent) => {
  const explainer = new Explainer(await Core.start(first.data as WebAssembly.Module));
  scope.onmessage = (event: MessageEvent) => scope.postMessage(reply(explainer, event.data as Request));
  scope.postMessage("ready");
};
