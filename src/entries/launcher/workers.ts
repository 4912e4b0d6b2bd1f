import cluster from "node:cluster";
import type { ChildProcess } from "node:child_process";
import { MIGRATIONS } from "../platform/migrations.ts";
import { requireMigrated } from "../../db/migrate.ts";
import { databaseOf, readConfig, workerCount } from "../process/config.ts";
import { runProcess } from "../process/lifecycle.ts";
import { mergeMetrics, type WorkerMessage } from "../process/worker-metrics.ts";
import { supervise, type Supervised } from "./supervisor.ts";

/*
 * WORKERS: several REST processes on Node behind one port. The primary process accepts connections and hands each to the
 * next worker: an evaluation took 39 microseconds of processor time, in one process 36. Workers that accept by themselves
 * took 74. The primary restarts workers that end, drains them, and merges their metrics.
 */

/** A scrape leaves out workers that take longer. */
const METRICS_WAIT_MS = 1000;

/** Returns true if this process is to run workers. False for an invalid configuration, which REST reports. */
export function wantsWorkers(environment: Readonly<Record<string, string | undefined>>): boolean {
  if (!cluster.isPrimary) return false;
  try {
    return workerCount(readConfig(environment)) > 1;
  } catch {
    return false;
  }
}

/** Runs the primary process of the workers, from start to exit. */
export function runWorkers(): Promise<void> {
  return runProcess("rest-workers", async ({ config, log, hasLauncher }) => {
    const { databaseUrl } = databaseOf(config, hasLauncher);
    if (!hasLauncher) await requireMigrated(databaseUrl, MIGRATIONS);
    const workers: Supervised[] = [];
    const collector = createCollector(workers);
    for (let number = 1; number <= workerCount(config); number += 1) {
      workers.push(
        supervise({
          name: `REST worker ${number}`,
          command: () => fork(number),
          environment: () => ({}),
          drainDelayMs: config.DRAIN_DELAY * 1000,
          onMessage: collector.receive,
          report: (sentence) => log("warn", sentence),
          onGivingUp: (sentence) => {
            log("error", sentence);
            // Ends the workers too: their channel to this process closes.
            process.exit(1);
          },
        }),
      );
    }
    await Promise.all(workers.map((worker) => worker.ready));
    log("info", "REST is listening", { port: config.PORT, workers: workers.length });
    return async () => void (await Promise.all(workers.map((worker) => worker.stop())));
  });
}

/** Message of a worker to node:cluster. `ack`: it has received a connection, and keeps it if `accepted`. */
interface ClusterMessage {
  act?: string;
  ack: number;
  accepted?: boolean;
}

/** Workers that accept connections. */
const accepting = new Set<ChildProcess>();

/** Starts a worker, and repairs what node:cluster gets wrong when a worker dies. */
function fork(number: number): ChildProcess {
  const worker = cluster.fork({ WORKER_NUMBER: String(number) });
  const { process: child } = worker;
  // A message to a worker that has just died fails; without a listener that would end this process.
  worker.on("error", () => {});
  // Connections that the worker never acknowledged would stay open here, and their clients would wait forever.
  const unacknowledged = new Map<number, { close(): void }>();
  const { send } = child;
  Object.assign(child, {
    send: (...given: [message: { act?: string; seq: number }, connection: { close(): void }]) => {
      const [message, connection] = given;
      if (message.act === "newconn") unacknowledged.set(message.seq, connection);
      return Reflect.apply(send, child, given);
    },
  });
  child.on("internalMessage", ({ act, ack, accepted }: ClusterMessage) => {
    if (act === "queryServer") accepting.add(child);
    if (act === "close") accepting.delete(child);
    // A draining worker leaves the connection to another one. Without another, it would stay open until the drain ends.
    if (accepted === false && accepting.size === 0) unacknowledged.get(ack)?.close();
    unacknowledged.delete(ack);
  });
  child.once("exit", () => {
    accepting.delete(child);
    for (const connection of unacknowledged.values()) connection.close();
  });
  return child;
}

/** Lets a worker drain after its primary process has died, as `runProcess` does. By itself node:cluster exits at once. */
export function drainWithoutPrimary(): void {
  if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
}

/** Answers the scrape of one worker with the metrics of all. */
function createCollector(workers: readonly Supervised[]) {
  const scrapes = new Map<string, { texts: Map<number, string>; finish: () => void }>();
  return {
    receive: (message: WorkerMessage | { type: string }): void => {
      if (isScrape(message)) {
        const { id, worker } = message;
        const texts = new Map<number, string>();
        const finish = () => {
          if (!scrapes.delete(id)) return;
          clearTimeout(late);
          workers[worker - 1]?.send({ type: "metrics", id, text: mergeMetrics(texts) });
        };
        const late = setTimeout(finish, METRICS_WAIT_MS);
        scrapes.set(id, { texts, finish });
        for (const each of workers) each.send({ type: "collect", id });
      } else if (isCollected(message)) {
        const scrape = scrapes.get(message.id);
        scrape?.texts.set(message.worker, message.text);
        if (scrape?.texts.size === workers.length) scrape.finish();
      }
    },
  };
}

const isScrape = (message: { type: string }): message is Extract<WorkerMessage, { type: "scrape" }> =>
  message.type === "scrape";
const isCollected = (message: { type: string }): message is Extract<WorkerMessage, { type: "collected" }> =>
  message.type === "collected";
