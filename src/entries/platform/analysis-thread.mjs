/*
 * Where an analysis thread begins. Node inherits no loader for TypeScript in threads, so it is registered here; Bun and Deno
 * need none.
 */
if (!("Bun" in globalThis) && !("Deno" in globalThis)) {
  const { register } = await import("tsx/esm/api");
  register();
}
const { default: run } = await import("./analysis-thread.ts");

export default run;
