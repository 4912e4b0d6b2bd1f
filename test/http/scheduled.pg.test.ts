import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { readOutbox } from "../../src/db/queries/outbox.ts";
import { contextOf } from "../../src/operations/context.ts";
import { announceExpired, renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { sweepDueChanges } from "../../src/operations/due-changes.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, type ContractBody, upload } from "../support/contracting.ts";

/* Cases of contract custom-terms §10, by their numbers. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;
const END = START + 30 * DAY;

interface Change {
  id: string;
  state: string;
  at: string;
  atPeriodEnd: boolean;
  contractedServices: object;
  subscriptionPlans: object;
  effectiveAt: string | null;
  why: string | null;
  error?: string;
}
type Scheduled = ContractBody & { scheduled?: Change; error?: string };
type Event = { code: string; details: Record<string, unknown> };

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

const FREE = { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: {} };
const BUSINESS = { ...FREE, subscriptionPlans: { tasker: "BUSINESS" } };

let users = 0;
/** Contracts a new end user to PRO with 100 extra tasks. */
async function subscribed(more: object = {}): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
    ...more,
  });
  return userId;
}

const schedule = (userId: string, body: unknown, options: { headers?: Record<string, string>; key?: string } = {}) =>
  api.call<Change>("POST", `/contracts/${userId}/scheduled`, { key, body: body as object, ...options });
const show = async (userId: string, query = "") =>
  (await api.call<Scheduled & { asOf?: { cause: string } }>("GET", `/contracts/${userId}${query}`, { key })).body;
const list = async (userId: string) =>
  (await api.call<Change[]>("GET", `/contracts/${userId}/scheduled`, { key })).body;
const cancel = (userId: string, id: string, given = key) =>
  api.call<{ error: string }>("DELETE", `/contracts/${userId}/scheduled/${id}`, { key: given });
const novate = (userId: string, body: object, query = "") =>
  api.call<Scheduled>("PUT", `/contracts/${userId}${query}`, { key, body });
const setBilling = (userId: string, body: object) =>
  api.call<Scheduled>("PUT", `/contracts/${userId}/billingPeriod`, { key, body });
const consume = async (userId: string, amount = 0) =>
  (
    await api.call<{ eval: boolean; limit: Record<string, number>; used: Record<string, number> }>(
      "POST",
      `/features/${userId}/tasker-board`,
      { key, body: amount === 0 ? {} : { "tasker-maxTasks": amount } },
    )
  ).body;
const sweep = () => sweepDueChanges(contextOf(api.resources, { kind: "anonymous" }));

/** Returns the events that `work` records, oldest first. */
async function eventsDuring(work: () => Promise<unknown>): Promise<Event[]> {
  const read = (after: number) => readOutbox(api.resources.db, { after, filter: {}, limit: 1000 });
  let last = 0;
  for (let page = await read(0); page.length > 0; page = await read(last)) last = page.at(-1)?.id ?? last;
  await work();
  return (await read(last)).map(({ code, details }) => ({ code, details }));
}
/** Returns the codes of the events about one end user. */
const codesDuring = async (userId: string, work: () => Promise<unknown>) =>
  (await eventsDuring(work)).filter(({ details }) => details["userId"] === userId).map(({ code }) => code);

const auditOf = async (action: string, userId: string) =>
  (
    await api.call<{ data: { target: string; actor: { id: string }; after: Record<string, unknown> }[] }>(
      "GET",
      `/audit-log?action=${action}`,
      { key },
    )
  ).body.data.filter(({ target }) => target === userId);

let ada: string;
beforeEach(async () => {
  setNow(START);
  ada = await subscribed();
});

