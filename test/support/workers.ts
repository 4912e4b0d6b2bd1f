import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import type { Socket } from "node:net";
import { vi } from "vitest";
import { builtRestOn, type Runtime } from "../runtimes/runtimes.ts";
import { METRICS_TOKEN, type RunningServer, startRestServer } from "./event-server.ts";
import type { Ask } from "./one-server.ts";

/* Several REST processes behind one port. Clients cannot choose one, but a connection stays with its worker. */

/** A connection that stays open, and the number of its worker. */
export interface WorkerConnection {
  worker: number;
  ask: Ask;
  close(): void;
}

export interface RunningWorkers extends RunningServer {
  /** Process ids of the workers, in the order of their start. */
  pids(): number[];
  /** The metrics of all workers. */
  metrics(): Promise<string>;
  /** Opens connections until each of the two workers has `count` of them. */
  connectToBoth(count: number, localAddress?: string): Promise<WorkerConnection[]>;
}

/** Starts two workers over this database, and waits until both serve. */
export async function startWorkers(
  databaseUrl: string,
  environment: Record<string, string> = {},
  runtime: Runtime = "Node 20",
): Promise<RunningWorkers> {
  const server = await startRestServer(await builtRestOn(runtime, { hasWorkers: true }), databaseUrl, {
    WORKERS: "2",
    METRICS_TOKEN,
    LOG_LEVEL: "info",
    ...environment,
  });
  try {
    await vi.waitUntil(() => server.output().includes('"workers":2'), { timeout: 20_000 });
  } catch (error) {
    await server.stop();
    throw error;
  }
  const metrics = () => metricsOf(server.url);
  // A scrape leaves out a worker that takes long to answer.
  const answersOfBoth = async () => {
    let text = "";
    const hasBoth = async () => (text = await metrics()).includes("\nfaregate_workers 2\n");
    await vi.waitUntil(hasBoth, { timeout: 20_000 });
    return answersByWorker(text, "/healthcheck");
  };
  const connect = async (localAddress: string): Promise<WorkerConnection> => {
    const connection = openConnection(server.url, localAddress);
    const before = await answersOfBoth();
    await connection.ask("GET", "/healthcheck");
    for (const [worker, count] of await answersOfBoth()) {
      if (count > (before.get(worker) ?? 0)) return { ...connection, worker };
    }
    throw new Error("no worker has counted the call");
  };
  return {
    ...server,
    metrics,
    pids: () => childrenOf(server.process.pid),
    connectToBoth: async (count, localAddress = "127.0.0.1") => {
      const connections: WorkerConnection[] = [];
      while (connections.length < 2 * count) {
        const next = await connect(localAddress);
        if (connections.filter(({ worker }) => worker === next.worker).length < count) connections.push(next);
        else next.close();
      }
      return connections;
    },
  };
}

/** Process ids of a process's children, in the order of their start. Linux only. */
export const childrenOf = (pid: number | undefined) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);

/** Scrapes over a connection of its own. */
export async function metricsOf(url: string): Promise<string> {
  const headers = { authorization: `Bearer ${METRICS_TOKEN}`, connection: "close" };
  return (await fetch(`${url}/metrics`, { headers })).text();
}

/** Sums the samples of a metric by worker. `matching`: text within the labels. */
export function sumByWorker(metrics: string, name: string, matching = ""): Map<number, number> {
  const sums = new Map<number, number>();
  for (const line of metrics.split("\n")) {
    const [, worker, labels = "", value] = new RegExp(`^${name}\\{worker="(\\d+)"(.*)\\} (\\S+)$`).exec(line) ?? [];
    if (worker === undefined || !labels.includes(matching)) continue;
    sums.set(Number(worker), (sums.get(Number(worker)) ?? 0) + Number(value));
  }
  return sums;
}

/** Counts the answers of each worker to calls of routes that contain this text. */
const answersByWorker = (metrics: string, route: string) => sumByWorker(metrics, "faregate_http_requests_total", route);

function openConnection(url: string, localAddress: string): { ask: Ask; close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let connection: Socket | undefined;
  const ask: Ask = (method, path, { key, body } = {}) =>
    new Promise((resolve, reject) => {
      const headers = {
        ...(key === undefined ? {} : { "x-api-key": key }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      };
      const call = request(`${url}/api/v1${path}`, { method, headers, agent, localAddress }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.once("end", () =>
          resolve({ status: response.statusCode ?? 0, body: text === "" ? {} : JSON.parse(text) }),
        );
        response.once("error", reject);
      });
      call.once("socket", (socket) => {
        connection ??= socket;
        if (socket !== connection) call.destroy(new Error("the connection was closed"));
      });
      call.once("error", reject);
      call.end(body === undefined ? undefined : JSON.stringify(body));
    });
  return { ask, close: () => agent.destroy() };
}
