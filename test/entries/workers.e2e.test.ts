import { readFileSync } from "node:fs";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { buildServer, isServerStale } from "../../src/entries/build/server.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startRestServer } from "../support/event-server.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { contractUsers } from "../support/seed.ts";

/* Several REST processes behind one port: WORKERS. */

const METRICS_TOKEN = "a-token-for-the-metrics";
const LIMIT = 60;
const PRICING = `
saasName: Meter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls']
    serverExpression: subscriptionContext['calls'] <= pricingContext['usageLimits']['calls']
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: ${LIMIT}, unit: call, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

let database: TestDatabase;
let server: RunningServer;
let key: string;

beforeAll(async () => {
  if (isServerStale()) await buildServer();
}, 60_000);
beforeEach(async () => {
  database = await createTestDatabase();
  key = await contractUsers(database.connection, { pricing: PRICING, service: "meter", plan: "ALL", userIds: ["ada"] });
  server = await startRestServer([process.execPath, "dist/server/node.js"], database.url, {
    WORKERS: "2",
    METRICS_TOKEN,
    LOG_LEVEL: "info",
  });
  await vi.waitUntil(() => server.output().includes('"workers":2'), { timeout: 20_000 });
}, 60_000);
afterEach(async () => {
  await server.stop();
  await database.drop();
});

/** Calls on a connection of its own, so that the primary chooses a worker. */
const call = (path: string, init: RequestInit = {}) =>
  fetch(`${server.url}${path}`, { ...init, headers: { "x-api-key": key, connection: "close", ...init.headers } });
const consume = async () => {
  const answer = await call("/api/v1/features/ada/meter-call", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"meter-calls":1}',
  });
  return { status: answer.status, ...((await answer.json()) as { eval: boolean }) };
};
const metrics = async () => (await call("/metrics", { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })).text();
const samples = (text: string, name: string) =>
  text.split("\n").flatMap((line) => {
    const [, worker, value] = new RegExp(`^${name}\\{worker="(\\d+)"\\} (\\S+)$`).exec(line) ?? [];
    return worker === undefined ? [] : [[worker, Number(value)] as const];
  });
const childrenOf = (pid: number | undefined) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);

describe("two workers behind one port", () => {
  it("grant a limit exactly, and each scrape has the metrics of both", async () => {
    const answers = await Promise.all(Array.from({ length: 2 * LIMIT }, consume));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(answers.filter((answer) => answer.eval)).toHaveLength(LIMIT);
    await expectBalancesMatchLedger(database);
    const text = await metrics();
    expect(text).toContain("\nfaregate_workers 2\n");
    const evaluations = samples(text, "faregate_evaluations_total");
    expect(evaluations.map(([worker]) => worker)).toEqual(["1", "2"]);
    expect(evaluations.reduce((sum, [, value]) => sum + value, 0)).toBe(2 * LIMIT);
    for (const [, value] of evaluations) expect(value).toBeGreaterThan(0);
    expect(text.match(/^# TYPE faregate_evaluations_total /gm)).toHaveLength(1);
    const names = text.split("\n").filter((line) => line.startsWith("# HELP"));
    expect(new Set(names).size).toBe(names.length);
  });

  it("apply a change that the other one made", async () => {
    for (let i = 0; i < 8; i += 1) await consume();
    const changed = await call("/api/v1/contracts/ada/usageLevels", {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ meter: { calls: LIMIT } }),
    });
    expect(changed.status).toBe(200);
    const answers = await Promise.all(Array.from({ length: 16 }, consume));
    expect(answers.filter((answer) => answer.eval)).toEqual([]);
    const deleted = await call("/api/v1/contracts/ada", { method: "DELETE" });
    expect(deleted.status).toBe(204);
    // Both have dropped the contract at most a second later.
    await vi.waitUntil(
      async () => {
        const statuses = await Promise.all(
          Array.from({ length: 8 }, async () => (await call("/api/v1/contracts/ada")).status),
        );
        return statuses.every((status) => status === 404);
      },
      { timeout: 20_000 },
    );
  });

  it("a killed worker is replaced, and the other serves meanwhile", async () => {
    const [first = 0] = childrenOf(server.process.pid);
    process.kill(first, "SIGKILL");
    await vi.waitUntil(() => server.output().includes("starting it again"), { timeout: 20_000 });
    expect((await call("/live")).status).toBe(200);
    await vi.waitUntil(async () => (await metrics()).includes("\nfaregate_workers 2\n"), { timeout: 20_000 });
    expect(childrenOf(server.process.pid)).not.toContain(first);
    expect((await consume()).status).toBe(200);
  });

  it("a signal drains both, and the process exits with 0", async () => {
    const pids = childrenOf(server.process.pid);
    expect(pids).toHaveLength(2);
    const calls = Array.from({ length: 20 }, consume);
    await calls[0];
    const [code, ...answers] = await Promise.all([server.stop(), ...calls.map((each) => each.catch(() => undefined))]);
    expect(code).toBe(0);
    for (const answer of answers) if (answer !== undefined) expect(answer.status).toBe(200);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    await expectBalancesMatchLedger(database);
  });
});

it("WORKERS is a number or auto, and for Node", async () => {
  const refused = (program: readonly [string, ...string[]], workers: string) =>
    startRestServer(program, database.url, { WORKERS: workers }).then(
      (started) => started.stop().then(() => "started"),
      (error: Error) => error.message,
    );
  expect(await refused([process.execPath, "dist/server/node.js"], "many")).toContain(
    'WORKERS must be auto or a whole number from 1 to 64, not "many".',
  );
  expect(await refused(["node_modules/.bin/bun", "src/entries/bun.ts"], "2")).toContain("WORKERS=2 is for Node");
});
