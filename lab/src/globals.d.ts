/** Program of the worker; the build puts it here. */
declare const WORKER: string;

declare module "*.toml" {
  const text: string;
  export default text;
}
