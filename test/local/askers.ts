import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { expect } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const ASKER = resolve(import.meta.dirname, "asker.ts");

/** Commands that run a program, by runtime. */
export const RUNTIMES = {
  Node: [process.execPath, "--import", "tsx"],
  Bun: [resolve(ROOT, "node_modules/.bin/bun")],
  Deno: [resolve(ROOT, "node_modules/.bin/deno"), "run", "-A", "--no-check"],
} as const;
export type RuntimeName = keyof typeof RUNTIMES;

/** An answer that an asker printed. */
interface Told {
  /** Milliseconds since 1970 until which it is known to be true; null without an answer. */
  knownAt: number | null;
  eval?: boolean;
  stale?: boolean;
  state: string;
}

export interface Asker {
  process: ChildProcess;
  told: Told[];
  /**
   * Waits for an answer that is known to be true after `committedAt`, and checks all that are.
   * @returns the answers since then.
   */
  expectAfter(committedAt: number, on: boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a back end that asks about this user all the time. */
export function startAsker(runtime: RuntimeName, url: string, key: string, userId: string): Asker {
  const [program, ...given] = RUNTIMES[runtime];
  const child = spawn(program, [...given, ASKER, url, key, userId], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  const told: Told[] = [];
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk: Buffer) => {
    const lines = (output + chunk.toString()).split("\n");
    output = lines.pop() ?? "";
    for (const line of lines) told.push(JSON.parse(line) as Told);
  });
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const gone = new Promise<void>((done) => child.once("exit", () => done()));
  const isAfter = (moment: number) => (answer: Told) => (answer.knownAt ?? -Infinity) >= moment;
  return {
    process: child,
    told,
    expectAfter: async (committedAt, on) => {
      await expect.poll(() => told.some(isAfter(committedAt)), { timeout: 30_000, message: errors }).toBe(true);
      expect(told.filter(isAfter(committedAt)).filter((answer) => answer.eval !== on)).toEqual([]);
    },
    stop: async () => {
      child.kill("SIGKILL");
      await gone;
    },
  };
}
