import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type Answer, type TestApi } from "../support/api.ts";
import { consume, contractFor, statuses, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { yamlUpload } from "../support/uploads.ts";

const CALLERS = 16;
/** Stops at the first bound that is reached. */
const CALLS = 1500;
const MAX_MS = 20_000;

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  for (const name of ["Alpha", "Beta"]) {
    await upload(api, key, tasker({ name }), tasker({ name, version: "2", createdAt: "2025-02-01" }));
  }
});
afterAll(() => api.close());

/** Seeded generator, so that a failure can be reproduced. */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("every kind of change of the same few contracts and services at once never deadlocks and never answers 5xx", async () => {
  const users = Array.from({ length: 12 }, (_, i) => `mixed-${i}`);
  const maps = (random: (below: number) => number) => {
    const services = [["alpha"], ["beta"], ["alpha", "beta"], ["beta", "alpha"], []][random(5)] ?? [];
    return {
      contractedServices: Object.fromEntries(services.map((name) => [name, random(2) === 0 ? "1.0.0" : "2"])),
      subscriptionPlans: Object.fromEntries(services.map((name) => [name, "PRO"])),
      subscriptionAddOns: {},
    };
  };
  let organizations = 0;
  const actions: ((random: (below: number) => number, user: string) => Promise<Answer>)[] = [
    (random, user) => consume(api, key, user, { "alpha-maxTasks": random(3) }, "alpha-board"),
    (random, user) => consume(api, key, user, { "beta-maxTasks": random(3), "beta-maxExports": 1 }, "beta-bulk"),
    (_, user) => api.call("POST", `/features/${user}/alpha-board?revert=true`, { key }),
    (_, user) => api.call("POST", `/features/${user}/pricing-token`, { key }),
    (random, user) => api.call("PUT", `/contracts/${user}`, { key, body: maps(random) }),
    (random) => api.call("PUT", `/contracts?groupId=g${random(2)}`, { key, body: maps(random) }),
    (random, user) =>
      api.call("POST", "/contracts", { key, body: contractFor(user, { ...maps(random), groupId: `g${random(2)}` }) }),
    // Rarely, so that most targets of the other calls exist.
    (random, user) => api.call(random(3) === 0 ? "DELETE" : "GET", `/contracts/${user}`, { key }),
    (random, user) =>
      api.call("PUT", `/contracts/${user}/usageLevels`, { key, body: { alpha: { maxTasks: random(3) - 1 } } }),
    (_, user) => api.call("PUT", `/contracts/${user}/usageLevels?reset=true&renewableOnly=false`, { key, body: {} }),
    (random, user) => api.call("PUT", `/contracts/${user}/userContact`, { key, body: { firstName: `n${random(9)}` } }),
    (random) => api.call("PUT", "/contracts/billingPeriod", { key, body: { renewalDays: random(9) + 1 } }),
    (random) =>
      api.call(
        "PUT",
        `/services/${random(2) === 0 ? "Alpha" : "Beta"}/pricings/1.0.0?availability=${random(2) === 0 ? "archived" : "active"}`,
        {
          key,
          body: { subscriptionPlan: "PRO" },
        },
      ),
    (random) => api.call("GET", `/contracts?limit=5&page=${random(3)}`, { key }),
    (random) => (random(20) === 0 ? api.call("DELETE", "/contracts", { key }) : api.call("GET", "/contracts", { key })),
    async (random) => {
      if (random(5) > 0) return api.call("GET", "/services/Beta", { key });
      await api.call("DELETE", "/services/Beta", { key });
      return api.call("POST", "/services", {
        key,
        body: yamlUpload(tasker({ name: "Beta", version: "2" })),
      });
    },
    // Creates and deletes an organization with contracts meanwhile.
    async (random) => {
      if (random(5) > 0) return api.call("GET", "/healthcheck");
      const made = await api.newOrganization(api.callers.outsider, `Passing ${(organizations += 1)}`);
      await upload(api, made.key, tasker({ name: "Alpha" }));
      const user = {
        key: made.key,
        body: contractFor("passing", {
          contractedServices: { alpha: "1.0.0" },
          subscriptionPlans: { alpha: "PRO" },
          groupId: "g0",
        }),
      };
      const late = Promise.all([
        api.call("POST", "/contracts", user),
        api.call("PUT", "/contracts?groupId=g0", {
          key: made.key,
          body: {
            contractedServices: { alpha: "1.0.0" },
            subscriptionPlans: { alpha: "BASIC" },
            subscriptionAddOns: {},
          },
        }),
        consume(api, made.key, "passing", { "alpha-maxTasks": 1 }, "alpha-board"),
      ]);
      const gone = await api.call("DELETE", `/organizations/${made.id}`, { key: api.callers.outsider.key });
      for (const answer of await late) expect(answer.status).toBeLessThan(500);
      return gone;
    },
  ];

  const answers: { action: number; status: number; error: unknown }[] = [];
  const started = performance.now();
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      const random = seeded(caller + 1);
      while (answers.length < CALLS && performance.now() - started < MAX_MS) {
        const action = random(actions.length);
        const answer = await actions[action]?.(random, users[random(users.length)] ?? "");
        answers.push({ action, status: answer?.status ?? 0, error: answer?.body });
      }
    }),
  );
  // Assert the log first, because it names the cause.
  expect(api.logged.filter((line) => line.level === "error" || line.level === "warn")).toEqual([]);
  const failed = answers.filter((answer) => answer.status >= 500 || answer.status === 0);
  expect(failed).toEqual([]);
  const worked = statuses(answers.filter((answer) => answer.status < 300));
  expect(Object.values(worked).reduce((sum, count) => sum + count, 0)).toBeGreaterThan(answers.length / 3);
  await expectBalancesMatchLedger(api.database);
}, 60_000);
