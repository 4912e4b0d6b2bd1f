import { Agent } from "node:http";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, type RunningServer, startRestServer } from "../support/event-server.ts";
import { exchange } from "../support/exchange.ts";
import { meterPricing } from "../support/pricings.ts";
import { contractUsers } from "../support/seed.ts";
import { startWorkers, sumByWorker } from "../support/workers.ts";

/* 64 callers consume from one counter through two REST processes over one database, on two ports or behind one. */

const CALLERS = 64;

const agent = new Agent({ keepAlive: true });
afterAll(() => agent.destroy());

interface Answer {
  status: number;
  body: { eval?: boolean };
}

/** Consumes one unit. */
async function consume(origin: string | undefined, key: string): Promise<Answer> {
  const headers = { "x-api-key": key, "content-type": "application/json" };
  const options = { method: "POST", agent, headers };
  const { status, text } = await exchange(`${origin}/api/v1/features/hot/meter-call`, options, '{"meter-calls":1}');
  return { status, body: JSON.parse(text) };
}

let database: TestDatabase;
let servers: RunningServer[] = [];

beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  for (const server of servers) await server.stop();
  await database.drop();
});

test.each([
  [500, "processes", false],
  [100, "workers", true],
])(
  "64 callers who consume %i units each through two %s count exactly up to the limit",
  async (units, _, areWorkers) => {
    const limit = (CALLERS * units * 15) / 16;
    const pricing = meterPricing(
      `{ valueType: NUMERIC, defaultValue: ${limit}, unit: call, type: NON_RENEWABLE, trackable: true }`,
    );
    const key = await contractUsers(database.connection, { pricing, service: "meter", plan: "ALL", userIds: ["hot"] });
    const workers = areWorkers ? await startWorkers(database.url) : undefined;
    servers =
      workers === undefined
        ? await Promise.all([startRestServer(REST, database.url), startRestServer(REST, database.url)])
        : [workers];
    const statuses = new Map<number | undefined, number>();
    let granted = 0;
    await Promise.all(
      Array.from({ length: CALLERS }, async (_, caller) => {
        for (let unit = 0; unit < units; unit += 1) {
          const { status, body } = await consume(servers[caller % servers.length]?.url, key);
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          if (status === 503) unit -= 1;
          else if (body.eval === true) granted += 1;
        }
      }),
    );
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(statuses.get(200)).toBe(CALLERS * units);
    expect(granted).toBe(limit);
    const [level] = await database.connection.client<{ consumed: string }[]>`select consumed from usage_levels`;
    expect(Number(level?.consumed)).toBe(limit);
    const { movements, violations } = await checkLedger(database.connection.db);
    expect(violations).toEqual([]);
    expect(movements).toBe(limit);
    if (workers !== undefined) {
      const evaluations = sumByWorker(await workers.metrics(), "faregate_evaluations_total");
      expect([...evaluations.values()].filter((count) => count > units)).toHaveLength(2);
    }
  },
  240_000,
);
