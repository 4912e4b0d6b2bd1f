import { type ChildProcess, spawn } from "node:child_process";
import { StartupProblem } from "../../db/postgres/connect.ts";
import type { ChildMessage } from "../process/lifecycle.ts";
import type { WorkerMessage } from "../process/worker-metrics.ts";
import type { Command } from "./runtimes.ts";

/** Time for children to drain before SIGKILL; longer than their own deadline. */
const STOP_MS = 20_000;
/** A child that sends nothing for this time is blocked, and killed. */
const HANG_TIMEOUT_MS = 10_000;
const WATCH_MS = 1000;
const DELAYS_MS = [0, 500, 1000, 2000, 4000] as const;
const WINDOW_MS = 60_000;

/**
 * Creates a back-off for restarts: no delay at first, then growing ones. Returns undefined after more than five exits
 * per minute, when restarting is pointless.
 */
export function createBackoff(now: () => number = Date.now): () => number | undefined {
  let ends: number[] = [];
  return () => {
    ends = [...ends.filter((at) => now() - at < WINDOW_MS), now()];
    return DELAYS_MS[ends.length - 1];
  };
}

/**
 * Measures the silence of a child by counting ticks of one second. A clock would also count time during which this
 * process itself was suspended.
 */
function createSilence(): { end(): void; isTooLong(): boolean } {
  let ticks = 0;
  return {
    end: () => (ticks = 0),
    isTooLong: () => (ticks += 1) * WATCH_MS > HANG_TIMEOUT_MS,
  };
}

/** A child process that is restarted when it exits or hangs. */
export interface Supervised {
  /** Resolves when the child first reports ready; rejects with StartupProblem if it exits earlier. */
  ready: Promise<void>;
  /** Drains the child and resolves when it has exited. */
  stop(): Promise<void>;
  /** Sends SIGKILL. */
  kill(): void;
  /** Sends an IPC message, if the child runs. */
  send(message: object): void;
}

/**
 * Starts a child, configured by environment variables, and restarts it when it exits or its event loop hangs. When this process dies in any
 * way, the IPC channel closes, and the child drains and exits by itself.
 */
export function supervise(options: {
  name: string;
  /** A function starts the child itself, with its own environment. */
  command: Command | (() => ChildProcess);
  /** Called at each start. */
  environment: () => Record<string, string | undefined>;
  onMessage?: (message: ChildMessage | WorkerMessage) => void;
  /** Time that a child keeps serving after SIGTERM. */
  drainDelayMs?: number;
  /** Receives one sentence for the operator about each exit and restart. */
  report: (sentence: string) => void;
  /** Called when the child keeps exiting and is not restarted any more. */
  onGivingUp: (sentence: string) => void;
}): Supervised {
  const { name, report, command } = options;
  const backoff = createBackoff();
  let child: ChildProcess | undefined;
  let gone: Promise<void> = Promise.resolve();
  let hasBeenReady = false;
  let stopping = false;
  let settle: { resolve: () => void; reject: (error: Error) => void } | undefined;
  const ready = new Promise<void>((resolve, reject) => (settle = { resolve, reject }));

  const start = () => {
    let problem: string | undefined;
    const started = typeof command === "function" ? command() : spawnChild(command, options.environment());
    child = started;
    let isServing = false;
    const silence = createSilence();
    const watch = setInterval(() => {
      if (!isServing || !silence.isTooLong()) return;
      problem ??= `The ${name} did not respond for ${HANG_TIMEOUT_MS / 1000} s`;
      started.kill("SIGKILL");
    }, WATCH_MS);
    watch.unref();
    started.once("exit", () => clearInterval(watch));
    started.on("message", (message: ChildMessage | WorkerMessage) => {
      silence.end();
      if (message.type === "problem") problem = message.sentence;
      if (message.type === "ready") {
        if (hasBeenReady) report(`The ${name} is back.`);
        hasBeenReady = true;
        isServing = true;
        settle?.resolve();
      }
      options.onMessage?.(message);
    });
    gone = new Promise((resolve) => {
      started.on("error", (error) => {
        // After a failed message to a process that has died, its exit follows.
        if (started.pid !== undefined) return;
        const isMissing = "code" in error && error.code === "ENOENT";
        problem ??= isMissing ? `${started.spawnfile} is not installed: \`npm ci\` brings it along.` : error.message;
        // A process that never ran emits no exit event.
        resolve();
        if (!stopping) ended(problem, "not started");
      });
      started.once("exit", (code, signal) => {
        resolve();
        if (!stopping) ended(problem, signal ?? `code ${code}`);
      });
    });
  };
  const ended = (problem: string | undefined, how: string) => {
    if (!hasBeenReady) {
      settle?.reject(new StartupProblem(problem ?? `The ${name} ended before it could serve (${how}).`));
      return;
    }
    const delay = backoff();
    const what = problem ?? `The ${name} ended unexpectedly (${how})`;
    if (delay === undefined) {
      options.onGivingUp(`${what}; it keeps ending, so everything is stopped.`);
      return;
    }
    report(`${what.replace(/\.$/, "")}; starting it again${delay === 0 ? "" : ` in ${delay} ms`}.`);
    setTimeout(() => {
      if (!stopping) start();
    }, delay);
  };

  start();
  return {
    ready,
    stop: async () => {
      stopping = true;
      child?.kill("SIGTERM");
      const force = setTimeout(() => child?.kill("SIGKILL"), STOP_MS + (options.drainDelayMs ?? 0));
      await gone;
      clearTimeout(force);
    },
    send: (message) => {
      if (child?.connected === true) child.send(message, () => {});
    },
    kill: () => {
      stopping = true;
      child?.kill("SIGKILL");
    },
  };
}

/** Starts a child with an IPC channel. */
export function spawnChild([program, ...given]: Command, env: Record<string, string | undefined>): ChildProcess {
  return spawn(program, given, { env, stdio: ["ignore", "inherit", "inherit", "ipc"] });
}
