import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Miniflare } from "miniflare";
import { bundle } from "../support/bundle.ts";
import { programOf, type Runtime } from "./runtimes.ts";

/**
 * Calls `run` of a module of this folder on a runtime, and returns its result. Input and result pass as JSON. The module must
 * use no runtime API. `denoSys` names what a library of the module asks
 * Deno about the system.
 */
export function runOn(
  runtime: Runtime,
  module: string,
  input: unknown,
  denoSys: readonly string[] = [],
): Promise<unknown> {
  const path = resolve(import.meta.dirname, module);
  if (runtime === "workerd") return runInWorkerd(path, input);
  return runInProcess(runtime, path, input, denoSys);
}

async function runInProcess(
  runtime: Exclude<Runtime, "workerd">,
  path: string,
  input: unknown,
  denoSys: readonly string[],
): Promise<unknown> {
  const [program, ...flags] = await programOf(runtime);
  const given = flags.map((flag) => (flag.startsWith("--allow-sys=") ? [flag, ...denoSys].join(",") : flag));
  const runner = resolve(import.meta.dirname, "runner.ts");
  const child = spawn(program, [...given, runner, pathToFileURL(path).href], {
    cwd: resolve(import.meta.dirname, "../.."),
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.end(JSON.stringify(input));
  let said = "";
  for await (const chunk of child.stdout.setEncoding("utf8") as AsyncIterable<string>) said += chunk;
  return JSON.parse(said);
}

/** Runs without Node's compatibility flag, which what runs in pages does not need. */
async function runInWorkerd(path: string, input: unknown): Promise<unknown> {
  const worker = new Miniflare({
    modules: [
      {
        type: "ESModule",
        path: "worker.mjs",
        contents: `
          import { run } from "./module.mjs";
          export default { fetch: async (request) => Response.json(await run(await request.json())) };`,
      },
      { type: "ESModule", path: "module.mjs", contents: await bundle(path, { format: "esm" }) },
    ],
    modulesRoot: "/",
    compatibilityDate: "2026-03-01",
    cf: false,
  });
  try {
    const answer = await worker.dispatchFetch("http://worker/", { method: "POST", body: JSON.stringify(input) });
    return await answer.json();
  } finally {
    await worker.dispose();
  }
}
