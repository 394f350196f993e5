/** Programs of the worker with the run and of that with explanations, and the module that unpacks the core, in base64; the build puts them here. */
declare const WORKER: string;
declare const EXPLAINER: string;
declare const UNPACKER: string;

/** The worker that `boot.ts` started, with its core. */
declare var startedCore: import("./core/start").StartedCore;

/** Makes the editor; `editor/program.ts` sets it. */
declare var makeEditor: (parent: HTMLElement, events: import("./editor/editor").EditorEvents) => import("./editor/editor").Editor;

declare module "*.toml" {
  const text: string;
  export default text;
}
