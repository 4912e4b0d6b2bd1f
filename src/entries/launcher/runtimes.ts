import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { StartupProblem } from "../../db/postgres/connect.ts";

/** What the launcher can run the REST process on; the event server runs on Bun beside Bun, otherwise on Node. */
const RUNTIMES = ["node", "bun", "deno", "worker"] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** A program and what it is given, the entry last. */
export type Command = readonly [string, ...string[]];

/** Node unless another one is named. StartupProblem for a name that is none. */
export function runtimeOf(name: string | undefined): Runtime {
  const runtime = RUNTIMES.find((known) => known === (name ?? "node"));
  if (runtime === undefined)
    throw new StartupProblem(`There is no runtime ${name}: take one of ${RUNTIMES.join(", ")}.`);
  return runtime;
}

/** How the two servers are started on a runtime. Bun and Deno: the ones that npm installed, or those on the PATH. */
export function commandsOf(runtime: Runtime): { rest: Command; events: Command } {
  const node = (name: string): Command => [process.execPath, "--import", import.meta.resolve("tsx"), entry(name)];
  const onNode = node("events-node.ts");
  switch (runtime) {
    case "node":
      return { rest: node("node.ts"), events: onNode };
    case "bun":
      return { rest: [program("bun"), entry("bun.ts")], events: [program("bun"), entry("events-bun.ts")] };
    case "deno":
      return { rest: [program("deno"), "run", ...denoPermissions(), entry("deno.ts")], events: onNode };
    case "worker":
      return { rest: node("launcher/dev-worker.ts"), events: onNode };
  }
}

/**
 * What the REST process may do on Deno, as in deno.json: the database and clients are the net, the configuration is the
 * environment, it reads its own sources and libraries, and the system's certificate authorities when it fetches a pricing.
 * Everything else fails at once instead of asking.
 */
export function denoPermissions(): string[] {
  const project = fileURLToPath(new URL("../../..", import.meta.url));
  return ["--no-prompt", "--allow-net", "--allow-env", `--allow-read=${project}`, "--allow-sys=ca"];
}

function entry(name: string): string {
  return fileURLToPath(new URL(`../${name}`, import.meta.url));
}

function program(name: string): string {
  const installed = fileURLToPath(new URL(`../../../node_modules/.bin/${name}`, import.meta.url));
  return existsSync(installed) ? installed : name;
}
