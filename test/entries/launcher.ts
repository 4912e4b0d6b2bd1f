import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach } from "vitest";
import type { Runtime } from "../../src/entries/launcher/runtimes.ts";
import { freePort as anyFreePort } from "../support/event-server.ts";

/** Starts in a fourth of the time of the sources, which guides.e2e.test.ts starts. build-server.ts builds it. */
const START = fileURLToPath(new URL("../../dist/server/start.js", import.meta.url));

/** A running `npm start`, without npm. */
export interface Launcher {
  process: ChildProcess;
  output: () => string;
  errors: () => string;
  /** Exit code, or the signal that ended it. */
  exit: Promise<number | string>;
}

/** Parent of the data folder, and the ports, of the running test; new for each test. */
export let folder: string;
export let ports: { PORT: string; EVENTS_PORT: string };
const launched: Launcher[] = [];

/** Gives each test of a file its own folder and ports, and ends the processes that it left there. */
export function useLaunchers(): void {
  beforeEach(async () => {
    // Mode 0700, like a clone in `mktemp -d`: the user postgres may not enter it when root runs the test.
    folder = mkdtempSync(join(tmpdir(), "faregate-start-"));
    ports = { PORT: await freePort(), EVENTS_PORT: await freePort() };
  });
  afterEach(async () => {
    for (const { process, exit } of launched.splice(0)) {
      process.kill("SIGTERM");
      await exit;
    }
    killOn(folder);
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
}

/** Returns a port that is free. */
export const freePort = async (): Promise<string> => String(await anyFreePort());

/** Starts it in the folder. Default: with an embedded database, and REST on Node. */
export function launch(environment: Record<string, string | undefined> = {}, runtime: Runtime = "node"): Launcher {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(npm_|VITE|NODE_)/.test(name)),
  );
  const child = spawn(process.execPath, [START, runtime], {
    cwd: folder,
    env: { ...inherited, DATABASE_URL: undefined, DATA_DIR: join(folder, "data"), ...ports, ...environment },
  });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const launcher = {
    process: child,
    output: () => output,
    errors: () => errors,
    exit: new Promise<number | string>((resolve) =>
      child.once("close", (code, signal) => resolve(code ?? signal ?? "")),
    ),
  };
  launched.push(launcher);
  return launcher;
}

/** Waits until a condition holds, at most 60 s. */
export async function until(condition: () => boolean | Promise<boolean>, what: () => string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Starts it and waits until it has printed how to sign in. */
export async function launchAndWait(
  environment: Record<string, string | undefined> = {},
  runtime: Runtime = "node",
): Promise<Launcher> {
  const launcher = launch(environment, runtime);
  await until(
    () => launcher.output().includes("Sign in") || launcher.process.exitCode !== null,
    () => launcher.output() + launcher.errors(),
  );
  if (launcher.process.exitCode !== null) throw new Error(launcher.output() + launcher.errors());
  return launcher;
}

/**
 * Process ids whose command line or working directory contains this folder, including the launcher and its children.
 */
export function processesOn(where: string): number[] {
  const { stdout } = spawnSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" });
  return stdout
    .split("\n")
    .filter((line) => line.includes(where) && !line.includes("ps -eo"))
    .map((line) => Number.parseInt(line, 10));
}

/** Kills the processes on this folder, of which some may be ending by themselves. */
export function killOn(where: string): void {
  spawnSync("kill", ["-KILL", ...processesOn(where).map(String)]);
}

/** Process ids of the launcher's children that run this script. */
export function childOf(launcher: Launcher, script: string): number {
  const { stdout } = spawnSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8" });
  const line = stdout
    .split("\n")
    .find((line) => Number(line.trim().split(/\s+/)[1]) === launcher.process.pid && line.includes(script));
  return line === undefined ? -1 : Number.parseInt(line, 10);
}

/** True if the process exists and is not a zombie. */
export const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return !/^\S+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

/** Signs in and returns the ADMIN's key. */
export const signIn = (password: string, port = ports.PORT) =>
  fetch(`http://127.0.0.1:${port}/api/v1/users/authenticate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ username: "admin", password }),
  });

/** True if REST answers there. */
export const healthy = (port: string) =>
  fetch(`http://127.0.0.1:${port}/api/v1/healthcheck`).then(
    (answer) => answer.ok,
    () => false,
  );

/** Current URL of the embedded database. */
export async function databaseUrl(): Promise<string> {
  const { databasePassword } = JSON.parse(readFileSync(join(folder, "data", "secrets.json"), "utf8")) as {
    databasePassword: string;
  };
  const port = readFileSync(join(folder, "data", "postgres", "postmaster.pid"), "utf8").split("\n")[3];
  return `postgres://faregate:${databasePassword}@127.0.0.1:${port}/faregate`;
}
