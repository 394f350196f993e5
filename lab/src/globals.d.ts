/** Programs of the worker with the run and of that with explanations; the build puts them here. */
declare const WORKER: string;
declare const EXPLAINER: string;

declare module "*.toml" {
  const text: string;
  export default text;
}
