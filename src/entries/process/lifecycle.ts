import { StartupProblem } from "../../db/postgres/connect.ts";
import type { Log } from "../../http/route.ts";
import { type Config, readConfig, warningsOf } from "./config.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { createLog, withoutValues } from "./log.ts";

/** What a child tells its launcher. */
export type ChildMessage =
  | { type: "ready" }
  /** It will not start, and why, in one sentence. */
  | { type: "problem"; sentence: string }
  /** The id of the last event that was handed over: where a successor goes on. */
  | { type: "position"; id: number };

/** What `open` is given. */
export interface Process {
  config: Config;
  log: Log;
  /** Reaches the launcher; without one it does nothing. */
  tell(message: ChildMessage): void;
  /** True below a launcher, which has checked the configuration already. */
  hasLauncher: boolean;
}

/** In-flight requests get 10 s of these, the rest is for writing down and closing. */
const DRAIN_MS = 15_000;
/** npm repeats a terminal's Ctrl-C: only what comes later than this is a second wish. */
const SAME_SIGNAL_MS = 1000;

/**
 * Runs a server process from start to end. `open` starts it and returns what drains it. SIGTERM, SIGINT, and the end of
 * the launcher drain it and exit 0; a second signal ends it at once. Under a launcher SIGINT is left to that: a terminal
 * sends it to everybody. What keeps it from starting is one sentence on stderr and exit 1; an error that nobody caught is
 * logged and ends the process, because nobody knows what state it is in.
 */
export async function runProcess(
  name: string,
  open: (process: Process) => Promise<() => Promise<void>>,
): Promise<void> {
  const hasLauncher = process.send !== undefined;
  const tell = (message: ChildMessage) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
  let log: Log = createLog("info", name);
  let close: (() => Promise<void>) | undefined;
  let stopRequestedAt: number | undefined;
  let delayMs = 0;

  const stop = async () => {
    if (stopRequestedAt !== undefined) {
      if (Date.now() - stopRequestedAt > SAME_SIGNAL_MS) process.exit(1);
      return;
    }
    stopRequestedAt = Date.now();
    if (close === undefined) process.exit(0);
    log("info", "stopping");
    setTimeout(() => process.exit(1), DRAIN_MS + delayMs).unref();
    await close();
    log("info", "stopped");
    process.exit(0);
  };
  const die = (error: unknown) => {
    log("error", "unexpected error: this process ends", error);
    process.exit(1);
  };
  process.on("uncaughtException", die);
  process.on("unhandledRejection", die);
  process.on("SIGTERM", () => void stop());
  process.on("SIGINT", () => {
    if (!process.connected) void stop();
  });
  process.on("disconnect", () => void stop());

  try {
    requireRepairedDriver();
    const config = readConfig(process.env);
    log = createLog(config.LOG_LEVEL, name);
    delayMs = config.DRAIN_DELAY * 1000;
    close = await open({ config, log, tell, hasLauncher });
    if (!hasLauncher) for (const sentence of warningsOf(config)) log("warn", sentence);
    if (stopRequestedAt === undefined) tell({ type: "ready" });
  } catch (error) {
    const sentence = sentenceOf(error);
    if (hasLauncher) tell({ type: "problem", sentence });
    else process.stderr.write(`${sentence}\n`);
    if (!(error instanceof StartupProblem)) log("error", "could not start", error);
    // The launcher has the sentence once the channel has been written out.
    setTimeout(() => process.exit(1), hasLauncher ? 100 : 0);
  }
}

/** What to tell the operator of an error. */
export function sentenceOf(error: unknown): string {
  if (error instanceof StartupProblem) return error.message;
  return `Faregate could not start: ${error instanceof Error ? withoutValues(error.message) : String(error)}.`;
}
