import { commandLine } from "../../core/command-line.ts";
import { databaseError, StartupProblem } from "../../db/postgres/connect.ts";
import type { Log } from "../../http/context.ts";
import { type Config, readConfig, warningsOf } from "./config.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { createLog, withoutValues } from "./log.ts";

/** IPC messages of a child to its launcher. */
export type ChildMessage =
  | { type: "ready" }
  /** Startup failed; the reason in one sentence. */
  | { type: "problem"; sentence: string }
  /** Id of the last delivered event, where a successor resumes. */
  | { type: "position"; id: number }
  /** Sent every second while the event loop runs. */
  | { type: "heartbeat" };

/** Argument of `open`. */
export interface Process {
  config: Config;
  log: Log;
  /** Sends to the launcher; without one it does nothing. */
  tell(message: ChildMessage): void;
  /** True under a launcher, which has already validated the configuration. */
  hasLauncher: boolean;
}

/** SQLSTATE of a statement that names a table which is not there. */
const UNDEFINED_TABLE = "42P01";
/** Requests in flight get 10 s of these; the rest is for flushing and closing. */
const DRAIN_MS = 15_000;
/** Time between two heartbeats for the launcher. */
const HEARTBEAT_MS = 1000;
/** npm forwards a terminal's Ctrl-C a second time; only a later signal counts as the user's second. */
const SAME_SIGNAL_MS = 1000;

/**
 * Runs a server process from start to exit. `open` starts it and returns its drain function. SIGTERM, SIGINT and the
 * end of the launcher drain it and exit with 0; a second signal exits at once. Under a launcher it ignores SIGINT,
 * which a terminal sends to the whole process group. A failed startup prints one sentence to stderr and exits with 1.
 * An uncaught error is logged and ends the process, because its state is unknown.
 */
export async function runProcess(
  name: string,
  open: (process: Process) => Promise<() => Promise<void>>,
): Promise<void> {
  const hasLauncher = process.send !== undefined;
  const tell = (message: ChildMessage) => {
    // Deno does not report the end of a launcher that had messages left to read.
    const sent = (error: unknown) => {
      if (error instanceof Error) leave();
    };
    if (process.connected) process.send?.(message, undefined, undefined, sent);
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
  /** Stops because the launcher is gone. */
  const leave = () => {
    if (stopRequestedAt === undefined) void stop();
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
  process.on("disconnect", leave);

  try {
    requireRepairedDriver();
    const config = readConfig(process.env);
    log = createLog(config.LOG_LEVEL, name);
    delayMs = config.DRAIN_DELAY * 1000;
    close = await open({ config, log, tell, hasLauncher });
    if (!hasLauncher) for (const sentence of warningsOf(config)) log("warn", sentence);
    if (stopRequestedAt === undefined) tell({ type: "ready" });
    if (hasLauncher) setInterval(() => tell({ type: "heartbeat" }), HEARTBEAT_MS).unref();
  } catch (error) {
    const sentence = sentenceOf(error);
    if (hasLauncher) tell({ type: "problem", sentence });
    else process.stderr.write(`${sentence}\n`);
    if (!(error instanceof StartupProblem)) log("error", "could not start", error);
    // Give the IPC channel time to flush the sentence to the launcher.
    setTimeout(() => process.exit(1), hasLauncher ? 100 : 0);
  }
}

/**
 * Returns an error's message for the operator. `what` names the work that failed. Statements are left out: they say
 * nothing that an operator can act on.
 */
export function sentenceOf(error: unknown, what = "Faregate could not start"): string {
  if (error instanceof StartupProblem) return error.message;
  if (databaseError(error)?.code === UNDEFINED_TABLE) {
    return `The database has no schema yet: ${commandLine("start")} or ${commandLine("migrate")} makes it.`;
  }
  return `${what}: ${reasonOf(error)}.`;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isStatement = error.message.startsWith("Failed query: ") && error.cause !== undefined;
  return isStatement ? reasonOf(error.cause) : withoutValues(error.message);
}
