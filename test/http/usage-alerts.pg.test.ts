import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createResources } from "../../src/operations/resources.ts";
import { createApp } from "../../src/http/app.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, consumed, contract, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Contract usage-records §6, with its cases 27 to 29. */

let api: TestApi;
let key: string;
let alertsPath: string;
let number = 0;
let ada: string;

beforeAll(async () => {
  api = await createTestApi();
  ({ key } = api.callers.all);
  alertsPath = `/organizations/${api.callers.organizationId}/usage-alerts`;
  await upload(
    api,
    key,
    tasker({ maxTasks: 10 }),
    tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: 20 }),
    tasker({ version: "3.0.0", createdAt: "2025-03-01", maxTasks: 100_000_000 }),
    tasker({ version: "4.0.0", createdAt: "2025-04-01", maxTasks: 0 }),
  );
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});
beforeEach(async () => {
  api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  ada = `ada-${(number += 1)}`;
});

const setAlerts = (body: unknown, callerKey = api.callers.manager.key) =>
  api.call<{ thresholds: number[]; error?: string }>("PUT", alertsPath, { key: callerKey, body: body as object });
const use = async (amount: number, userId = ada) => {
  const answer = await consume(api, key, userId, { "tasker-maxTasks": amount });
  expect(answer.status).toBe(200);
};
const revert = () => api.call("POST", `/features/${ada}/tasker-board?revert=true&latest=true`, { key });
const reset = async () => {
  const path = `/contracts/${ada}/usageLevels?usageLimit=maxTasks`;
  expect((await api.call("PUT", path, { key, body: {} })).status).toBe(200);
};
const add = (amount: number) =>
  api.call("PUT", `/contracts/${ada}/usageLevels`, { key, body: { tasker: { maxTasks: amount } } });
const novate = (version: string) =>
  api.call("PUT", `/contracts/${ada}`, {
    key,
    body: {
      contractedServices: { tasker: version },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    },
  });

/** Returns the thresholds that `work` raises, in order, and the limit as `L`. */
async function raised(work: () => Promise<unknown>): Promise<(number | "L")[]> {
  const events = await allEventsDuring(api, work);
  return events.flatMap(({ code, details }): (number | "L")[] => {
    if (code === "USAGE_LIMIT_REACHED") return ["L"];
    return code === "USAGE_THRESHOLD_REACHED" ? [Number(details["threshold"])] : [];
  });
}

describe("the thresholds of an organization", () => {
  test("are 80 and 100, until they are set; members read them, and MANAGERs set them", async () => {
    const { evaluator, manager, owner } = api.callers;
    expect((await api.call("GET", alertsPath, { key: evaluator.key })).body).toEqual({ thresholds: [80, 100] });
    expect(await setAlerts({ thresholds: [120, 50] })).toMatchObject({ status: 200, body: { thresholds: [50, 120] } });
    expect((await api.call("GET", alertsPath, { key: manager.key })).body).toEqual({ thresholds: [50, 120] });
    const audited = await api.call<{ data: object[] }>(
      "GET",
      `/organizations/${api.callers.organizationId}/audit-log?action=alerts.set`,
      { key: owner.key },
    );
    expect(audited.body.data).toMatchObject([
      { before: { thresholds: [80, 100] }, after: { thresholds: [50, 120] }, actor: { name: manager.username } },
    ]);
  });

  test("29: are one to five different whole numbers from 1 to 200", async () => {
    const sentence = "The thresholds field must be a list of 1 to 5 different whole numbers from 1 to 200";
    for (const thresholds of [
      [],
      [80, 80],
      [0],
      [1, 2, 3, 4, 5, 6],
      [201],
      [1.5],
      ["80"],
      [null],
      80,
      null,
      undefined,
    ]) {
      const answer = await setAlerts({ thresholds, x: 1 });
      expect([answer.status, answer.body.error], String(thresholds)).toEqual([422, sentence]);
    }
    const unknown = await setAlerts({ thresholds: [80], x: 1 });
    expect([unknown.status, unknown.body.error]).toEqual([422, "Unknown field: x"]);
    expect((await setAlerts([80])).body.error).toBe("The body must be an object");
    const missing = `/organizations/${"0".repeat(24)}/usage-alerts`;
    const answer = await api.call("PUT", missing, { key: api.callers.platformAdmin.key, body: { thresholds: [] } });
    expect(answer).toMatchObject({ status: 404, body: { error: `Organization with ID ${"0".repeat(24)} not found` } });
  });
});

