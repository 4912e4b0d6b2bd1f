import { constants, setPriority } from "node:os";

/*
 * Where an analysis thread begins. Node inherits no loader for TypeScript in threads, so it is registered here; Bun and Deno
 * need none.
 */
if (!("Bun" in globalThis) && !("Deno" in globalThis)) {
  const { register } = await import("tsx/esm/api");
  register();
}
try {
  // Linux applies this to the calling thread only: requests on the event loop come first.
  if (process.platform === "linux" && "node" in process.versions) setPriority(0, constants.priority.PRIORITY_LOW);
} catch {
  // A sandbox may forbid it.
}
const { default: run } = await import("./analysis-thread.ts");

export default run;