describe("scheduling", () => {
  test("16: a change at the end of the period takes the place of the expiry", async () => {
    let id = "";
    const events = await eventsDuring(async () => {
      const { status, body } = await schedule(ada, { at: "periodEnd", ...FREE, reason: "Asked for by mail" });
      expect(status).toBe(201);
      id = body.id;
      expect(body).toEqual({
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        organizationId: api.callers.organizationId,
        kind: "novation",
        state: "pending",
        userId: ada,
        at: iso(END),
        atPeriodEnd: true,
        ...FREE,
        autoRenew: null,
        reason: "Asked for by mail",
        effectiveAt: null,
        why: null,
        createdAt: iso(START),
        actor: { kind: "key", id: api.callers.all.id, name: null },
      });
      expect((await show(ada)).scheduled).toEqual(body);
      setNow(END - 1);
      expect((await consume(ada, 30)).limit["tasker-maxTasks"]).toBe(300);
      setNow(END);
      await announceExpired(api.resources.db, new Date(END + 5));
      expect((await consume(ada)).limit["tasker-maxTasks"]).toBe(20);
    });
    const named = { contractId: expect.any(String), userId: ada };
    expect(events).toEqual([
      {
        code: "CHANGE_SCHEDULED",
        details: { scheduledId: id, kind: "novation", at: iso(END), ...named },
      },
      { code: "CONTRACT_NOVATED", details: { scheduledId: id, ...named } },
    ]);
    const after = await show(ada);
    expect(after).not.toHaveProperty("scheduled");
    expect(after.billingPeriod).toMatchObject({ startDate: iso(END), endDate: iso(END + 30 * DAY) });
    expect(after.history).toMatchObject([
      { startDate: iso(START), endDate: iso(END), subscriptionPlans: { tasker: "PRO" } },
    ]);
    expect(await list(ada)).toMatchObject([{ id, state: "done", effectiveAt: iso(END), at: iso(END) }]);
    expect(await auditOf("schedule.create", ada)).toHaveLength(1);
  });

  test("17: refusals name what is wrong, and a key repeats the first answer", async () => {
    const at = iso(START + DAY);
    const headers = { "Idempotency-Key": `first-${ada}` };
    const first = await schedule(ada, { at, ...FREE }, { headers });
    expect(first.status).toBe(201);
    const again = await schedule(ada, { at, ...FREE }, { headers });
    expect([again.status, again.body, again.headers.get("idempotent-replayed")]).toEqual([201, first.body, "true"]);
    const second = await schedule(ada, { at, ...FREE });
    expect([second.status, second.body.error]).toEqual([
      409,
      `CONFLICT: Contract of user ${ada} has a change scheduled for ${at} already: ${first.body.id}`,
    ]);
    const other = await subscribed();
    const plan = (name: string) => ({ ...FREE, subscriptionPlans: { tasker: name } });
    for (const [body, status, sentence] of [
      [{ at: iso(START), ...FREE }, 400, "INVALID DATA: at must be in the future"],
      [{ at: "soon", ...FREE }, 422, "The at field must be an ISO 8601 date or periodEnd"],
      [FREE, 422, "The at field is required"],
      [{ at: null, ...FREE }, 422, "The at field is required"],
      [[], 422, "The body must be an object"],
      [{ at, subscriptionPlans: {}, subscriptionAddOns: {} }, 422, "The contractedServices field is required"],
      [{ at, ...FREE, billingPeriod: 5 }, 422, "The billingPeriod field must be an object"],
      [{ at, ...FREE, billingPeriod: { autoRenew: "x" } }, 422, "billingPeriod.autoRenew must be a boolean"],
      [{ at, ...FREE, billingPeriod: { days: 1 } }, 422, "Unknown field: billingPeriod.days"],
      [{ at, ...FREE, reason: " " }, 422, "The reason field must be a text of 1 to 500 characters"],
      [{ at, ...FREE, foo: 1 }, 422, "Unknown field: foo"],
      [{ at, ...plan("GOLD") }, 404, expect.stringContaining("Invalid subscription: Error: Plan GOLD") as string],
    ] as const) {
      const answer = await schedule(other, body);
      expect([answer.status, answer.body.error]).toEqual([
        status,
        typeof sentence === "string" ? sentence : expect.stringContaining("GOLD"),
      ]);
    }
    const tooMany = await schedule(other, {
      at,
      ...FREE,
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: { tasker: { extraTasks: 9 } },
    });
    const now = await novate(other, {
      ...FREE,
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: { tasker: { extraTasks: 9 } },
    });
    expect([tooMany.status, tooMany.body.error]).toEqual([now.status, now.body.error]);
    expect((await schedule("nobody", { at, ...FREE })).body.error).toBe("Contract with userId nobody not found");
    expect(await list(other)).toEqual([]);
    await setBilling(other, { endDate: iso(START) });
    setNow(START + 1);
    expect((await schedule(other, { at: "periodEnd", ...FREE })).body.error).toBe(
      `INVALID DATA: The billing period of ${other} has ended: at must be a date`,
    );
    expect((await schedule(other, { at, ...FREE, billingPeriod: null, reason: null })).status).toBe(201);
  });

  test("20: cancelling is managing, and is final", async () => {
    const { body } = await schedule(ada, { at: iso(START + DAY), ...FREE });
    const codes = await codesDuring(ada, async () => {
      expect((await cancel(ada, body.id, api.callers.management.key)).status).toBe(204);
    });
    expect(codes).toEqual(["CHANGE_CANCELLED"]);
    expect(await cancel(ada, body.id)).toMatchObject({
      status: 409,
      body: { error: `CONFLICT: Scheduled change ${body.id} is cancelled` },
    });
    expect((await cancel(ada, "nope")).body.error).toBe("Scheduled change nope not found");
    expect(await show(ada)).not.toHaveProperty("scheduled");
    expect(await list(ada)).toMatchObject([{ state: "cancelled", why: "Cancelled", effectiveAt: null }]);
    const second = await schedule(ada, { at: iso(START + DAY), ...FREE });
    setNow(START + DAY);
    expect((await cancel(ada, second.body.id)).body.error).toBe(`CONFLICT: Scheduled change ${second.body.id} is done`);
  });

  test("21: a novation by hand leaves it pending unless asked to cancel it", async () => {
    const { body } = await schedule(ada, { at: iso(START + DAY), ...FREE });
    expect((await novate(ada, BUSINESS)).body.scheduled?.id).toBe(body.id);
    expect((await novate(ada, BUSINESS, "?cancelScheduled=1")).body.scheduled?.id).toBe(body.id);
    const events = await eventsDuring(async () => {
      expect((await novate(ada, BUSINESS, "?cancelScheduled=true")).body).not.toHaveProperty("scheduled");
    });
    expect(events.map(({ code, details }) => [code, details["why"]])).toEqual([
      ["CONTRACT_NOVATED", undefined],
      ["CHANGE_CANCELLED", "Cancelled by a novation"],
    ]);
    expect(await list(ada)).toMatchObject([{ state: "cancelled", why: "Cancelled by a novation" }]);
  });

  test("lists are by moment, and filter", async () => {
    const organization = await api.newOrganization(api.callers.owner);
    const other = { key: organization.key };
    await upload(api, other.key, SAMPLE);
    for (const [userId, days] of [
      ["b", 2],
      ["a", 3],
      ["c", 1],
    ] as const) {
      await contract(api, other.key, userId, { ...FREE });
      await api.call("POST", `/contracts/${userId}/scheduled`, {
        ...other,
        body: { at: iso(START + days * DAY), ...BUSINESS },
      });
    }
    const listed = async (query: string) => {
      const answer = await api.call<(Change & { userId: string })[] | { error: string }>(
        "GET",
        `/scheduled${query}`,
        other,
      );
      return {
        users: Array.isArray(answer.body) ? answer.body.map(({ userId }) => userId) : answer.body.error,
        total: answer.headers.get("x-total-count"),
      };
    };
    expect(await listed("?limit=2")).toEqual({ users: ["c", "b"], total: "3" });
    expect(await listed(`?dueBefore=${iso(START + 3 * DAY)}`)).toEqual({ users: ["c", "b"], total: "2" });
    setNow(START + DAY);
    expect(await listed("")).toEqual({ users: ["b", "a"], total: "2" });
    expect(await listed("?state=done&kind=novation")).toEqual({ users: ["c"], total: "1" });
    expect((await listed("?state=due&kind=x")).users).toBe(
      "Errors where found during validation of query params: Invalid state. Please use one of the following: pending, done, cancelled, blocked | Invalid kind. Please use one of the following: novation, trialEnd",
    );
    expect((await listed("?dueBefore=soon")).users).toBe("INVALID DATA: dueBefore must be an ISO 8601 date");
  });
});

