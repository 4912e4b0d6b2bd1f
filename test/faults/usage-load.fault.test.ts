import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { freePort, TEST_SECRETS } from "../support/event-server.ts";
import { contractUsers } from "../support/seed.ts";

/* 64 callers consume 500 units each from one counter, through two REST processes over one database. */

const CALLERS = 64;
const UNITS = 500;

const PRICING = `
saasName: Meter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['calls'] < pricingContext['usageLimits']['calls']" }
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: 30000, unit: call, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

let database: TestDatabase;
let key: string;
const processes: ChildProcess[] = [];
const ports: number[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  key = await contractUsers(database.connection, { pricing: PRICING, service: "meter", plan: "ALL", userIds: ["hot"] });
  for (let i = 0; i < 2; i += 1) {
    const port = await freePort();
    ports.push(port);
    processes.push(
      spawn(process.execPath, ["--import", "tsx", "src/entries/node.ts"], {
        cwd: resolve(import.meta.dirname, "../.."),
        env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: "error" },
        stdio: "ignore",
      }),
    );
    const up = () =>
      fetch(`http://127.0.0.1:${port}/api/v1/healthcheck`).then(
        (answer) => answer.ok,
        () => false,
      );
    while (!(await up())) await new Promise((wait) => setTimeout(wait, 50));
  }
});
afterAll(async () => {
  for (const child of processes) {
    const gone = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await gone;
  }
  await database.drop();
});

test(`${CALLERS} callers who consume ${UNITS} units each through two processes count exactly up to the limit`, async () => {
  const statuses = new Map<number, number>();
  let granted = 0;
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let unit = 0; unit < UNITS; unit += 1) {
        const answer = await fetch(`http://127.0.0.1:${ports[caller % 2]}/api/v1/features/hot/meter-call`, {
          method: "POST",
          headers: { "x-api-key": key, "content-type": "application/json" },
          body: '{"meter-calls":1}',
        });
        const body = (await answer.json()) as { eval?: boolean };
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        if (answer.status === 503) unit -= 1;
        else if (body.eval === true) granted += 1;
      }
    }),
  );
  expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(statuses.get(200)).toBe(CALLERS * UNITS);
  expect(granted).toBe(30_000);
  const [level] = await database.connection.client<{ consumed: string }[]>`select consumed from usage_levels`;
  expect(Number(level?.consumed)).toBe(30_000);
  const { movements, violations } = await checkLedger(database.connection.db);
  expect(violations).toEqual([]);
  expect(movements).toBe(30_000);
}, 240_000);
