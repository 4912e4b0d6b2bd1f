import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { RUNTIMES, type RuntimeName } from "./askers.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PROGRAM = "test/local/spender.ts";

/** Bundles the program of a back end for Node: tests that start many save most of each start. @returns its path in the folder. */
export async function buildSpender(folder: string): Promise<string> {
  const outfile = join(folder, "spender.mjs");
  await build({ entryPoints: [join(ROOT, PROGRAM)], outfile, bundle: true, platform: "node", format: "esm" });
  return outfile;
}

/** A spend that a back end has journaled. */
export interface JournaledSpend {
  userId: string;
  amount: number;
  /** Undefined if it died before. `memory`: a lease had enough. */
  answer?: { isSpent: boolean; source: "memory" | "lease" | "service"; at: number };
}

/** A back end process that spends one feature. */
export interface Spender {
  readonly process: ChildProcess;
  readonly featureId: string;
  /** Spends once. */
  spend(userId: string, amount: number): Promise<{ eval: boolean; source: string }>;
  journal(): JournaledSpend[];
  kill(): Promise<void>;
  /** Lets it close its evaluator. @returns false if it failed. */
  end(): Promise<boolean>;
}

/** Starts a back end. With `users` it spends for them at random. */
export function startSpender(options: {
  url: string;
  key: string;
  featureId: string;
  limitId: string;
  users?: readonly string[];
  journal: string;
  /** Runtime of the sources. Default: Node. */
  runtime?: RuntimeName;
  /** Path that {@link buildSpender} returned, to run on Node. Default: the sources. */
  built?: string;
}): Spender {
  const { url, key, featureId, limitId, users = [], journal, runtime = "Node", built } = options;
  writeFileSync(journal, "");
  const [program, ...given] = built === undefined ? [...RUNTIMES[runtime], PROGRAM] : [process.execPath, built];
  const values = [url, key, featureId, limitId, users.join(), journal];
  const child = spawn(program, [...given, ...values], { cwd: ROOT, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise<number | null>((done) => child.once("exit", (code) => done(code)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    process: child,
    featureId,
    spend: async (userId, amount) => {
      child.stdin.write(`${userId} ${amount}\n`);
      const { value } = await lines.next();
      return JSON.parse(String(value));
    },
    journal: () => readJournal(readFileSync(journal, "utf8")),
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
    end: async () => {
      child.stdin.end();
      return (await exited) === 0;
    },
  };
}

function readJournal(text: string): JournaledSpend[] {
  const spends = new Map<string, JournaledSpend>();
  for (const line of text.split("\n").slice(0, -1)) {
    const [word, id = "", one = "", two = ""] = line.split(" ");
    if (word === "try") spends.set(id, { userId: one, amount: Number(two) });
    const spend = spends.get(id);
    if (spend === undefined || (word !== "spent" && word !== "denied")) continue;
    spend.answer = { isSpent: word === "spent", source: one as "memory", at: Number(two) };
  }
  return [...spends.values()];
}
