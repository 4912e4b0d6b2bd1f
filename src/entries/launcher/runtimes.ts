import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isPackaged } from "../../core/command-line.ts";
import { forDriver } from "../../db/postgres/address.ts";
import { StartupProblem } from "../../db/postgres/connect.ts";
import { SERVER_FOLDER } from "../build/server.ts";

/** Runtimes for the REST process. The event server runs on Bun if that does, otherwise on Node. */
const RUNTIMES = ["node", "bun", "deno", "worker"] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** A program and its arguments, the entry last. */
export type Command = readonly [string, ...string[]];

/**
 * Returns the named runtime. Default: Node.
 * @throws StartupProblem for an unknown name.
 */
export function runtimeOf(name: string | undefined): Runtime {
  const runtime = RUNTIMES.find((known) => known === (name ?? "node"));
  if (runtime === undefined)
    throw new StartupProblem(`There is no runtime ${name}: take one of ${RUNTIMES.join(", ")}.`);
  return runtime;
}

const built = (name: string): Command => [process.execPath, join(SERVER_FOLDER, `${name}.js`)];

/**
 * Returns the start commands of both servers. `isBuilt`: those on Node are in dist/server. `hasWorkers`: REST is to run
 * several. Bun and Deno: the versions installed by npm, or else those on the PATH.
 */
export function commandsOf(
  runtime: Runtime,
  { isBuilt, ...needs }: { isBuilt: boolean } & DenoNeeds,
): { rest: Command; events: Command } {
  const source = (name: string): Command => [process.execPath, "--import", import.meta.resolve("tsx"), entry(name)];
  if (isPackaged && "Bun" in globalThis) return { rest: built("bun"), events: built("events-bun") };
  const node = (name: string): Command => (isBuilt ? built(name) : source(`${name}.ts`));
  const onNode = node("events-node");
  switch (runtime) {
    case "node":
      return { rest: node("node"), events: onNode };
    case "bun":
      return { rest: [program("bun"), entry("bun.ts")], events: [program("bun"), entry("events-bun.ts")] };
    case "deno":
      return { rest: [program("deno"), "run", ...denoPermissions(needs), entry("deno.ts")], events: onNode };
    case "worker":
      return { rest: source("launcher/dev-worker.ts"), events: onNode };
  }
}

/** Returns the command of a worker on Bun or Deno: this runtime, with the entry of its REST process. */
export function workerCommand(): Command {
  if ("Bun" in globalThis) {
    return [process.execPath, ...process.execArgv, isPackaged ? join(SERVER_FOLDER, "bun.js") : entry("bun.ts")];
  }
  // SO_REUSEPORT is unstable on Deno.
  const needs = { databaseUrl: process.env["DATABASE_URL"] };
  return [process.execPath, "run", "--unstable-net", ...denoPermissions(needs), entry("deno.ts")];
}

/** Settings that decide about the permissions of a REST process on Deno. */
export interface DenoNeeds {
  hasWorkers?: boolean;
  databaseUrl?: string | undefined;
}

/**
 * Deno permissions of the REST process, as in deno.json. Network: database and clients. Environment: configuration.
 * Read: its own sources and libraries. `--allow-sys=ca`: the system's certificate authorities, for downloads of
 * pricings. Run: only for the primary process of workers, which answers no requests. A database behind a Unix-domain
 * socket: that socket. Everything else fails at once instead of prompting.
 */
export function denoPermissions({ hasWorkers = false, databaseUrl = "" }: DenoNeeds = {}): string[] {
  const project = fileURLToPath(new URL("../../..", import.meta.url));
  const [, { path: socket }] = forDriver(databaseUrl, {});
  const sockets = socket === undefined ? [] : [socket.replaceAll(",", ",,")];
  const read = `--allow-read=${[project, ...sockets].join(",")}`;
  const write = sockets.map((path) => `--allow-write=${path}`);
  const permissions = ["--no-prompt", "--allow-net", "--allow-env", read, ...write, "--allow-sys=ca"];
  return hasWorkers ? [...permissions, "--allow-run"] : permissions;
}

function entry(name: string): string {
  return fileURLToPath(new URL(`../${name}`, import.meta.url));
}

function program(name: string): string {
  const installed = fileURLToPath(new URL(`../../../node_modules/.bin/${name}`, import.meta.url));
  return existsSync(installed) ? installed : name;
}
