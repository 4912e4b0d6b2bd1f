import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { contextOf } from "../../src/operations/context.ts";
import { announceEndingTrials, announceExpired, renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { sweepDueChanges } from "../../src/operations/due-changes.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { allEventsDuring } from "../support/private-events.ts";
import { type ContractBody, contractFor, upload } from "../support/contracting.ts";

/* Cases of contract custom-terms §10 about trials, by their numbers. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;
const UNTIL = START + 14 * DAY;

type Shown = ContractBody & {
  trial?: { until: string; then: unknown };
  scheduled?: object;
  error?: string;
  asOf?: { cause: string };
};

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

const planOf = (plan: string, service = "tasker") => ({
  contractedServices: { [service]: "1.0.0" },
  subscriptionPlans: { [service]: plan },
  subscriptionAddOns: {},
});
const then = (plan: string, service = "tasker") => ({
  subscriptionPlans: { [service]: plan },
  subscriptionAddOns: {},
});
const TRIAL = { days: 14, then: then("PRO") };

let users = 0;
const fresh = () => `trial-${(users += 1)}`;
const create = (userId: string, trial: unknown, more: object = planOf("BUSINESS"), given = key) =>
  api.call<Shown>("POST", "/contracts", { key: given, body: { ...contractFor(userId), ...more, trial } });
const show = async (userId: string, query = "") =>
  (await api.call<Shown>("GET", `/contracts/${userId}${query}`, { key })).body;
const changesOf = async (userId: string) =>
  (await api.call<Record<string, unknown>[]>("GET", `/contracts/${userId}/scheduled`, { key })).body;
const setBilling = (userId: string, body: object) =>
  api.call<Shown>("PUT", `/contracts/${userId}/billingPeriod`, { key, body });
const consume = async (userId: string, amount = 0) =>
  (
    await api.call<{ eval?: boolean; error?: string; limit: Record<string, number>; used: Record<string, number> }>(
      "POST",
      `/features/${userId}/tasker-board`,
      { key, body: amount === 0 ? {} : { "tasker-maxTasks": amount } },
    )
  ).body;
const sweep = async () => {
  await sweepDueChanges(contextOf(api.resources, { kind: "anonymous" }));
  await announceEndingTrials(api.resources.db, api.resources.now());
};

/** Returns the events about one end user that `work` records, oldest first. */
const eventsDuring = async (userId: string, work: () => Promise<unknown>) =>
  (await allEventsDuring(api, work)).filter(({ details }) => details["userId"] === userId);
const auditOf = async (action: string, userId: string) =>
  (
    await api.call<{ data: { target: string; after: Record<string, unknown> }[] }>(
      "GET",
      `/audit-log?action=${action}`,
      {
        key,
      },
    )
  ).body.data.filter(({ target }) => target === userId);

let ada: string;
beforeEach(() => {
  setNow(START);
  ada = fresh();
});

describe("a trial", () => {
  test("28: converts to what follows, with its use", async () => {
    const events = await eventsDuring(ada, async () => {
      const created = await create(ada, TRIAL, {
        ...planOf("BUSINESS"),
        billingPeriod: { autoRenew: true, renewalDays: 30 },
      });
      expect(created.status).toBe(201);
      expect(created.body).toMatchObject({
        trial: { until: iso(UNTIL), then: then("PRO") },
        billingPeriod: { startDate: iso(START), endDate: iso(UNTIL), autoRenew: true, renewalDays: 30 },
      });
      expect(created.body).not.toHaveProperty("scheduled");
      expect(await changesOf(ada)).toEqual([
        expect.objectContaining({
          kind: "trialEnd",
          state: "pending",
          at: iso(UNTIL),
          atPeriodEnd: true,
          then: then("PRO"),
          reason: null,
        }),
      ]);
      expect((await changesOf(ada))[0]).not.toHaveProperty("contractedServices");
      expect((await changesOf(ada))[0]).not.toHaveProperty("autoRenew");
      setNow(UNTIL - 1);
      await renewDueContracts(api.resources.db, new Date(UNTIL - 1));
      expect((await consume(ada, 30)).limit["tasker-maxTasks"]).toBe(2000);
      setNow(UNTIL + DAY);
      await renewDueContracts(api.resources.db, new Date(UNTIL + DAY));
      expect(await consume(ada)).toMatchObject({ limit: { "tasker-maxTasks": 200 }, used: { "tasker-maxTasks": 30 } });
    });
    expect(events.map(({ code, details }) => [code, details["outcome"], details["until"]])).toEqual([
      ["CONTRACT_CREATED", undefined, undefined],
      ["CONTRACT_NOVATED", undefined, undefined],
      ["TRIAL_ENDED", "converted", iso(UNTIL)],
    ]);
    const after = await show(ada);
    expect(after).not.toHaveProperty("trial");
    expect(after).toMatchObject({
      subscriptionPlans: { tasker: "PRO" },
      billingPeriod: { startDate: iso(UNTIL), endDate: iso(UNTIL + 30 * DAY), autoRenew: true },
      history: [{ startDate: iso(START), endDate: iso(UNTIL) }],
    });
    expect(await changesOf(ada)).toMatchObject([{ state: "done", effectiveAt: iso(UNTIL) }]);
    const before = await show(ada, `?at=${iso(UNTIL - 1)}`);
    expect([before.trial, before.subscriptionPlans]).toEqual([
      { until: iso(UNTIL), then: then("PRO") },
      { tasker: "BUSINESS" },
    ]);
    const past = await show(ada, `?at=${iso(UNTIL)}`);
    expect([past.trial, past.asOf?.cause]).toEqual([undefined, "trialEnd"]);
    expect(await auditOf("contract.create", ada)).toMatchObject([{ after: { trial: { until: iso(UNTIL) } } }]);
  });

  test("29: ends the contract, which is valid at its end and expired after it", async () => {
    await create(
      ada,
      { until: iso(UNTIL), then: "end" },
      {
        ...planOf("BUSINESS"),
        billingPeriod: { autoRenew: true, renewalDays: 30 },
      },
    );
    const events = await eventsDuring(ada, async () => {
      setNow(UNTIL);
      expect((await consume(ada)).eval).toBe(true);
      setNow(UNTIL + 1);
      expect((await consume(ada)).error).toContain("expired");
      await announceExpired(api.resources.db, new Date(UNTIL + 1));
    });
    expect(events.map(({ code, details }) => [code, details["outcome"]])).toEqual([
      // It renews no more.
      ["CONTRACT_UPDATED", undefined],
      ["TRIAL_ENDED", "ended"],
      ["CONTRACT_EXPIRED", undefined],
    ]);
    expect(await show(ada)).toMatchObject({
      billingPeriod: { startDate: iso(START), endDate: iso(UNTIL), autoRenew: false },
      history: [],
    });
    expect(await auditOf("trial.end", ada)).toMatchObject([{ after: { outcome: "ended" } }]);
  });

  test("30: cannot be cancelled or scheduled over; moves with its end, and ends with a novation", async () => {
    await create(ada, TRIAL);
    const [trial] = await changesOf(ada);
    const scheduled = await api.call<{ error: string }>("POST", `/contracts/${ada}/scheduled`, {
      key,
      body: { at: iso(START + DAY), ...planOf("FREE") },
    });
    expect([scheduled.status, scheduled.body.error]).toEqual([
      409,
      `CONFLICT: Contract of user ${ada} has a change scheduled for ${iso(UNTIL)} already: ${String(trial?.["id"])}`,
    ]);
    const cancelled = await api.call<{ error: string }>(
      "DELETE",
      `/contracts/${ada}/scheduled/${String(trial?.["id"])}`,
      {
        key,
      },
    );
    expect([cancelled.status, cancelled.body.error]).toEqual([
      409,
      `CONFLICT: Scheduled change ${String(trial?.["id"])} is the end of a trial: novate the contract or move the end of its billing period`,
    ]);
    const reminders = await eventsDuring(ada, async () => {
      await sweep();
      setNow(UNTIL - 3 * DAY);
      await sweep();
      await sweep();
      expect((await setBilling(ada, { endDate: iso(UNTIL + 10 * DAY) })).body.trial?.until).toBe(iso(UNTIL + 10 * DAY));
      await sweep();
      setNow(UNTIL + 8 * DAY);
      await sweep();
    });
    expect(reminders.filter(({ code }) => code === "TRIAL_ENDING").map(({ details }) => details["until"])).toEqual([
      iso(UNTIL),
      iso(UNTIL + 10 * DAY),
    ]);
    const events = await eventsDuring(ada, async () => {
      const novated = await api.call<Shown>("PUT", `/contracts/${ada}`, { key, body: planOf("FREE") });
      expect(novated.body).not.toHaveProperty("trial");
      setNow(UNTIL + 10 * DAY);
      await sweep();
    });
    expect(events.map(({ code, details }) => [code, details["outcome"]])).toEqual([
      ["CONTRACT_NOVATED", undefined],
      ["TRIAL_ENDED", "novated"],
    ]);
    expect(await changesOf(ada)).toMatchObject([{ state: "cancelled", why: "Novated before its end" }]);
    expect((await show(ada)).subscriptionPlans).toEqual({ tasker: "FREE" });
  });

  test("ends at once when its end is moved to the past", async () => {
    await create(ada, TRIAL);
    setNow(START + 2 * DAY);
    const ended = await setBilling(ada, { endDate: iso(START + DAY) });
    expect(ended.body).toMatchObject({
      subscriptionPlans: { tasker: "PRO" },
      billingPeriod: { startDate: iso(START + DAY) },
    });
    expect(ended.body).not.toHaveProperty("trial");
  });

  test("31: is given once, also after deletion, and again by whom may", async () => {
    await create(ada, TRIAL);
    expect((await create(ada, { ...TRIAL, again: true }, undefined, api.callers.management.key)).body.error).toBe(
      "PERMISSION ERROR: Only a key of scope ALL or an ADMIN or OWNER of the organization can give another trial",
    );
    await api.call("DELETE", `/contracts/${ada}`, { key });
    const refused = await create(ada, TRIAL);
    expect([refused.status, refused.body.error]).toEqual([
      409,
      `CONFLICT: User ${ada} has had a trial of tasker already`,
    ]);
    expect((await create(ada, { ...TRIAL, again: true }, undefined, api.callers.management.key)).status).toBe(403);
    expect((await create(ada, { ...TRIAL, again: true })).status).toBe(201);
    const nested = (caller: { key: string }, userId: string) =>
      api.call("POST", `/organizations/${api.callers.organizationId}/contracts`, {
        key: caller.key,
        body: { ...contractFor(userId), ...planOf("BUSINESS"), trial: { ...TRIAL, again: true } },
      });
    const { owner, organizationAdmin, manager, platformAdmin } = api.callers;
    const answers = [];
    for (const caller of [owner, organizationAdmin, manager, platformAdmin]) {
      answers.push((await nested(caller, fresh())).status);
    }
    expect(answers).toEqual([201, 201, 403, 201]);
  });

  test("32: refusals name what is wrong, and leave nothing", async () => {
    for (const [trial, status, sentence] of [
      [5, 422, "The trial field must be an object"],
      [[], 422, "The trial field must be an object"],
      [{ then: "end" }, 422, "The trial field needs either until or days"],
      [{ days: 3, until: iso(UNTIL), then: "end" }, 422, "The trial field needs either until or days"],
      [{ days: null, until: null, then: "end" }, 422, "The trial field needs either until or days"],
      [{ until: "soon", then: "end" }, 422, "trial.until must be an ISO 8601 date"],
      [{ days: 0, then: "end" }, 422, "trial.days must be an integer between 1 and 365"],
      [{ days: 1.5, then: "end" }, 422, "trial.days must be an integer between 1 and 365"],
      [{ days: 3 }, 422, "trial.then is required"],
      [{ days: 3, then: null }, 422, "trial.then is required"],
      [
        { days: 3, then: "stop" },
        422,
        "trial.then must be end or an object with subscriptionPlans and subscriptionAddOns",
      ],
      [
        { days: 3, then: { subscriptionPlans: {} } },
        422,
        "trial.then must be end or an object with subscriptionPlans and subscriptionAddOns",
      ],
      [{ days: 3, then: { ...then("PRO"), price: 1 } }, 422, "Unknown field: trial.then.price"],
      [{ days: 3, then: "end", remindDays: 31 }, 422, "trial.remindDays must be an integer between 0 and 30"],
      [{ days: 3, then: "end", again: "yes" }, 422, "trial.again must be a boolean"],
      [{ days: 3, then: "end", length: 3 }, 422, "Unknown field: trial.length"],
      [{ until: iso(START), then: "end" }, 400, "INVALID DATA: trial.until must be within the next 365 days"],
      [
        { until: iso(START + 366 * DAY), then: "end" },
        400,
        "INVALID DATA: trial.until must be within the next 365 days",
      ],
      [
        { days: 3, then: { subscriptionPlans: {}, subscriptionAddOns: {} } },
        400,
        "INVALID DATA: trial.then says nothing of service tasker",
      ],
    ] as const) {
      const answer = await create(ada, trial);
      expect([answer.status, answer.body.error], JSON.stringify(trial)).toEqual([status, sentence]);
    }
    const unknown = await create(ada, { days: 3, then: then("GOLD") });
    expect([unknown.status, unknown.body.error]).toEqual([
      400,
      expect.stringMatching(/^Invalid trial: Error: Plan GOLD /),
    ]);
    expect((await api.call("GET", `/contracts/${ada}`, { key })).status).toBe(404);
    expect((await create(ada, { ...TRIAL, remindDays: 0 })).status).toBe(201);
    const events = await eventsDuring(ada, async () => {
      setNow(UNTIL - 1);
      await sweep();
    });
    expect(events).toEqual([]);
  });

  test("is not in contracts without one", async () => {
    expect((await create(ada, null)).body).not.toHaveProperty("trial");
  });

  test("lists can be restricted to contracts in a trial", async () => {
    await create(ada, TRIAL);
    const bob = fresh();
    await create(bob, undefined);
    const listed = async (query: string) =>
      (await api.call<Shown[]>("GET", `/contracts?limit=100&${query}`, { key })).body.map(
        ({ userContact }) => userContact.userId,
      );
    expect(await listed("trial=true")).toContain(ada);
    expect(await listed("trial=true")).not.toContain(bob);
    expect(await listed("trial=1")).toContain(bob);
  });

  test("late is on time", async () => {
    const onTime = fresh();
    for (const userId of [ada, onTime]) {
      await create(userId, TRIAL);
      await consume(userId, 5);
    }
    setNow(UNTIL);
    await show(onTime);
    setNow(UNTIL + DAY);
    const late = await show(ada);
    const { id, userContact } = late;
    expect({ ...(await show(onTime)), id, userContact }).toEqual(late);
  });
});

describe("a trial follows its services and versions", () => {
  let services = 0;
  const next = (name: string) =>
    SAMPLE.replace("saasName: Tasker", `saasName: ${name}`)
      .replace('version: "1.0.0"', 'version: "2.0.0"')
      .replace(/createdAt: .*/, "createdAt: 2025-06-01");
  async function versioned(): Promise<string> {
    const name = `Proof${(services += 1)}`;
    await upload(api, key, SAMPLE.replace("saasName: Tasker", `saasName: ${name}`), next(name));
    return name.toLowerCase();
  }
  const on = (service: string) => create(ada, { days: 14, then: then("FREE", service) }, planOf("BUSINESS", service));

  test("archiving takes what follows along, without an event", async () => {
    const service = await versioned();
    await on(service);
    const events = await eventsDuring(ada, async () => {
      const archived = await api.call("PUT", `/services/${service}/pricings/1.0.0?availability=archived`, {
        key,
        body: { subscriptionPlan: "PRO" },
      });
      expect(archived.status).toBe(200);
    });
    expect(events.map(({ code }) => code)).toEqual(["CONTRACT_NOVATED"]);
    const moved = { ...then("PRO", service), subscriptionAddOns: { [service]: {} } };
    expect(await show(ada)).toMatchObject({
      trial: { until: iso(UNTIL), then: moved },
      contractedServices: { [service]: "2.0.0" },
      billingPeriod: { endDate: iso(UNTIL) },
    });
    expect((await show(ada, `?at=${iso(START)}`)).trial?.then).toEqual(moved);
    expect(await auditOf("schedule.rewrite", ada)).toHaveLength(1);
    setNow(UNTIL);
    expect(await show(ada)).toMatchObject({
      contractedServices: { [service]: "2.0.0" },
      subscriptionPlans: { [service]: "PRO" },
    });
  });

  test("a mass novation goes on with the trial, and moves what follows by its configuration", async () => {
    const service = await versioned();
    await on(service);
    const body = {
      pricingVersion: "2.0.0",
      groups: [
        { configuration: { plan: "FREE", addOns: {} }, target: { plan: "PRO", addOns: {} } },
        { configuration: { plan: "BUSINESS", addOns: {} }, target: { plan: "BUSINESS", addOns: {} } },
      ],
    };
    const impact = await api.call<{ scheduled?: number }>("POST", `/services/${service}/impact`, {
      key,
      body: { action: "novation", ...body },
    });
    expect(impact.body.scheduled).toBe(1);
    setNow(START + DAY);
    const novated = await api.call("POST", `/services/${service}/novations`, { key, body });
    expect(novated.status).toBe(200);
    expect(await show(ada)).toMatchObject({
      trial: { until: iso(UNTIL), then: then("PRO", service) },
      subscriptionPlans: { [service]: "BUSINESS" },
      contractedServices: { [service]: "2.0.0" },
      billingPeriod: { startDate: iso(START), endDate: iso(UNTIL) },
    });
  });

  test("its last service takes the trial with it, and others do not", async () => {
    const service = await versioned();
    await create(
      ada,
      { days: 14, then: { subscriptionPlans: { tasker: "PRO", [service]: "FREE" }, subscriptionAddOns: {} } },
      {
        contractedServices: { tasker: "1.0.0", [service]: "1.0.0" },
        subscriptionPlans: { tasker: "BUSINESS", [service]: "PRO" },
        subscriptionAddOns: {},
      },
    );
    setNow(START + DAY);
    await api.call("DELETE", `/services/${service}`, { key });
    expect(await show(ada)).toMatchObject({
      trial: { until: iso(UNTIL), then: then("PRO") },
      billingPeriod: { startDate: iso(START), endDate: iso(UNTIL) },
    });
    const only = await versioned();
    const bob = fresh();
    await create(bob, { days: 14, then: "end" }, planOf("PRO", only));
    const events = await eventsDuring(bob, () => api.call("DELETE", `/services/${only}`, { key }));
    expect(events.filter(({ code }) => code === "TRIAL_ENDED").map(({ details }) => details["outcome"])).toEqual([
      "removed",
    ]);
    expect(await show(bob)).not.toHaveProperty("trial");
    expect(await changesOf(bob)).toMatchObject([{ state: "cancelled", why: "Its services were removed" }]);
  });

  test("33: a renamed service keeps it", async () => {
    const service = await versioned();
    await on(service);
    await api.call("PUT", `/services/${service}`, { key, body: { name: `${service}x` } });
    expect((await show(ada)).trial?.then).toEqual(then("FREE", `${service}x`));
    setNow(UNTIL);
    expect((await show(ada)).subscriptionPlans).toEqual({ [`${service}x`]: "FREE" });
  });
});