describe("what is due", () => {
  test("18: late is on time", async () => {
    const onTime = await subscribed();
    const at = START + DAY;
    for (const userId of [ada, onTime]) {
      await consume(userId, 12);
      await schedule(userId, { at: iso(at), ...FREE });
    }
    setNow(at);
    expect((await show(onTime)).subscriptionPlans).toEqual({ tasker: "FREE" });
    setNow(at + 3_600_000);
    const late = await show(ada);
    expect(late.billingPeriod).toMatchObject({ startDate: iso(at) });
    expect(late.history).toMatchObject([{ endDate: iso(at) }]);
    const { id, userContact } = late;
    expect({ ...(await show(onTime)), id, userContact }).toEqual(late);
    expect(await list(ada)).toMatchObject([{ effectiveAt: iso(at) }]);
    for (const userId of [ada, onTime]) {
      expect((await show(userId, `?at=${iso(at - 1)}`)).subscriptionPlans).toEqual({ tasker: "PRO" });
      const then = await show(userId, `?at=${iso(at)}`);
      expect([then.subscriptionPlans, then.asOf]).toMatchObject([
        { tasker: "FREE" },
        { cause: "scheduled", since: iso(at) },
      ]);
    }
  });

  test("a question about the past comes after what is due", async () => {
    await schedule(ada, { at: iso(START + DAY), ...FREE });
    setNow(START + 2 * DAY);
    expect((await show(ada, `?at=${iso(START + DAY)}`)).asOf?.cause).toBe("scheduled");
  });

  test("19: it happens once, in the name of who scheduled it", async () => {
    await schedule(ada, { at: iso(START + DAY), ...FREE }, { key: api.callers.management.key });
    setNow(START + DAY);
    const codes = await codesDuring(ada, () =>
      Promise.all([...Array.from({ length: 20 }, () => consume(ada)), sweep(), sweep(), show(ada), list(ada)]),
    );
    expect(codes).toEqual(["CONTRACT_NOVATED"]);
    expect((await show(ada)).history).toHaveLength(1);
    expect(await auditOf("contract.novate", ada)).toMatchObject([
      { actor: { id: api.callers.management.id }, after: { scheduledId: expect.any(String) } },
    ]);
  });

  test("each answer is made from what is due, also in lists, counts and reports", async () => {
    const at = START + DAY;
    for (const ask of [
      () => api.call("GET", "/contracts", { key }),
      () => api.call("GET", `/organizations/${api.callers.organizationId}/overview`, { key: api.callers.owner.key }),
      () => api.call("GET", "/overrides", { key }),
      () => api.call("POST", "/services/tasker/impact", { key, body: { action: "disable" } }),
      () => api.call("PUT", `/contracts/${ada}/userContact`, { key, body: { phone: "1" } }),
      () => api.call("PUT", `/contracts/${ada}/usageLevels?reset=true`, { key, body: {} }),
      () => api.call("POST", `/features/${ada}`, { key }),
      () => api.call("POST", `/features/${ada}/pricing-token`, { key }),
      () => api.call("GET", `/services/tasker/offer?userId=${ada}`, { key }),
      sweep,
    ]) {
      setNow(START);
      ada = await subscribed();
      await schedule(ada, { at: iso(at), ...FREE });
      setNow(at);
      expect(await codesDuring(ada, async () => ask()), String(ask)).toContain("CONTRACT_NOVATED");
      expect((await show(ada)).history).toHaveLength(1);
    }
  });

  test("an expired contract becomes valid again, and a renewing one renews until then", async () => {
    const renewing = await subscribed({ billingPeriod: { autoRenew: true, renewalDays: 10 } });
    for (const userId of [ada, renewing]) await schedule(userId, { at: iso(START + 45 * DAY), ...FREE });
    setNow(START + 40 * DAY);
    expect(await consume(ada)).toMatchObject({ error: expect.stringContaining("expired") });
    expect((await consume(renewing)).eval).toBe(true);
    await renewDueContracts(api.resources.db, new Date(START + 40 * DAY));
    setNow(START + 45 * DAY);
    expect((await consume(ada)).limit["tasker-maxTasks"]).toBe(20);
    expect((await show(renewing)).billingPeriod).toMatchObject({ startDate: iso(START + 45 * DAY), autoRenew: true });
  });

  test("levels are renewed as at that moment, and what follows happens too", async () => {
    const renewing = await subscribed({ billingPeriod: { autoRenew: true, renewalDays: 30 } });
    await consume(renewing, 200);
    const at = START + 40 * DAY;
    await schedule(renewing, { at: iso(at), ...BUSINESS });
    setNow(START + 75 * DAY);
    expect((await consume(renewing)).used["tasker-maxTasks"]).toBe(0);
    const { billingPeriod } = await show(renewing);
    expect(billingPeriod).toMatchObject({ startDate: iso(at), endDate: iso(at + 60 * DAY) });
    const ledger = await api.resources.db.execute(
      `select l.created_at from usage_ledger l join contracts c on c.id = l.contract_id
       where c.user_id = '${renewing}' and kind = 'renew' order by l.id`,
    );
    expect(ledger.map((row) => iso(new Date(String(row["created_at"])).getTime()))).toEqual([
      iso(at),
      iso(START + 75 * DAY),
    ]);
  });

  test("22: a change at the end of the period follows that end, also into the past", async () => {
    const { body } = await schedule(ada, { at: "periodEnd", ...FREE });
    const codes = await codesDuring(ada, async () => {
      const moved = await setBilling(ada, { endDate: iso(END + 7 * DAY) });
      expect(moved.body.scheduled).toMatchObject({ id: body.id, at: iso(END + 7 * DAY) });
    });
    expect(codes).toEqual(["CONTRACT_UPDATED"]);
    setNow(START + 5 * DAY);
    const ended = await setBilling(ada, { endDate: iso(START + 4 * DAY) });
    expect(ended.body).not.toHaveProperty("scheduled");
    expect(ended.body).toMatchObject({
      subscriptionPlans: { tasker: "FREE" },
      billingPeriod: { startDate: iso(START + 4 * DAY) },
      history: [{ endDate: iso(START + 4 * DAY) }],
    });
    expect(await list(ada)).toMatchObject([
      { state: "done", at: iso(START + 4 * DAY), effectiveAt: iso(START + 4 * DAY) },
    ]);
    const grouped = await subscribed({ groupId: `of-${ada}` });
    await schedule(grouped, { at: "periodEnd", ...FREE });
    setNow(START + 8 * DAY);
    const all = await api.call<Scheduled[]>("PUT", `/contracts/billingPeriod?groupId=of-${ada}`, {
      key,
      body: { endDate: iso(START + 7 * DAY) },
    });
    expect(all.body).toMatchObject([{ subscriptionPlans: { tasker: "FREE" } }]);
  });

  test("a novation by hand moves the end, and one that takes every service does not", async () => {
    await schedule(ada, { at: "periodEnd", ...FREE });
    setNow(START + DAY);
    expect((await novate(ada, BUSINESS)).body.scheduled?.at).toBe(iso(START + 31 * DAY));
    setNow(START + 2 * DAY);
    const none = await novate(ada, { contractedServices: {}, subscriptionPlans: {}, subscriptionAddOns: {} });
    expect(none.body.scheduled?.at).toBe(iso(START + 31 * DAY));
  });

  test("overrides of a service that leaves then end with it", async () => {
    await upload(api, key, SAMPLE.replace("saasName: Tasker", "saasName: Second"));
    await api.call("PUT", `/contracts/${ada}/overrides/tasker/usageLimits/maxTasks`, {
      key,
      body: { mode: "set", value: 5, reason: "test" },
    });
    await schedule(ada, {
      at: iso(START + DAY),
      contractedServices: { second: "1.0.0" },
      subscriptionPlans: { second: "FREE" },
      subscriptionAddOns: {},
    });
    setNow(START + DAY);
    expect(await codesDuring(ada, () => sweep())).toEqual(["CONTRACT_NOVATED", "CONTRACT_OVERRIDE_ENDED"]);
    await api.call("DELETE", "/services/second", { key });
  });
});

