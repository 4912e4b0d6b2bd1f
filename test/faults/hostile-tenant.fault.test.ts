import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, type RunningServer, startRestServer } from "../support/event-server.ts";
import {
  type Attack,
  COMPUTATIONS,
  createTenants,
  percentile,
  REPETITIONS,
  type Tenants,
  watchAttack,
} from "../support/hostile-tenant.ts";

/*
 * One tenant attacks while another one evaluates and an orchestrator probes the process. Bounds are processor time of
 * the server's main thread between request and answer, which does not depend on the speed of the machine.
 */

const MAX_EVALUATION_MS = 100;
const MAX_LIVE_MS = 250;
const MAX_PEAK_MB = 600;
/** Enough for the slowest ones of a hundred. Attackers repeat their calls until then. */
const MIN_EVALUATIONS = 100;
/** A call without an answer after this time counts as lost. Generous, because the machine may be busy. */
const MAX_ATTACK_MS = 90_000;

let database: TestDatabase;
let tenants: Tenants;
let server: RunningServer;
beforeAll(async () => {
  database = await createTestDatabase();
  tenants = await createTenants(database.connection);
});
afterAll(() => database.drop());
beforeEach(async () => {
  server = await startRestServer(REST, database.url);
});
afterEach(async () => {
  // A blocked process could not drain.
  server.process.kill("SIGKILL");
  await server.stop();
});

/** Number of answers per status. */
function counted(statuses: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

async function expectOthersServed(attack: Attack): Promise<void> {
  await tenants.prepare(attack);
  const pid = server.process.pid ?? 0;
  const seen = await watchAttack({ url: server.url, pid }, tenants, attack, {
    minEvaluations: MIN_EVALUATIONS,
    maxMs: MAX_ATTACK_MS,
  });
  const { evaluation, live, peakMB } = seen;
  const figures = {
    unanswered: evaluation.failed + live.failed,
    isAlive: server.process.exitCode === null && server.process.signalCode === null,
    evaluationP99: percentile(evaluation.computedMs, 0.99),
    live: Math.max(...live.computedMs),
    peakMB,
    probes: evaluation.computedMs.length,
    attack: counted(seen.attack),
    answer: seen.answer,
  };
  const told = JSON.stringify(figures);
  expect(figures.isAlive, told).toBe(true);
  expect(figures.unanswered, told).toBe(0);
  expect(figures.peakMB, told).toBeLessThan(MAX_PEAK_MB);
  expect(figures.evaluationP99, told).toBeLessThan(MAX_EVALUATION_MS);
  expect(figures.live, told).toBeLessThan(MAX_LIVE_MS);
  // Rejected, truncated or deferred, but never a server error.
  expect(
    seen.attack.filter((status) => status === 0 || status === 500),
    told,
  ).toEqual([]);
}

describe("others are served while a tenant asks for long computations:", () => {
  test.each(COMPUTATIONS.map((attack) => [attack.name, attack] as const))(
    "%s",
    (_, attack) => expectOthersServed(attack),
    120_000,
  );
});

describe("others are served while a tenant sends texts that multiply:", () => {
  test.each(REPETITIONS.map((attack) => [attack.name, attack] as const))(
    "%s",
    (_, attack) => expectOthersServed(attack),
    120_000,
  );
});
