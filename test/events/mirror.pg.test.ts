import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { numberEvents, readOutbox } from "../../src/db/queries/outbox.ts";
import { EVENT_CODES, isPublicCode } from "../../src/core/event-messages.ts";
import { contextOf } from "../../src/operations/context.ts";
import { announceExpired, renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { sweepDueChanges } from "../../src/operations/due-changes.ts";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { consume, type ContractBody, contractFor, factsOf, show, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

interface Recorded {
  code: string;
  organizationId: string | null;
  details: Record<string, unknown>;
}
type Facts = Omit<ContractBody, "usageLevels" | "history">;

let api: TestApi;
let key: string;
let mine: string;
let other: TestOrganization;
let seen = 0;
/** State of a mirror: facts by organization and contract. */
const mirror = new Map<string, Facts>();

beforeAll(async () => {
  api = await createTestApi();
  ({ key } = api.callers.all);
  mine = api.callers.organizationId;
  other = await api.newOrganization(api.callers.owner, "Other");
  await upload(
    api,
    key,
    tasker(),
    tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: 5 }),
    tasker({ name: "Keeper" }),
  );
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});
beforeEach(() => recorded());

/** Returns the contract events since the last call, in order. */
async function recorded(): Promise<Recorded[]> {
  await numberEvents(api.database.connection.db);
  const events = await readOutbox(api.database.connection.db, { after: seen, filter: {}, limit: 1000 });
  seen = events.at(-1)?.id ?? seen;
  return events.filter(({ code }) => code.startsWith("CONTRACT_") && !code.startsWith("CONTRACT_OVERRIDE"));
}

/** Returns the contracts of both organizations, as GET shows them. */
async function shown(): Promise<Map<string, Facts>> {
  const contracts = new Map<string, Facts>();
  for (const organizationKey of [key, other.key]) {
    const { body } = await api.call<ContractBody[]>("GET", "/contracts?limit=1000", { key: organizationKey });
    for (const contract of body) contracts.set(`${contract.organizationId} ${contract.id}`, factsOf(contract));
  }
  return contracts;
}

/** Replays events: each starts from what the mirror holds. */
function replay(events: readonly Recorded[]): void {
  for (const { code, organizationId, details } of events) {
    const place = `${organizationId} ${String(details["contractId"])}`;
    expect(mirror.get(place) ?? null, code).toEqual(details["before"]);
    if (code === "CONTRACT_DELETED") {
      expect(details["after"]).toBeNull();
      mirror.delete(place);
    } else {
      mirror.set(place, details["after"] as Facts);
    }
    if (code === "CONTRACT_UPDATED") expect(details["after"]).not.toEqual(details["before"]);
    if (code === "CONTRACT_EXPIRED") expect(details["after"]).toEqual(details["before"]);
  }
}

const made = async (userId: string, overrides: Record<string, unknown> = {}) => {
  const answer = await api.call<ContractBody>("POST", "/contracts", { key, body: contractFor(userId, overrides) });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
};
const withBoth = {
  contractedServices: { tasker: "1.0.0", keeper: "1.0.0" },
  subscriptionPlans: { tasker: "PRO", keeper: "PRO" },
};
const put = (path: string, body: object) => api.call("PUT", path, { key, body });
const codes = (events: readonly Recorded[]) => events.map(({ code, details }) => [code, details["userId"]]);