describe("changes of services and versions", () => {
  const next = (name: string) =>
    SAMPLE.replace("saasName: Tasker", `saasName: ${name}`)
      .replace('version: "1.0.0"', 'version: "2.0.0"')
      .replace(/createdAt: .*/, "createdAt: 2025-06-01");
  const of = (service: string, version: string, plan: string) => ({
    contractedServices: { [service]: version },
    subscriptionPlans: { [service]: plan },
    subscriptionAddOns: {},
  });
  let services = 0;
  /** Uploads two versions of a new service, and contracts a user to FREE of the second. */
  async function versioned(): Promise<{ service: string; userId: string }> {
    const name = `Tool${(services += 1)}`;
    const service = name.toLowerCase();
    await upload(api, key, SAMPLE.replace("saasName: Tasker", `saasName: ${name}`), next(name));
    const userId = `${service}-user`;
    await contract(api, key, userId, of(service, "2.0.0", "FREE"));
    return { service, userId };
  }
  const archive = (service: string, body: object) =>
    api.call<{ error: string }>("PUT", `/services/${service}/pricings/1.0.0?availability=archived`, { key, body });

  test("23: archiving takes a pending change to the fallback", async () => {
    const { service, userId } = await versioned();
    const { body } = await schedule(userId, { at: iso(START + DAY), ...of(service, "1.0.0", "BUSINESS") });
    const events = await eventsDuring(async () => {
      expect((await archive(service, { subscriptionPlan: "PRO" })).status).toBe(200);
    });
    expect(events.map(({ code }) => code)).toEqual(["PRICING_ARCHIVED", "CHANGE_SCHEDULED"]);
    expect(events[1]?.details).toMatchObject({ scheduledId: body.id, userId });
    expect((await show(userId)).scheduled).toMatchObject({ id: body.id, ...of(service, "2.0.0", "PRO") });
    expect(await auditOf("schedule.rewrite", userId)).toMatchObject([{ after: { to: "2.0.0" } }]);
    setNow(START + DAY);
    expect((await show(userId)).subscriptionPlans).toEqual({ [service]: "PRO" });
  });

  test("archiving with targets per configuration decides on pending ones as on contracts", async () => {
    const { service, userId } = await versioned();
    await schedule(userId, { at: iso(START + DAY), ...of(service, "1.0.0", "BUSINESS") });
    const impact = await api.call<{ scheduled?: number; counts: { contracts: number } }>(
      "POST",
      `/services/${service}/impact`,
      { key, body: { action: "archive", pricingVersion: "1.0.0", subscriptionPlan: "PRO" } },
    );
    expect(impact.body).toMatchObject({ scheduled: 1, counts: { contracts: 0 } });
    const group = (plan: string, target: string) => ({
      groups: [{ configuration: { plan, addOns: {} }, target: { plan: target, addOns: {} } }],
    });
    expect((await archive(service, { groups: [...group("FREE", "PRO").groups] })).body.error).toBe(
      "INVALID DATA: groups[0] has a configuration that no contract has",
    );
    expect((await archive(service, group("BUSINESS", "GOLD"))).status).toBe(404);
    expect((await show(userId)).scheduled).toMatchObject(of(service, "1.0.0", "BUSINESS"));
    expect((await archive(service, group("BUSINESS", "PRO"))).status).toBe(200);
    expect((await show(userId)).scheduled).toMatchObject(of(service, "2.0.0", "PRO"));
  });

  test("archiving is refused where a pending change cannot go", async () => {
    const { service, userId } = await versioned();
    await schedule(userId, { at: iso(START + DAY), ...of(service, "1.0.0", "BUSINESS") });
    const refused = await archive(service, { subscriptionPlan: "GOLD" });
    expect([refused.status, refused.body.error]).toEqual([404, expect.stringContaining("GOLD")]);
    expect((await show(userId)).scheduled).toMatchObject(of(service, "1.0.0", "BUSINESS"));
  });

  test("24: a change that loses its last service is cancelled", async () => {
    const { service } = await versioned();
    const { body } = await schedule(ada, { at: iso(START + DAY), ...of(service, "1.0.0", "PRO") });
    const impact = await api.call<{ scheduled?: number }>("POST", `/services/${service}/impact`, {
      key,
      body: { action: "disable" },
    });
    expect(impact.body.scheduled).toBe(1);
    const events = await eventsDuring(() => api.call("DELETE", `/services/${service}`, { key }));
    expect(events.filter(({ code }) => code.startsWith("CHANGE"))).toMatchObject([
      { code: "CHANGE_CANCELLED", details: { scheduledId: body.id, why: "Its services were removed" } },
    ]);
    expect(await list(ada)).toMatchObject([
      { state: "cancelled", why: "Its services were removed", contractedServices: {} },
    ]);
    expect(await show(ada)).not.toHaveProperty("scheduled");
  });

  test("a change keeps the services that stay, and follows a new name", async () => {
    const { service } = await versioned();
    await schedule(ada, {
      at: iso(START + DAY),
      contractedServices: { [service]: "1.0.0", tasker: "1.0.0" },
      subscriptionPlans: { [service]: "PRO", tasker: "FREE" },
      subscriptionAddOns: {},
    });
    await api.call("PUT", `/services/${service}`, { key, body: { name: `${service}x` } });
    expect((await show(ada)).scheduled?.contractedServices).toEqual({ [`${service}x`]: "1.0.0", tasker: "1.0.0" });
    await api.call("DELETE", `/services/${service}x`, { key });
    expect((await show(ada)).scheduled).toMatchObject(FREE);
    setNow(START + DAY);
    expect((await show(ada)).subscriptionPlans).toEqual({ tasker: "FREE" });
  });

  test("a moved service takes along the changes of its contracts, and leaves the others", async () => {
    const { service, userId } = await versioned();
    await schedule(userId, {
      at: iso(START + DAY),
      contractedServices: { [service]: "1.0.0", tasker: "1.0.0" },
      subscriptionPlans: { [service]: "PRO", tasker: "FREE" },
      subscriptionAddOns: {},
    });
    await schedule(ada, { at: iso(START + DAY), ...of(service, "1.0.0", "PRO") });
    const target = await api.newOrganization(api.callers.owner);
    const moved = await api.call("PUT", `/organizations/${api.callers.organizationId}/services/${service}`, {
      key: api.callers.owner.key,
      body: { organizationId: target.id },
    });
    expect(moved.status).toBe(200);
    expect((await show(ada)).scheduled).toBeUndefined();
    const theirs = await api.call<(Change & { organizationId: string })[]>("GET", "/scheduled", { key: target.key });
    expect(theirs.body).toMatchObject([{ organizationId: target.id, ...of(service, "1.0.0", "PRO") }]);
  });

  test("a deleted contract takes its changes with it, silently", async () => {
    await schedule(ada, { at: iso(START + DAY), ...FREE });
    setNow(START + 2 * DAY);
    expect(await codesDuring(ada, () => api.call("DELETE", `/contracts/${ada}`, { key }))).toEqual([
      "CONTRACT_DELETED",
    ]);
    expect((await api.call("GET", `/contracts/${ada}/scheduled`, { key })).status).toBe(404);
  });
});

