import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startRestServer } from "../support/event-server.ts";
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
 * While one tenant attacks, another one evaluates and an orchestrator looks after the process. Bounds are of processor time of
 * the server's main thread between a request and its answer: however slow the machine is, that is what the attack made
 * others wait for.
 */

const REST = [process.execPath, "--import", "tsx", "src/entries/node.ts"] as const;
const COMPUTING = { evaluation: 100, live: 250 };
/** A process without worker threads reads a file of two megabytes in one go. */
const READING = { evaluation: 250, live: 500 };
const MAX_PEAK_MB = 600;
/** Enough evaluations for the slowest of a hundred to say something. */
const MIN_ATTACK_MS = 3_000;
/** An attack that is still at work after so long is no worse afterwards. */
const MAX_ATTACK_MS = 20_000;

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
  // One that is still held up could not drain.
  server.process.kill("SIGKILL");
  await server.stop();
});

/** How often each status was answered. */
function counted(statuses: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

async function expectOthersServed(attack: Attack, most: typeof COMPUTING): Promise<void> {
  await tenants.prepare(attack);
  const pid = server.process.pid ?? 0;
  const seen = await watchAttack({ url: server.url, pid }, tenants, attack, {
    minMs: MIN_ATTACK_MS,
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
  expect(figures.evaluationP99, told).toBeLessThan(most.evaluation);
  expect(figures.live, told).toBeLessThan(most.live);
  // Refused, cut short or told to come again: never a fault of the server's.
  expect(
    seen.attack.filter((status) => status === 0 || status === 500),
    told,
  ).toEqual([]);
}

describe("others are served while a tenant asks for long computations:", () => {
  test.each(COMPUTATIONS.map((attack) => [attack.name, attack] as const))(
    "%s",
    (_, attack) => expectOthersServed(attack, COMPUTING),
    60_000,
  );
});

describe("others are served while a tenant sends texts that multiply:", () => {
  test.each(REPETITIONS.map((attack) => [attack.name, attack] as const))(
    "%s",
    (_, attack) => expectOthersServed(attack, READING),
    60_000,
  );
});
