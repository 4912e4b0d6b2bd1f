import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tasker } from "../support/contracting.ts";
import "../support/property-seed.ts";
import {
  expectAgreement,
  expectCleanLedger,
  expectRemembered,
  expectSameSpenders,
  type Remembered,
} from "./invariants.ts";
import { type Step, step } from "./operations.ts";
import { createWorld, openServers, type Servers, type World } from "./world.ts";

/*
 * Histories over all operations of a small organization. Each chapter is tested by itself; wrong answers live between two of
 * them, or in time. A failing history is printed as a list of calls.
 */

const RUNS = Number(process.env["CROSSING_RUNS"] ?? 25);

let servers: Servers;
beforeAll(async () => {
  servers = await openServers();
});
afterAll(() => servers.close());

/** Runs a history and checks after each step. */
async function live(world: World, steps: readonly Step[], succeeded: Map<string, number>): Promise<void> {
  let remembered: Remembered[] = [];
  for (const { run, name: operation } of steps) {
    const name = world.serviceName;
    world.lastStatus = 0;
    await run(world);
    const isDone = world.lastStatus >= 200 && world.lastStatus < 300;
    succeeded.set(operation, (succeeded.get(operation) ?? 0) + (isDone ? 1 : 0));
    // A feature id has the name that the service has today, so earlier answers are compared within one name.
    if (world.serviceName !== name) remembered = [];
    for (const userId of world.users) {
      const answer = await expectAgreement(world, userId);
      if (answer !== undefined) remembered.push({ userId, at: world.servers.now, answer });
    }
    // Amounts that are only leased are no part of the past, nor are those of holds that report. Source: contract tokens-and-leases §6.
    remembered = remembered.filter(({ userId, at }) => !world.isLeased(userId, at));
    // Each step has its own moment, so that `at` names the state after it.
    await world.pass(1000, false);
    await expectRemembered(world, remembered.slice(0, 2).concat(remembered.slice(-2)));
  }
  await expectRemembered(world, remembered);
  for (const userId of world.users) await expectSameSpenders(world, userId);
  await expectCleanLedger(world);
}

test("whatever meets in a history, the same question has one answer, now and later", async () => {
  const succeeded = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 30, size: "max" }), async (steps) => {
      const world = await createWorld(servers);
      await world.upload(tasker(), "1.0.0");
      for (const userId of ["ada", "grace"]) {
        await world.must("POST", "/contracts", {
          userContact: { userId, username: userId },
          billingPeriod: { autoRenew: true, renewalDays: 30 },
          contractedServices: { tasker: "1.0.0" },
          subscriptionPlans: { tasker: userId === "ada" ? "PRO" : "BASIC" },
          subscriptionAddOns: {},
        });
        world.users.push(userId);
      }
      await world.pass(1000, false);
      try {
        await live(world, steps, succeeded);
      } catch (error) {
        const calls = world.log.join("\n");
        throw new Error(`after these calls:\n${calls}\n\n${error instanceof Error ? error.message : String(error)}`, {
          cause: error,
        });
      }
    }),
    // Shorter histories are looked for until then: the time-out of the test would hide the one that failed.
    { numRuns: RUNS, plugins: [fc.interruptAfterTimeLimit(780_000, { failOnInterrupt: true })] },
  );
  // Histories whose calls are all refused would prove nothing.
  expect([...succeeded].filter(([, count]) => count > 0).length).toBeGreaterThan(20);
}, 900_000);