describe("access", () => {
  test("10: EVALUATION keys may not see or change, and their evaluations carry out what is due", async () => {
    const { body } = await schedule(ada, { at: iso(START + DAY), ...FREE });
    const given = { key: api.callers.evaluation.key };
    for (const [method, path] of [
      ["GET", `/contracts/${ada}/scheduled`],
      ["POST", `/contracts/${ada}/scheduled`],
      ["DELETE", `/contracts/${ada}/scheduled/${body.id}`],
      ["GET", "/scheduled"],
    ] as const) {
      expect((await api.call(method, path, given)).status, path).toBe(403);
    }
    setNow(START + DAY);
    const answer = await api.call<{ limit: Record<string, number> }>("POST", `/features/${ada}/tasker-board`, {
      ...given,
      body: {},
    });
    expect(answer.body.limit["tasker-maxTasks"]).toBe(20);
  });

  test("11: each organization sees and changes only its own", async () => {
    const { body } = await schedule(ada, { at: iso(START + DAY), ...FREE });
    const other = await api.newOrganization(api.callers.owner);
    await upload(api, other.key, SAMPLE);
    await contract(api, other.key, ada, FREE);
    expect((await api.call<Change[]>("GET", `/contracts/${ada}/scheduled`, { key: other.key })).body).toEqual([]);
    expect((await cancel(ada, body.id, other.key)).status).toBe(404);
    expect((await api.call<Change[]>("GET", "/scheduled", { key: other.key })).body).toEqual([]);
    expect((await show(ada)).scheduled?.id).toBe(body.id);
  });
});