describe("each change of a contract's facts raises exactly one event", () => {
  test("of its contact, with what it was and what it is; a change of nothing raises none", async () => {
    const before = factsOf(await made("ada"));
    await recorded();
    for (let time = 0; time < 2; time += 1) {
      expect((await put("/contracts/ada/userContact", { email: "ada@example.com" })).status).toBe(200);
    }
    const after = factsOf(await show(api, key, "ada"));
    expect(await recorded()).toEqual([
      expect.objectContaining({
        code: "CONTRACT_UPDATED",
        organizationId: mine,
        details: { contractId: before.id, userId: "ada", changed: ["userContact"], before, after },
      }),
    ]);
    expect(Object.keys(before)).toEqual([
      "id",
      "userContact",
      "billingPeriod",
      "organizationId",
      "contractedServices",
      "subscriptionPlans",
      "subscriptionAddOns",
    ]);
    expect((await put("/contracts/ada/userContact", { email: "no address" })).status).toBe(422);
    expect((await put("/contracts/ada/userContact", {})).status).toBe(200);
    expect(await recorded()).toEqual([]);
  });

  test("of its billing period, alone and with its group, of those that it changes", async () => {
    await made("bea", { groupId: "billed" });
    const bob = await made("bob", { groupId: "billed", billingPeriod: { autoRenew: true, renewalDays: 30 } });
    await recorded();
    expect((await put("/contracts/bob/billingPeriod", { autoRenew: true, endDate: "2027-01-01" })).status).toBe(200);
    const [single, ...more] = await recorded();
    expect(more).toEqual([]);
    expect(single).toMatchObject({
      code: "CONTRACT_UPDATED",
      details: {
        contractId: bob.id,
        changed: ["billingPeriod"],
        before: { billingPeriod: bob.billingPeriod },
        after: { billingPeriod: { ...bob.billingPeriod, endDate: "2027-01-01T00:00:00.000Z" } },
      },
    });
    expect((await put("/contracts/billingPeriod?groupId=billed", { autoRenew: true })).status).toBe(200);
    expect(codes(await recorded())).toEqual([["CONTRACT_UPDATED", "bea"]]);
    expect((await put("/contracts/billingPeriod?groupId=billed", { endDate: "1999-01-01" })).status).toBe(400);
    expect(await recorded()).toEqual([]);
  });

  test("of its services: renamed, disabled, removed for good", async () => {
    await upload(api, key, tasker({ name: "Brief" }));
    const user = await made("cleo", {
      contractedServices: { brief: "1.0.0", keeper: "1.0.0" },
      subscriptionPlans: { brief: "PRO", keeper: "PRO" },
      subscriptionAddOns: { brief: { extraTasks: 2 } },
    });
    await recorded();
    expect((await put("/services/Brief", { name: "Short" })).status).toBe(200);
    const maps = ["contractedServices", "subscriptionPlans", "subscriptionAddOns"];
    expect(await recorded()).toMatchObject([
      {
        code: "CONTRACT_UPDATED",
        details: {
          contractId: user.id,
          changed: maps,
          after: {
            contractedServices: { short: "1.0.0", keeper: "1.0.0" },
            billingPeriod: user.billingPeriod,
            subscriptionAddOns: { short: { extraTasks: 2 } },
          },
        },
      },
    ]);
    // Renames in letter case only: contracts name services in lower case.
    expect((await put("/services/Short", { name: "SHORT" })).status).toBe(200);
    expect(await recorded()).toEqual([]);
    api.setNow(new Date("2025-06-16T10:00:00.000Z"));
    expect((await api.call("DELETE", "/services/short", { key })).status).toBe(204);
    expect(await recorded()).toMatchObject([
      {
        code: "CONTRACT_UPDATED",
        details: { changed: ["billingPeriod", ...maps], after: { contractedServices: { keeper: "1.0.0" } } },
      },
    ]);
    const away = await api.newOrganization(api.callers.owner, "Away");
    await upload(api, away.key, tasker());
    await api.call("POST", "/contracts", { key: away.key, body: contractFor("pruned") });
    await recorded();
    expect((await api.call("DELETE", "/services", { key: away.key })).status).toBe(200);
    expect(await recorded()).toMatchObject([
      { code: "CONTRACT_UPDATED", organizationId: away.id, details: { after: { contractedServices: {} } } },
    ]);
  });

  test("of its organization: deleted in the old one, created in the new one; updated where it stays", async () => {
    await upload(api, key, tasker({ name: "Wander" }));
    const one = {
      contractedServices: { wander: "1.0.0" },
      subscriptionPlans: { wander: "PRO" },
      subscriptionAddOns: {},
    };
    const going = await made("going", one);
    const staying = await made("staying", {
      contractedServices: { wander: "1.0.0", keeper: "1.0.0" },
      subscriptionPlans: { wander: "PRO", keeper: "PRO" },
    });
    await recorded();
    expect((await put("/services/Wander", { name: "Wanderer", organizationId: other.id })).status).toBe(200);
    const events = await recorded();
    expect(events).toHaveLength(3);
    const of = (id: string) => events.filter(({ details }) => details["contractId"] === id);
    expect(of(going.id)).toMatchObject([
      {
        code: "CONTRACT_DELETED",
        organizationId: mine,
        details: { userId: "going", before: factsOf(going), after: null },
      },
      {
        code: "CONTRACT_CREATED",
        organizationId: other.id,
        details: {
          contractId: going.id,
          userId: "going",
          before: null,
          after: {
            ...factsOf(going),
            organizationId: other.id,
            contractedServices: { wanderer: "1.0.0" },
            subscriptionPlans: { wanderer: "PRO" },
          },
        },
      },
    ]);
    expect(of(staying.id)).toMatchObject([
      {
        code: "CONTRACT_UPDATED",
        organizationId: mine,
        details: {
          changed: ["contractedServices", "subscriptionPlans"],
          before: factsOf(staying),
          after: { contractedServices: { keeper: "1.0.0" } },
        },
      },
    ]);
  });

  test("of its being: one for each contract that is deleted, none for those of a deleted organization", async () => {
    const dora = factsOf(await made("dora"));
    await recorded();
    expect((await api.call("DELETE", "/contracts/dora", { key })).status).toBe(204);
    expect((await api.call("DELETE", "/contracts/dora", { key })).status).toBe(404);
    expect(await recorded()).toEqual([
      expect.objectContaining({
        code: "CONTRACT_DELETED",
        organizationId: mine,
        details: { contractId: dora.id, userId: "dora", before: dora, after: null },
      }),
    ]);
    const brief = await api.newOrganization(api.callers.owner, "Brief");
    await upload(api, brief.key, tasker());
    for (const userId of ["e1", "e2"]) {
      await api.call("POST", "/contracts", { key: brief.key, body: contractFor(userId) });
    }
    await recorded();
    expect((await api.call("DELETE", "/contracts", { key: brief.key })).status).toBe(204);
    expect(codes(await recorded())).toEqual([
      ["CONTRACT_DELETED", "e1"],
      ["CONTRACT_DELETED", "e2"],
    ]);
    await api.call("POST", "/contracts", { key: brief.key, body: contractFor("e3") });
    await recorded();
    expect((await api.call("DELETE", `/organizations/${brief.id}`, { key: api.callers.owner.key })).status).toBe(204);
    expect(await recorded()).toEqual([]);
  });
});

