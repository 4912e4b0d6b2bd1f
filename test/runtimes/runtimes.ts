import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { buildServer, isServerStale } from "../../src/entries/build/server.ts";
import { type Command, type DenoNeeds, denoPermissions } from "../../src/entries/launcher/runtimes.ts";

/** The runtimes in the order of the table in src/docs/runtimes.md. */
export const RUNTIMES = ["Node 20", "Node 22", "Node 24", "Bun", "Deno", "workerd"] as const;
export type Runtime = (typeof RUNTIMES)[number];

const ROOT = resolve(import.meta.dirname, "../..");

/**
 * Other Node versions come from npm's cache (npx). As dependencies, their `node` would shadow the one that npm scripts
 * run.
 */
const NODES: Readonly<Record<string, string>> = { 20: "20.20.2", 22: "22.23.3", 24: "24.21.0" };

/** Returns the executable of a Node release line; the current process's if it matches. */
async function nodeProgram(line: string): Promise<string> {
  if (process.versions.node.startsWith(`${line}.`)) return process.execPath;
  const given = ["--yes", "--package", `node@${NODES[line]}`, "--", "node", "-p", "process.execPath"];
  const { stdout } = await promisify(execFile)("npx", given, { cwd: "/" });
  return stdout.trim();
}

const installed = (name: string) => resolve(ROOT, "node_modules/.bin", name);

/**
 * Returns the command that runs a script limited to the network, the environment and this project's files. `needs`: what it
 * may use beside them.
 */
export async function programOf(runtime: Exclude<Runtime, "workerd">, needs: DenoNeeds = {}): Promise<Command> {
  switch (runtime) {
    case "Bun":
      return [installed("bun")];
    case "Deno":
      return [installed("deno"), "run", ...denoPermissions(needs)];
    case "Node 20":
      // Newer Node versions run TypeScript sources directly.
      return [await nodeProgram("20"), "--import", "tsx"];
    default:
      return [await nodeProgram(runtime.slice(-2))];
  }
}

/** Returns the command of the REST process: on Node the built one, as containers run it. */
export async function builtRestOn(runtime: Runtime, needs: DenoNeeds = {}): Promise<Command> {
  if (runtime === "workerd" || !runtime.startsWith("Node")) return restOn(runtime, needs);
  if (isServerStale()) await buildServer();
  const [program] = await programOf(runtime);
  return [program, "dist/server/node.js"];
}

/** Returns the command that starts the REST process on a runtime, from its sources. */
export async function restOn(runtime: Runtime, needs: DenoNeeds = {}): Promise<Command> {
  if (runtime === "workerd") return [process.execPath, "--import", "tsx", "src/entries/launcher/dev-worker.ts"];
  const entry = runtime === "Bun" ? "bun" : runtime === "Deno" ? "deno" : "node";
  return [...(await programOf(runtime, needs)), `src/entries/${entry}.ts`];
}
