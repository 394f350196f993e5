/** The page's side of the worker of explanations: one question at a time. */

import { startWorker } from "../core/start";
import type { Explanation, Question } from "./explainer";
import type { Reply, Request } from "./worker";

/** An explanation that the rules refuse, in one sentence, or a failure of the worker. */
export class NoExplanation extends Error {}

/** Duration after which a question is given up, although one run may not have ended. */
const MAX_DURATION_MS = 60_000;

export class Explaining {
  private readonly worker: Worker;
  private readonly ready: Promise<unknown>;
  private refuse: ((error: Error) => void) | null = null;

  constructor(program: string, module: Promise<WebAssembly.Module>) {
    ({ worker: this.worker, ready: this.ready } = startWorker([program]));
    module.then((compiled) => this.worker.postMessage(compiled));
  }

  /** @throws NoExplanation if the rules refuse the question, or it takes too long. */
  async explain(question: Question, progress: (done: number, planned: number) => void): Promise<Explanation> {
    const tooLong = `${MAX_DURATION_MS / 1000} s were not enough to run this scenario and its remedies; shorten its duration, or use the command: anabranch explain FILE.`;
    const timer = setTimeout(() => this.end(tooLong), MAX_DURATION_MS);
    try {
      const reply = await this.ask({ explain: question }, progress);
      return (reply as { explanation: Explanation }).explanation;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The explained scenario with settings, as text. */
  async variant(settings: string[]): Promise<string> {
    return ((await this.ask({ variant: settings }, () => undefined)) as { text: string }).text;
  }

  /** Ends the worker; a question that waits fails with the reason. */
  end(reason = "The explanation was cancelled."): void {
    this.worker.terminate();
    this.refuse?.(new NoExplanation(reason));
  }

  private async ask(request: Request, progress: (done: number, planned: number) => void): Promise<Reply> {
    const answered = new Promise<Reply>((resolve, reject) => {
      this.refuse = reject;
      this.worker.onerror = (event) => reject(new NoExplanation(`The explanation has failed, which is a bug: ${event.message}.`));
      this.ready.then(() => {
        this.worker.onmessage = ({ data }: MessageEvent<Reply>) => {
          if ("done" in data) progress(data.done, data.planned);
          else if ("message" in data) reject(new NoExplanation(sentence(data.message, data.isBug)));
          else resolve(data);
        };
        this.worker.postMessage(request);
      }, reject);
    });
    return answered.finally(() => (this.refuse = null));
  }
}

function sentence(message: string, isBug: boolean): string {
  return isBug ? `The explanation has failed, which is a bug: ${message}.` : `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}
