import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { io } from "socket.io-client";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { migrate } from "../../src/db/migrate.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { tasker } from "../support/contracting.ts";
import { freePort, type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import { megabytesOf } from "./processes.ts";
import { socketStorm } from "./socket-storm.ts";

/*
 * `npm run test:soak [-- minutes]`, default 20: evaluations, consumption, novations and archivings at a steady rate.
 * Meanwhile sockets come and go, and Postgres sometimes terminates all sessions. Every few seconds it samples resident
 * memory and open descriptors of both processes, and p99. Then SOAK_SOCKETS sockets (default 10,000) join, receive
 * messages, are cut off, and reconnect at once. Exits with 1 when memory or descriptors grow, responses slow down, a
 * status is neither 200 nor 503, or sockets exceed their bounds. With 0 minutes only the sockets run.
 */

const MINUTES = Number(process.argv[2] ?? 20);
const RATE = Number(process.env["SOAK_RATE"] ?? 100);
const SOCKETS = 50;
const STORM_SOCKETS = Number(process.env["SOAK_SOCKETS"] ?? 10_000);
const USERS = Array.from({ length: 200 }, (_, i) => `user-${i}`);
/** Permitted growth between the second and the last quarter. */
const MAX_GROWTH_MB = Math.max(16, MINUTES / 10);
const MAX_NEW_DESCRIPTORS = 20;
/** The target is 1.2. Raise SOAK_SLOWDOWN on a shared machine, where a few windows of other load must not decide. */
const MAX_SLOWDOWN = Number(process.env["SOAK_SLOWDOWN"] ?? 1.2);

interface Sample {
  rest: { mb: number; descriptors: number };
  events: { mb: number; descriptors: number };
  p99: number;
  answered: number;
}

const folder = mkdtempSync(join(tmpdir(), "faregate-soak-"));
const postgres = await startEmbeddedPostgres({ dataDir: folder, password: "sesame", port: await freePort() });
await migrate(postgres.url, MIGRATIONS);
const admin = connect(postgres.url, { maxConnections: 1, applicationName: "soak" });
const key = await contractUsers(admin, { pricing: tasker(), service: "tasker", plan: "PRO", userIds: USERS });
const rest = await startRestServer(await builtRestOn("Node 20"), postgres.url);
const events = await startEventServer(postgres.url, {}, "built Node");
const problems: string[] = [];

const statuses = new Map<number, number>();
let times: number[] = [];
let asked = 0;

async function ask(): Promise<void> {
  asked += 1;
  const user = USERS[asked % USERS.length];
  const [method, path, body] =
    asked % 50 === 0
      ? [
          "PUT",
          `/contracts/${user}`,
          {
            contractedServices: { tasker: "1.0.0" },
            subscriptionPlans: { tasker: asked % 100 === 0 ? "BASIC" : "PRO" },
            subscriptionAddOns: {},
          },
        ]
      : asked % 3 === 0
        ? ["POST", `/features/${user}/tasker-board`, { "tasker-maxTasks": 1 }]
        : asked % 3 === 1
          ? ["POST", `/features/${user}`, {}]
          : ["POST", `/features/${user}/pricing-token`, {}];
  const from = performance.now();
  const status = await fetch(`${rest.url}/api/v1${path}`, {
    method: String(method),
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify(body),
  }).then(
    async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    },
    () => 0,
  );
  times.push(performance.now() - from);
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
}

function sizeOf(server: RunningServer): { mb: number; descriptors: number } {
  const { pid } = server.process;
  return { mb: Math.round(megabytesOf(pid)), descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

const until = Date.now() + MINUTES * 60_000;
const load = setInterval(() => void ask(), 1000 / RATE);
const sockets = Array.from({ length: SOCKETS }, async (_, i) => {
  while (Date.now() < until) {
    const socket = io(`${events.url}/pricings`, { path: "/events", transports: ["websocket"], forceNew: true });
    await sleep(2000 + i * 50);
    socket.disconnect();
  }
});
const samples: Sample[] = [];
const window = Math.max(2000, (MINUTES * 60_000) / 60);
for (let turn = 1; Date.now() < until; turn += 1) {
  await sleep(window);
  const sorted = times.toSorted((a, b) => a - b);
  times = [];
  const p99 = Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0);
  samples.push({ rest: sizeOf(rest), events: sizeOf(events), p99, answered: sorted.length });
  if (turn % 15 === 0) {
    await admin.client`
      select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'faregate-%'`;
  }
}
clearInterval(load);
await Promise.all(sockets);
await sleep(1000);

const quarter = (n: number) =>
  samples.slice(Math.floor((samples.length * n) / 4), Math.floor((samples.length * (n + 1)) / 4));
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const early = quarter(1);
const late = quarter(3);
const line = (what: string, read: (sample: Sample) => number, isTooMuch: (from: number, to: number) => boolean) => {
  const [from, to] = [median(early.map(read)), median(late.map(read))];
  const tooMuch = isTooMuch(from, to);
  if (tooMuch) problems.push(`${what} went from ${from} to ${to}`);
  console.log(`| ${what} | ${from} | ${to} | ${tooMuch ? "DRIFTS" : "steady"} |`);
};
console.log(
  `${cpus()[0]?.model}, ${cpus().length} cores, Node ${process.version}, ${MINUTES} minutes, ${RATE} calls a second asked for`,
);
if (MINUTES > 0) console.log("| | second quarter | last quarter | |\n| --- | --- | --- | --- |");
const grows = (from: number, to: number) => to - from > MAX_GROWTH_MB;
const leaks = (from: number, to: number) => to - from > MAX_NEW_DESCRIPTORS;
if (MINUTES > 0) {
  line("REST, MB resident", (sample) => sample.rest.mb, grows);
  line("event server, MB resident", (sample) => sample.events.mb, grows);
  line("REST, open descriptors", (sample) => sample.rest.descriptors, leaks);
  line("event server, open descriptors", (sample) => sample.events.descriptors, leaks);
  line(
    "p99 of a call, ms",
    (sample) => sample.p99,
    (from, to) => to > Math.max(from * MAX_SLOWDOWN, from + 10),
  );
}
for (const [status, count] of statuses)
  if (status !== 200 && status !== 503) problems.push(`${count} answers ${status}`);
if (STORM_SOCKETS > 0) {
  const storm = await socketStorm(events, admin, STORM_SOCKETS);
  console.log(`| ${STORM_SOCKETS} sockets | | at most |\n| --- | --- | --- |`);
  for (const line of storm.lines) console.log(line);
  problems.push(...storm.problems);
}
const { violations } = await checkLedger(admin.db);
if (violations.length > 0) problems.push(`the ledger: ${JSON.stringify(violations)}`);
console.log(`answers: ${JSON.stringify(Object.fromEntries(statuses))}`);
for (const server of [rest, events]) {
  if (server.process.exitCode !== null) problems.push(`a process ended: ${server.output()}`);
  await server.stop();
}
await admin.close(0);
await postgres.stop();
rmSync(folder, { recursive: true, force: true });
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
