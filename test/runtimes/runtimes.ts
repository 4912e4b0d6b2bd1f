import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { type Command, denoPermissions } from "../../src/entries/launcher/runtimes.ts";

/** The runtimes of the table of src/docs/runtimes.md, in its order. */
export const RUNTIMES = ["Node 20", "Node 22", "Node 24", "Bun", "Deno", "workerd"] as const;
export type Runtime = (typeof RUNTIMES)[number];

const ROOT = resolve(import.meta.dirname, "../..");

/**
 * The other Nodes, from npm's cache of its own: as dependencies, their `node` would be the one that every npm script runs.
 */
const NODES: Readonly<Record<string, string>> = { 20: "20.20.2", 22: "22.23.3", 24: "24.21.0" };

/** The program of a Node: this one, where it is of that line. */
async function nodeProgram(line: string): Promise<string> {
  if (process.versions.node.startsWith(`${line}.`)) return process.execPath;
  const given = ["--yes", "--package", `node@${NODES[line]}`, "--", "node", "-p", "process.execPath"];
  const { stdout } = await promisify(execFile)("npx", given, { cwd: "/" });
  return stdout.trim();
}

const installed = (name: string) => resolve(ROOT, "node_modules/.bin", name);

/** How a runtime is started on a script that needs nothing but the net, the environment, and this project's files. */
export async function programOf(runtime: Exclude<Runtime, "workerd">): Promise<Command> {
  switch (runtime) {
    case "Bun":
      return [installed("bun")];
    case "Deno":
      return [installed("deno"), "run", ...denoPermissions()];
    case "Node 20":
      // The others run the sources as they are.
      return [await nodeProgram("20"), "--import", "tsx"];
    default:
      return [await nodeProgram(runtime.slice(-2))];
  }
}

/** How the REST process is started on it. */
export async function restOn(runtime: Runtime): Promise<Command> {
  if (runtime === "workerd") return [process.execPath, "--import", "tsx", "src/entries/launcher/dev-worker.ts"];
  const entry = runtime === "Bun" ? "bun" : runtime === "Deno" ? "deno" : "node";
  return [...(await programOf(runtime)), `src/entries/${entry}.ts`];
}
