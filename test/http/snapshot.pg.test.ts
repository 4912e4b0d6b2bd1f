import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { SnapshotAnswer, SnapshotEntry } from "../../src/core/snapshot.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Cases 14 to 18 of contract tokens-and-leases §10. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;

let api: TestApi;
let key: string;
const setNow = (moment: number) => api.setNow(new Date(moment));
const iso = (moment: number) => new Date(moment).toISOString();

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
});
afterAll(() => api.close());
beforeEach(() => setNow(START));

let users = 0;
async function subscribed(more: object = {}): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
    billingPeriod: { autoRenew: true, renewalDays: 30 },
    ...more,
  });
  return userId;
}

type Failed = SnapshotAnswer & { error?: string };
const take = (body: unknown, given = api.callers.evaluation.key) =>
  api.call<Failed>("POST", "/snapshot", { key: given, body });
const entriesOf = async (...userIds: string[]) => {
  const { status, body } = await take({ users: userIds.map((userId) => ({ userId })) });
  expect(status).toBe(200);
  return body;
};
const entryOf = async (userId: string) => (await entriesOf(userId)).users[0] as SnapshotEntry;

describe("POST /snapshot", () => {
  test("14: tells what decides about users, and neither prices, plans, add-ons nor balances", async () => {
    const ada = await subscribed();
    await api.call("POST", `/features/${ada}/tasker-board`, { key, body: { "tasker-maxTasks": 7 } });
    const answer = await take({ users: [{ userId: ada }, { userId: "nobody" }, { userId: ada }] });
    expect(answer.status).toBe(200);
    const { users: entries, pricings, grants, ...rest } = answer.body;
    expect(rest).toEqual({ format: 1, now: iso(START) });
    const entry = entries[0] as SnapshotEntry;
    expect(entry).toMatchObject({ userId: ada, validUntil: iso(START + 30 * DAY), refusal: null });
    expect(entries[1]).toEqual({
      userId: "nobody",
      contractId: null,
      version: null,
      validUntil: iso(START + 1000),
      services: [],
      refusal: { status: 404, error: "Contract with userId nobody not found" },
    });
    expect(entries[2]).toEqual(entry);
    const [service] = entry.services;
    expect(service?.service).toBe("tasker");
    const pricing = pricings[service?.pricing ?? ""];
    const grant = grants[service?.grant ?? ""];
    expect(grant).toMatchObject({
      features: { board: true, darkMode: true, export: false },
      usageLimits: { maxTasks: 300 },
    });
    expect(Object.keys(pricing ?? {})).toEqual(["saasName", "features", "usageLimits"]);
    const hashOf = (part: unknown) => createHash("sha256").update(JSON.stringify(part)).digest("hex");
    expect([hashOf(pricing), hashOf(grant)]).toEqual([service?.pricing, service?.grant]);
    expect(JSON.stringify(answer.body)).not.toMatch(/PRO|extraTasks|price"|"task"|EUR|description|consumed|:7\b/);
    expect((await take({ users: [{ userId: ada }] }, api.callers.owner.key)).status).toBe(403);
  });

  test("15: repeats nothing that the caller has, until it changes", async () => {
    const ada = await subscribed();
    const first = await entriesOf(ada);
    const { version } = first.users[0] as SnapshotEntry;
    const again = async () =>
      (
        await take({
          users: [{ userId: ada, version }],
          knownPricings: Object.keys(first.pricings),
          knownGrants: Object.keys(first.grants),
        })
      ).body;
    const unchanged = { users: [{ userId: ada, version, unchanged: true }], pricings: {}, grants: {} };
    expect(await again()).toMatchObject(unchanged);
    await api.call("PUT", `/contracts/${ada}/userContact`, { key, body: { email: "ada@example.com" } });
    expect(await again()).toMatchObject(unchanged);
    await api.call("POST", `/features/${ada}/tasker-board`, { key, body: { "tasker-maxTasks": 5 } });
    expect(await again()).toMatchObject(unchanged);
    const novated = await api.call("PUT", `/contracts/${ada}`, {
      key,
      body: {
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "FREE" },
        subscriptionAddOns: {},
      },
    });
    expect(novated.status).toBe(200);
    const changed = await again();
    const entry = changed.users[0] as SnapshotEntry;
    expect(entry.version).not.toBe(version);
    expect(changed.pricings).toEqual({});
    expect(Object.keys(changed.grants)).toEqual([entry.services[0]?.grant]);
  });

  test.each<[unknown, string]>([
    [{}, "The users field is required"],
    [{ users: null }, "The users field is required"],
    [{ users: {} }, "The users field must be a list of 1 to 500 entries"],
    [{ users: [] }, "The users field must be a list of 1 to 500 entries"],
    [
      { users: Array.from({ length: 501 }, () => ({ userId: "a" })) },
      "The users field must be a list of 1 to 500 entries",
    ],
    [{ users: [{ userId: "a" }, 7] }, "The users.1 field must be an object"],
    [{ users: [{}] }, "The users.0.userId field must be a non-empty string"],
    [{ users: [{ userId: "", foo: 1 }] }, "The users.0.userId field must be a non-empty string"],
    [{ users: [{ userId: "a", version: 1 }] }, "The users.0.version field must be a string"],
    [
      { users: [{ userId: "a" }], knownPricings: [1] },
      "The knownPricings field must be a list of at most 1000 strings",
    ],
    [
      { users: [{ userId: "a" }], knownGrants: Array(1001).fill("a"), bar: 1 },
      "The knownGrants field must be a list of at most 1000 strings",
    ],
    [{ users: [{ userId: "a" }], foo: 1 }, "Unknown field: foo"],
    [{ users: [{ userId: "a" }, { userId: "b", foo: 1 }] }, "Unknown field: users.1.foo"],
    [[], "The body must be an object"],
  ])("16: body %# is refused", async (body, error) => {
    expect(await take(body)).toMatchObject({ status: 422, body: { error } });
  });

  test("16: null counts as absent, and a user id may have any character", async () => {
    const { status, body } = await take({
      users: [{ userId: "a\u0000b", version: null }, { userId: 'q"\\{}' }],
      knownPricings: null,
      knownGrants: null,
    });
    expect(status).toBe(200);
    expect(body.users).toMatchObject([{ contractId: null }, { contractId: null, userId: 'q"\\{}' }]);
  });

  test("17: an expired contract is refused, a renewing one is renewed with one event", async () => {
    const ended = await subscribed({ billingPeriod: { autoRenew: false, renewalDays: 30 } });
    const renewing = await subscribed();
    setNow(START + 30 * DAY);
    expect(await entryOf(ended)).toMatchObject({ refusal: null, validUntil: iso(START + 30 * DAY) });
    setNow(START + 30 * DAY + 1);
    const evaluated = await api.call<{ error: string }>("POST", `/features/${ended}/tasker-board`, { key, body: {} });
    const events = await allEventsDuring(api, async () => {
      const { users: entries } = await entriesOf(ended, renewing, renewing);
      expect(entries[0]).toMatchObject({
        refusal: { status: evaluated.status, error: evaluated.body.error },
        services: [],
        validUntil: null,
      });
      expect(entries[1]).toMatchObject({ refusal: null, validUntil: iso(START + 60 * DAY) });
    });
    expect(events).toMatchObject([{ code: "CONTRACT_RENEWED", details: { userId: renewing } }]);
  });

  test("17: a renewal resets no balance", async () => {
    const ada = await subscribed();
    const tasks = { "tasker-maxTasks": 4 };
    await api.call("POST", `/features/${ada}/tasker-board`, { key, body: tasks });
    setNow(START + 45 * DAY);
    await entryOf(ada);
    const { client } = api.database.connection;
    const [level] = await client`
      select consumed from usage_levels join contracts on contracts.id = contract_id
      where user_id = ${ada} and limit_name = 'maxTasks'`;
    expect(Number(level?.["consumed"])).toBe(4);
  });

  test("17: a scheduled change that is due is carried out", async () => {
    const ada = await subscribed();
    const at = START + DAY;
    const planned = await api.call("POST", `/contracts/${ada}/scheduled`, {
      key,
      body: {
        at: iso(at),
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "FREE" },
        subscriptionAddOns: {},
      },
    });
    expect(planned.status).toBe(201);
    const before = await entryOf(ada);
    expect(before.validUntil).toBe(iso(at - 1));
    setNow(at);
    const { users: entries, grants } = await entriesOf(ada);
    const after = entries[0] as SnapshotEntry;
    expect(after.version).not.toBe(before.version);
    expect(grants[after.services[0]?.grant ?? ""]?.features["export"]).toBe(false);
  });

  test("18: an override bounds the entry at both ends", async () => {
    const ada = await subscribed();
    const [from, until] = [START + 2000, START + 5000];
    await api.call("PUT", `/contracts/${ada}/overrides/tasker/usageLimits/maxTasks`, {
      key,
      body: { mode: "add", value: 50, from: iso(from), until: iso(until), reason: "Launch week" },
    });
    const limitAt = async (moment: number) => {
      setNow(moment);
      const { users: entries, grants } = await entriesOf(ada);
      const { services, validUntil } = entries[0] as SnapshotEntry;
      return [grants[services[0]?.grant ?? ""]?.usageLimits["maxTasks"], validUntil];
    };
    expect(await limitAt(START)).toEqual([300, iso(from - 1)]);
    expect(await limitAt(from)).toEqual([350, iso(until - 1)]);
    expect(await limitAt(until)).toEqual([300, iso(START + 30 * DAY)]);
  });

  test("a contract whose service is disabled is refused as in an evaluation", async () => {
    await upload(api, key, SAMPLE.replace("saasName: Tasker", "saasName: Fleeting"));
    await contract(api, key, "fleeting-user", {
      contractedServices: { fleeting: "1.0.0" },
      subscriptionPlans: { fleeting: "PRO" },
    });
    const before = await entryOf("fleeting-user");
    expect(before.refusal).toBeNull();
    await api.database.connection.client`update services set disabled = true where name_key = 'fleeting'`;
    await api.resources.invalidationsApplied?.();
    const evaluated = await api.call<{ error: string }>("POST", "/features/fleeting-user/fleeting-board", {
      key,
      body: {},
    });
    const after = await entryOf("fleeting-user");
    expect(evaluated.status).toBe(404);
    expect(after).toMatchObject({ refusal: { status: 404, error: evaluated.body.error }, services: [] });
    expect(after.version).not.toBe(before.version);
  });

  test("names a spender, who must be a member where the contract has members", async () => {
    const acme = await subscribed();
    const before = await entryOf(acme);
    const member = { key, body: {} };
    expect((await api.call("PUT", `/contracts/${acme}/members/ada`, member)).status).toBe(201);
    const spenders = [undefined, null, "ada/agent", "grace/agent"];
    const { body } = await take({ users: spenders.map((spender) => ({ userId: acme, spender })) });
    const refusal = { status: 404, error: `Member grace of ${acme} not found` };
    expect(body.users).toEqual([before, before, before, { ...before, version: expect.any(String), refusal }]);
    expect(body.users[3]).not.toMatchObject({ version: before.version });
    expect(await take({ users: [{ userId: acme, spender: "a//b" }] })).toMatchObject({
      status: 422,
      body: { error: "spender must be a path of 1 to 4 ids" },
    });
  });

  test("looks the members of all its users up with one query", async () => {
    const teams = [await subscribed(), await subscribed(), await subscribed()];
    for (const userId of teams) await api.call("PUT", `/contracts/${userId}/members/ada`, { key, body: {} });
    const users = teams.flatMap((userId) => ["ada", "grace"].map((spender) => ({ userId, spender })));
    const statements: string[] = [];
    const { options } = api.database.connection.client;
    options.debug = (_, query) => statements.push(query);
    const { body } = await take({ users });
    options.debug = false;
    expect(body.users).toMatchObject(teams.flatMap(() => [{ refusal: null }, { refusal: { status: 404 } }]));
    expect(statements.filter((query) => query.includes("contract_members"))).toHaveLength(1);
  });

  test("changes with the budgets, and shows none of them", async () => {
    const acme = await subscribed();
    const seen = [await entryOf(acme)];
    for (const amount of [10, 20]) {
      const budget = { limit: "tasker-maxTasks", spender: "*", amount };
      await api.call("PUT", `/contracts/${acme}/budgets/each`, { key, body: budget });
      seen.push(await entryOf(acme));
    }
    expect(new Set(seen.map(({ version }) => version)).size).toBe(3);
    expect(seen[0]).not.toHaveProperty("budgets");
    expect(seen[1]?.budgets).toMatch(/^[0-9a-f]{64}$/);
    await api.call("DELETE", `/contracts/${acme}/budgets/each`, { key });
    expect(await entryOf(acme)).toEqual(seen[0]);
  });

  test("users that do not fit into 4 MB are deferred, and answered when asked again", async () => {
    const names = Array.from({ length: 499 }, (_, index) => `${index}-${"x".repeat(4100)}`);
    names.push(await subscribed());
    const asked = [...names];
    const answered: string[] = [];
    for (let calls = 0; asked.length > 0; calls += 1) {
      expect(calls).toBeLessThan(2);
      const text = await (
        await api.app.request("/api/v1/snapshot", {
          method: "POST",
          headers: { "x-api-key": key, "content-type": "application/json" },
          body: JSON.stringify({ users: asked.map((userId) => ({ userId })) }),
        })
      ).text();
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_000_000);
      const answer = JSON.parse(text) as SnapshotAnswer;
      expect(answer.users.map(({ userId }) => userId)).toEqual(asked);
      expect(answer.users[0]).not.toHaveProperty("deferred");
      for (const entry of answer.users) {
        if ("deferred" in entry) continue;
        answered.push(entry.userId);
        asked.splice(asked.indexOf(entry.userId), 1);
        for (const { pricing } of (entry as SnapshotEntry).services) expect(answer.pricings[pricing]).toBeDefined();
      }
    }
    expect(answered.toSorted()).toEqual(names.toSorted());
  });

  test("a snapshot is an api call and no evaluation", async () => {
    const before = { ...api.resources.callCounter.totals };
    await entriesOf("nobody");
    expect(api.resources.callCounter.totals).toEqual(before);
  });
});
