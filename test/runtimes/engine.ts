import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { Miniflare } from "miniflare";
import { bundle } from "../support/bundle.ts";
import type { EngineCase } from "./engine-cases.ts";
import { programOf, type Runtime } from "./runtimes.ts";

/** Runs the pricing engine's cases on a runtime; see runCase. */
export function engineIn(runtime: Runtime, cases: readonly EngineCase[], today: string): Promise<string[]> {
  return runtime === "workerd" ? inWorkerd(cases, today) : inProcess(runtime, cases, today);
}

async function inProcess(
  runtime: Exclude<Runtime, "workerd">,
  cases: readonly EngineCase[],
  today: string,
): Promise<string[]> {
  const [program, ...given] = await programOf(runtime);
  const child = spawn(program, [...given, resolve(import.meta.dirname, "engine-runner.ts")], {
    cwd: resolve(import.meta.dirname, "../.."),
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.end(JSON.stringify({ cases, today }));
  let said = "";
  for await (const chunk of child.stdout.setEncoding("utf8") as AsyncIterable<string>) said += chunk;
  return JSON.parse(said) as string[];
}

/** Runs without Node's compatibility flag, which the engine does not need. */
async function inWorkerd(cases: readonly EngineCase[], today: string): Promise<string[]> {
  const engine = await bundle(resolve(import.meta.dirname, "engine-cases.ts"), { format: "esm" });
  const worker = new Miniflare({
    modules: [
      {
        type: "ESModule",
        path: "worker.mjs",
        contents: `
          import { runCase } from "./engine.mjs";
          export default { fetch: async (request) => {
            const { cases, today } = await request.json();
            return Response.json(cases.map((each) => runCase(each, today)));
          } };`,
      },
      { type: "ESModule", path: "engine.mjs", contents: engine },
    ],
    modulesRoot: "/",
    compatibilityDate: "2026-03-01",
    cf: false,
  });
  try {
    const body = JSON.stringify({ cases, today });
    const answer = await worker.dispatchFetch("http://engine/", { method: "POST", body });
    return (await answer.json()) as string[];
  } finally {
    await worker.dispose();
  }
}