test("a mirror that replays the events holds after each of many changes what GET shows", async () => {
  for (const [place, facts] of await shown()) mirror.set(place, facts);
  await upload(api, key, tasker({ name: "Passing" }));
  const users = Array.from({ length: 6 }, (_, number) => `mirrored-${number}`);
  const pick = <T>(list: readonly T[], number: number): T => {
    const one = list[number % list.length];
    if (one === undefined) throw new Error("the list is empty");
    return one;
  };
  const owned = { home: "passing", away: "passed" };
  let now = Date.parse("2025-07-01T00:00:00Z");
  const steps: ((number: number) => Promise<unknown>)[] = [
    (number) =>
      api.call("POST", "/contracts", {
        key,
        body: contractFor(pick(users, number), {
          groupId: "mirrored",
          ...(number % 2 === 0 ? withBoth : {}),
          billingPeriod: { autoRenew: number % 3 === 0, renewalDays: 10 },
        }),
      }),
    (number) =>
      api.call("POST", "/contracts", {
        key,
        body: contractFor(pick(users, number), {
          billingPeriod: { autoRenew: number % 3 !== 0, renewalDays: 10 },
          trial: {
            days: 3,
            again: true,
            then:
              number % 2 === 0
                ? "end"
                : { subscriptionPlans: { tasker: "BASIC" }, subscriptionAddOns: { tasker: { extraTasks: 1 } } },
          },
        }),
      }),
    (number) =>
      api.call("POST", `/contracts/${pick(users, number)}/scheduled`, {
        key,
        body: {
          at: number % 2 === 0 ? "periodEnd" : new Date(now + (number % 5) * 86_400_000 + 1000).toISOString(),
          contractedServices: { tasker: "2.0.0" },
          subscriptionPlans: { tasker: "BASIC" },
          subscriptionAddOns: {},
        },
      }),
    (number) =>
      put(`/contracts/${pick(users, number)}/billingPeriod`, { endDate: new Date(now + (number % 9)).toISOString() }),
    (number) => consume(api, key, pick(users, number), {}),
    () => renewDueContracts(api.resources.db, new Date(now)),
    () => announceExpired(api.resources.db, new Date(now)),
    () => sweepDueChanges(contextOf(api.resources, { kind: "anonymous" })),
    () => api.call("POST", "/services/tasker/novations", { key, body: { pricingVersion: "2.0.0" } }),
    (number) =>
      api.call("PUT", `/services/tasker/pricings/1.0.0?availability=${number % 2 === 0 ? "archived" : "active"}`, {
        key,
        body: { subscriptionPlan: "PRO", subscriptionAddOns: {} },
      }),
    (number) => put(`/contracts/${pick(users, number)}/userContact`, { phone: String(number % 4) }),
    (number) => put(`/contracts/${pick(users, number)}/billingPeriod`, { autoRenew: number % 3 === 0 }),
    (number) => put("/contracts/billingPeriod?groupId=mirrored", { renewalDays: 7 + (number % 3) }),
    (number) => api.call("DELETE", `/contracts/${pick(users, number)}`, { key }),
    (number) =>
      put(`/contracts/${pick(users, number)}`, {
        contractedServices: { [owned.home]: "1.0.0" },
        subscriptionPlans: { [owned.home]: "BASIC" },
        subscriptionAddOns: {},
      }),
    () =>
      put("/contracts?groupId=mirrored", {
        contractedServices: { tasker: "2.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      }),
    async (number) => {
      const name = `passing ${number}`;
      const answer = await put(`/services/${owned.home}`, { name });
      if (answer.status === 200) owned.home = name;
    },
    (number) => put(`/services/${owned.home}`, number % 2 === 0 ? { organizationId: other.id } : {}),
    (number) =>
      api.call("PUT", `/services/${owned.home}`, {
        key: other.key,
        body: number % 2 === 0 ? { organizationId: mine } : { name: owned.home },
      }),
  ];
  await recorded();
  const raised = new Set<string>();
  let random = 42;
  for (let number = 0; number < 250; number += 1) {
    random = (random * 1_103_515_245 + 12_345) % 2_147_483_648;
    now += (random >> 6) % 3 === 0 ? ((random >> 7) % 6) * 86_400_000 + 1 : 60_000;
    api.setNow(new Date(now));
    await pick(steps, random >> 8)(random >> 4);
    const truth = await shown();
    const events = await recorded();
    for (const { code } of events) raised.add(code);
    replay(events.filter(({ organizationId }) => organizationId === mine || organizationId === other.id));
    expect(Object.fromEntries(mirror)).toEqual(Object.fromEntries(truth));
  }
  expect([...raised].sort()).toEqual(
    ["CREATED", "DELETED", "EXPIRED", "NOVATED", "RENEWED", "UPDATED"].map((change) => `CONTRACT_${change}`),
  );
});

test("the codes are private, can be subscribed to, and stand in order in the sentence that lists them", async () => {
  const ours = ["USAGE_THRESHOLD_REACHED", "CONTRACT_UPDATED", "CONTRACT_DELETED"];
  expect(ours.map(isPublicCode)).toEqual([false, false, false]);
  expect(EVENT_CODES.slice(9, 12)).toEqual(ours);
  const path = `/organizations/${mine}/webhooks`;
  const { owner } = api.callers;
  const refused = await api.call<{ error: string }>("POST", path, {
    key: owner.key,
    body: { url: "https://hooks.example/", codes: ["CONTRACT_CHANGED"] },
  });
  expect(refused.status).toBe(422);
  expect(refused.body.error).toMatch(
    /, USAGE_LIMIT_REACHED, USAGE_THRESHOLD_REACHED, CONTRACT_UPDATED, CONTRACT_DELETED, CONTRACT_OVERRIDE_SET, CONTRACT_OVERRIDE_ENDED, CHANGE_SCHEDULED, CHANGE_CANCELLED, CHANGE_BLOCKED, CHANGE_REQUESTED, CHANGE_APPROVED, CHANGE_REJECTED, TRIAL_ENDING, TRIAL_ENDED, BLOCK_GRANTED, BLOCK_ENDED, MEMBER_ADDED, MEMBER_REMOVED, BUDGET_THRESHOLD_REACHED$/,
  );
  const subscribed = await api.call("POST", path, {
    key: owner.key,
    body: { url: "https://hooks.example/", codes: ours },
  });
  expect(subscribed.status).toBe(201);
});