describe("a threshold is raised", () => {
  test("27: once until the reset, however usage hovers around it", async () => {
    await setAlerts({ thresholds: [50, 80] });
    await contract(api, key, ada);
    expect(await raised(() => use(5))).toEqual([50]);
    expect(await raised(revert)).toEqual([]);
    expect(await raised(() => use(5))).toEqual([]);
    expect(await raised(() => use(4))).toEqual([80]);
    expect(await raised(reset)).toEqual([]);
    expect(await raised(() => use(9))).toEqual([50, 80]);
    expect(await raised(() => use(0))).toEqual([]);
  });

  test("28: again once the limit has another value, by an adjustment too", async () => {
    await setAlerts({ thresholds: [80] });
    await contract(api, key, ada);
    expect(await raised(() => use(8))).toEqual([80]);
    expect(await raised(() => novate("2.0.0"))).toEqual([]);
    const events = await allEventsDuring(api, async () => {
      expect((await add(7)).status).toBe(200);
      expect((await add(1)).status).toBe(200);
      expect((await add(1)).status).toBe(200);
    });
    expect(events).toEqual([
      {
        code: "USAGE_THRESHOLD_REACHED",
        details: {
          contractId: expect.stringMatching(/^[0-9a-f]{24}$/),
          userId: ada,
          serviceName: "tasker",
          limitName: "maxTasks",
          threshold: 80,
          limit: 20,
          consumed: 16,
          resetTimeStamp: "2025-07-15T10:00:00.000Z",
        },
      },
    ]);
    expect(Object.keys(events[0]?.details ?? {}).slice(4)).toEqual([
      "threshold",
      "limit",
      "consumed",
      "resetTimeStamp",
    ]);
  });

  test("after USAGE_LIMIT_REACHED of the same movement; an adjustment raises only thresholds", async () => {
    await setAlerts({ thresholds: [80, 100] });
    await contract(api, key, ada);
    expect(await raised(() => use(9))).toEqual([80]);
    expect(await raised(() => use(1))).toEqual(["L", 100]);
    await reset();
    expect(await raised(() => add(10))).toEqual([80, 100]);
    const both = await allEventsDuring(api, async () => {
      await reset();
      const body = { tasker: { maxTasks: 8, maxExports: 10 } };
      expect((await api.call("PUT", `/contracts/${ada}/usageLevels`, { key, body })).status).toBe(200);
    });
    expect(both.map(({ details }) => [details["limitName"], details["threshold"], details["resetTimeStamp"]])).toEqual([
      ["maxTasks", 80, "2025-09-15T10:00:00.000Z"],
      ["maxExports", 80, null],
      ["maxExports", 100, null],
    ]);
  });

  test("by what a hold counts, not by what it holds", async () => {
    await setAlerts({ thresholds: [80] });
    await contract(api, key, ada, { billingPeriod: { autoRenew: true, renewalDays: 30 } });
    const hold = async (query: string) => {
      const path = `/features/${ada}/tasker-board?hold=${query}`;
      const answer = await api.call<{ hold: { id: string } }>("POST", path, { key, body: { "tasker-maxTasks": 8 } });
      expect(answer.status).toBe(200);
      return answer.body.hold.id;
    };
    let id = "";
    expect(await raised(async () => (id = await hold("PT1H")))).toEqual([]);
    const settle = () => api.call("POST", `/holds/${id}`, { key, body: { "tasker-maxTasks": 8 } });
    expect(await raised(settle)).toEqual([80]);
    await reset();
    await hold("PT1M&onExpiry=consume");
    api.setNow(new Date("2025-06-15T10:02:00.000Z"));
    expect(await raised(() => consume(api, key, ada, { "tasker-maxTasks": 0 }))).toEqual([80]);
    expect(await raised(() => use(1))).toEqual([]);
    await reset();
    // Ends before the renewal, which takes away what it raised.
    api.setNow(new Date("2025-09-15T09:59:30.000Z"));
    await hold("PT29S&onExpiry=consume");
    api.setNow(new Date("2025-09-15T10:00:01.000Z"));
    expect(await raised(() => use(9))).toEqual([80, 80]);
    expect(await raised(() => use(0))).toEqual([]);
  });

  test("by items of a batch, for each contract on its own", async () => {
    await setAlerts({ thresholds: [50, 80] });
    const bob = `bob-${number}`;
    await contract(api, key, ada);
    await contract(api, key, bob);
    const item = (userId: string, amount: number, name: string) => ({
      key: `${userId} ${name}`,
      userId,
      featureId: "tasker-board",
      amounts: { "tasker-maxTasks": amount },
    });
    const body = [item(ada, 5, "1"), item(bob, 5, "1"), item(ada, 1, "2"), item(bob, 3, "2"), item(ada, 1, "3")];
    expect(await raised(() => api.call("POST", "/usage", { key, body }))).toEqual([50, 50, 80]);
    expect(await raised(() => use(1))).toEqual([80]);
    expect(await raised(() => use(1, bob))).toEqual([]);
  });

  test("again after a renewal, which the same movement may find due", async () => {
    await setAlerts({ thresholds: [50, 100] });
    await contract(api, key, ada, { billingPeriod: { autoRenew: true, renewalDays: 30 } });
    expect(await raised(() => use(10))).toEqual(["L", 50, 100]);
    api.setNow(new Date("2025-07-20T10:00:00.000Z"));
    expect(await raised(() => use(6))).toEqual([50]);
    api.setNow(new Date("2025-08-20T10:00:00.000Z"));
    expect(await raised(() => add(10))).toEqual([50, 100]);
    api.setNow(new Date("2025-09-20T10:00:00.000Z"));
    await api.call("POST", "/services/tasker/novations", { key, body: { pricingVersion: "2.0.0" } });
    expect(await raised(() => use(10))).toEqual([50]);
  });

  test("by the thresholds of now, also those set after the contract was cached", async () => {
    await setAlerts({ thresholds: [100] });
    await contract(api, key, ada);
    expect(await raised(() => use(6))).toEqual([]);
    await setAlerts({ thresholds: [60, 70] });
    expect(await raised(() => use(1))).toEqual([60, 70]);
    await setAlerts({ thresholds: [65, 75] });
    expect(await raised(() => use(1))).toEqual([75]);
  });

  test("of no limit that is unlimited or 0", async () => {
    await setAlerts({ thresholds: [1, 100] });
    await contract(api, key, ada, { contractedServices: { tasker: "3.0.0" } });
    expect(await raised(() => use(50_000_000))).toEqual([]);
    expect(await raised(() => add(60_000_000))).toEqual([]);
    await novate("4.0.0");
    expect(await raised(() => add(1))).toEqual([]);
  });

  test("once by many calls at once, in two processes, and after the balance was read", async () => {
    await setAlerts({ thresholds: [20, 40, 60, 80, 100] });
    await contract(api, key, ada);
    const { keyring, settings, now } = api.resources;
    // Another process, which cannot subscribe to changes and reads each contract again.
    const resources = createResources(api.database.connection, { keyring, settings, now });
    const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
    const useThere = () =>
      app.request(`/api/v1/features/${ada}/tasker-board`, {
        method: "POST",
        headers: { "x-api-key": key, "content-type": "application/json" },
        body: '{"tasker-maxTasks":1}',
      });
    const found = await raised(async () => {
      for (let round = 0; round < 3; round += 1) {
        await Promise.all([use(1), useThere(), use(1), useThere()]);
        // Evaluates from the cached contract with fresh balances.
        await consume(api, key, ada, {});
      }
    });
    expect(await consumed(api, key, ada)).toBe(10);
    expect(found.filter((each) => each !== "L")).toEqual([20, 40, 60, 80, 100]);
  });

  test("exactly when it is above what was raised since the last reset, over random movements", async () => {
    const movement = fc.oneof(
      fc.record({ kind: fc.constant("use" as const), amount: fc.integer({ min: 0, max: 6 }) }),
      fc.record({ kind: fc.constant("add" as const), amount: fc.integer({ min: -4, max: 6 }) }),
      fc.record({ kind: fc.constantFrom("revert" as const, "reset" as const, "novate" as const) }),
    );
    const thresholds = [30, 50, 100, 140];
    await setAlerts({ thresholds });
    await fc.assert(
      fc.asyncProperty(fc.array(movement, { minLength: 5, maxLength: 15 }), async (movements) => {
        ada = `random-${(number += 1)}`;
        await contract(api, key, ada);
        let limit = 10;
        let memory = { threshold: 0, limit };
        for (const each of movements) {
          const before = await consumed(api, key, ada);
          const found = await raised(async () => {
            if (each.kind === "use") await use(each.amount);
            else if (each.kind === "add") await add(each.amount);
            else if (each.kind === "revert") await revert();
            else if (each.kind === "reset") await reset();
            else await novate(limit === 10 ? "2.0.0" : "1.0.0");
          });
          if (each.kind === "novate") limit = 30 - limit;
          if (each.kind === "reset") memory = { threshold: 0, limit };
          const after = await consumed(api, key, ada);
          const above = memory.limit === limit ? memory.threshold : 0;
          const due = thresholds.filter((one) => one > above && after * 100 >= one * limit);
          const expected = (each.kind === "use" || each.kind === "add") && after > before ? due : [];
          expect(found.filter((one) => one !== "L")).toEqual(expected);
          if (expected.length > 0) memory = { threshold: expected.at(-1) ?? 0, limit };
        }
      }),
      { numRuns: 8 },
    );
  }, 60_000);
});
