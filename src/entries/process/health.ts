import { MIGRATIONS } from "../platform/migrations.ts";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Connection } from "../../db/postgres/connect.ts";
import { newestMigration, schemaVersion } from "../../db/migrate.ts";
import { retriedTransactions } from "../../db/postgres/retry.ts";
import { createRequestMetrics, type Metric, renderMetric, type RequestMetrics } from "../../http/metrics.ts";
import type { Health } from "../../http/routes/health.ts";
import type { CallCounter } from "../../operations/state/call-counter.ts";
import { hashesWaiting } from "../../operations/state/hashing-queue.ts";
import type { Config } from "./config.ts";

/** Time-out of the database's readiness check. */
const ANSWER_MS = 1000;
/** Checks within this time share one answer, which limits the load on the database. */
const SHARED_MS = 250;
const LOOP_RESOLUTION_MS = 20;

/** Additional checks of an event server. */
export interface Watched {
  notReady?: () => string | undefined;
  metrics?: () => readonly Metric[];
}

/** Health of a process. `drain` makes it report not ready while it still serves. */
export interface ProcessHealth extends Health {
  notReady(): Promise<string | undefined>;
  /** Replaced by the metrics of all workers where there are several. */
  metrics: () => Promise<string>;
  requests: RequestMetrics;
  watch(watched: Watched): void;
  drain(): Promise<void>;
}

/** Creates the health of a process with this pool. */
export function createHealth(
  config: Pick<Config, "METRICS_TOKEN" | "DRAIN_DELAY">,
  { client, waiting }: Connection,
  callCounter: CallCounter,
): ProcessHealth {
  const requests = createRequestMetrics();
  const delay = loopDelay();
  const startedAt = Date.now() / 1000;
  let watched: Watched = {};
  let draining = false;
  let isMigrated = false;
  let asked: { at: number; answer: Promise<string | undefined> } | undefined;

  const askDatabase = async (): Promise<string | undefined> => {
    try {
      if (isMigrated) await within(ANSWER_MS, client`select 1`);
      else isMigrated = (await within(ANSWER_MS, schemaVersion(client))) >= newestMigration(MIGRATIONS);
      return isMigrated ? undefined : "schema";
    } catch {
      return "database";
    }
  };
  const notReady = async (): Promise<string | undefined> => {
    if (draining) return "draining";
    const reason = watched.notReady?.();
    if (reason !== undefined) return reason;
    if (asked === undefined || performance.now() - asked.at > SHARED_MS) {
      asked = { at: performance.now(), answer: askDatabase() };
    }
    return asked.answer;
  };
  const metrics = async (): Promise<string> => {
    const usage = process.memoryUsage();
    const cpu = process.cpuUsage();
    const { totals } = callCounter;
    const [database] = await within(
      ANSWER_MS,
      client<{ newest: string; queue: number }[]>`
        select (select last_id from outbox_counter)::text as newest, pg_notification_queue_usage() as queue`,
    ).catch(() => []);
    const gauge = (name: string, help: string, value: Metric["value"]): Metric => ({
      name,
      help,
      type: "gauge",
      value,
    });
    const counter = (name: string, help: string, value: Metric["value"]): Metric => ({
      name,
      help,
      type: "counter",
      value,
    });
    const all = [
      counter("faregate_evaluations_total", "Calls of features.", totals.evaluations),
      counter("faregate_consumptions_total", "Calls that asked to count use, by what they were told.", [
        [{ verdict: "granted" }, totals.granted],
        [{ verdict: "denied" }, totals.denied],
      ]),
      counter("faregate_reverts_total", "Consumptions taken back by callers.", totals.reverted),
      gauge("faregate_database_up", "1: the database answers.", database === undefined ? 0 : 1),
      gauge("faregate_database_waiting", "Statements and transactions that wait for a connection.", waiting.now),
      counter("faregate_database_refused_total", "Of those, how many gave that up.", waiting.refused),
      counter(
        "faregate_database_repeated_total",
        "Transactions done again after a deadlock, a serialization failure or the loss of a prepared statement.",
        retriedTransactions(),
      ),
      ...(database === undefined
        ? []
        : [
            gauge("faregate_outbox_newest_id", "The newest event.", Number(database.newest)),
            gauge("faregate_notification_queue_usage", "Share of Postgres' queue of notifications.", database.queue),
          ]),
      gauge("faregate_password_hashes_waiting", "Password hashes under way or waiting.", hashesWaiting()),
      gauge("faregate_ready", "1: /ready says so.", (await notReady()) === undefined ? 1 : 0),
      ...(watched.metrics?.() ?? []),
      ...delay(),
      gauge("process_resident_memory_bytes", "Resident memory.", usage.rss),
      gauge("nodejs_heap_size_used_bytes", "Used heap.", usage.heapUsed),
      counter("process_cpu_seconds_total", "CPU time.", (cpu.user + cpu.system) / 1e6),
      gauge("process_start_time_seconds", "Start, in seconds since 1970.", startedAt),
    ];
    return requests.render() + all.map(renderMetric).join("");
  };
  return {
    notReady,
    metrics,
    metricsToken: config.METRICS_TOKEN,
    requests,
    watch: (given) => (watched = given),
    drain: async () => {
      draining = true;
      await new Promise((resolve) => setTimeout(resolve, config.DRAIN_DELAY * 1000));
    },
  };
}

/** Measures the event loop's delay since the last call. */
function loopDelay(): () => Metric[] {
  const histogram = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  histogram.enable();
  return () => {
    // The histogram records the interval between two timer ticks.
    const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - LOOP_RESOLUTION_MS / 1000) || 0;
    const value = (["p50", "p99", "max"] as const).map(
      (quantile) =>
        [
          { quantile },
          seconds(quantile === "max" ? histogram.max : histogram.percentile(quantile === "p50" ? 50 : 99)),
        ] as const,
    );
    histogram.reset();
    return [{ name: "nodejs_eventloop_delay_seconds", help: "Since the last scrape.", type: "gauge", value }];
  };
}

async function within<T>(milliseconds: number, work: PromiseLike<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
