import type { ChildProcess } from "node:child_process";
import { requireMigrated } from "../../db/migrate.ts";
import { requireFreePort } from "../platform/http-server.ts";
import { MIGRATIONS } from "../platform/migrations.ts";
import { readConfig, workerCount } from "../process/config.ts";
import { databaseOf } from "../process/given-secrets.ts";
import { reachDatabase } from "../process/database-access.ts";
import { runProcess } from "../process/lifecycle.ts";
import { mergeMetrics, type WorkerMessage, workerNumber } from "../process/worker-metrics.ts";
import { workerCommand } from "./runtimes.ts";
import { spawnChild, supervise, type Supervised } from "./supervisor.ts";

/*
 * WORKERS: several REST processes behind one port. The primary process restarts workers that end, drains them, and merges
 * their metrics. On Node it also accepts their connections; see cluster.ts. On Bun and Deno each worker listens by itself
 * with SO_REUSEPORT, and the kernel distributes connections.
 */

/** A scrape leaves out workers that take longer. A busy one waits a second for its database before it answers without (health.ts). */
const METRICS_WAIT_MS = 2000;

/** Returns true if this process is to run workers. False for an invalid configuration, which REST reports. */
export function wantsWorkers(environment: Readonly<Record<string, string | undefined>>): boolean {
  if (workerNumber() !== undefined) return false;
  try {
    return workerCount(readConfig(environment)) > 1;
  } catch {
    return false;
  }
}

/**
 * Runs the primary process of the workers, from start to exit. `start` receives the variables of one worker. Default: it
 * spawns this entry again, which Bun and Deno need.
 */
export function runWorkers(start: (variables: Record<string, string>) => ChildProcess = spawnWorker): Promise<void> {
  return runProcess("rest-workers", async ({ config, log, hasLauncher }) => {
    const { databaseUrl } = databaseOf(config, hasLauncher);
    if (!hasLauncher) await requireMigrated((await reachDatabase(config, databaseUrl)).requests, MIGRATIONS);
    // With SO_REUSEPORT the workers would share the port with other workers of this user.
    await requireFreePort(config.PORT, config.HOST, "PORT");
    const workers: Supervised[] = [];
    const collector = createCollector(workers);
    for (let number = 1; number <= workerCount(config); number += 1) {
      workers.push(
        supervise({
          name: `REST worker ${number}`,
          command: () => start({ WORKER_NUMBER: String(number) }),
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

const spawnWorker = (variables: Record<string, string>) =>
  spawnChild(workerCommand(), { ...process.env, ...variables });

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
