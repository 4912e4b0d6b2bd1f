import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { contextOf } from "../../src/operations/context.ts";
import { announceExpired, renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { sweepAvailability } from "../../src/operations/changes/availability-sweep.ts";
import { sweepDueChanges } from "../../src/operations/due-changes.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { allEventsDuring } from "../support/private-events.ts";
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

const eventsDuring = (work: () => Promise<unknown>) => allEventsDuring(api, work);
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
      {
        code: "CONTRACT_NOVATED",
        details: {
          scheduledId: id,
          ...named,
          before: expect.objectContaining({ id: expect.any(String), subscriptionPlans: { tasker: "PRO" } }),
          after: expect.objectContaining({ id: expect.any(String), subscriptionPlans: { tasker: "FREE" } }),
        },
      },
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
      "Errors where found during validation of query params: Invalid state. Please use one of the following: pending, done, cancelled, blocked | Invalid kind. Please use one of the following: novation, trialEnd, availability",
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

describe("availability at a date", () => {
  const version = (name: string, label: string, day: string) =>
    SAMPLE.replace("saasName: Tasker", `saasName: ${name}`)
      .replace('version: "1.0.0"', `version: "${label}"`)
      .replace(/createdAt: .*/, `createdAt: ${day}`);
  let services = 0;
  let service: string;
  let user: string;
  const set = (label: string, query: string, body: object = {}, given = key) =>
    api.call<Record<string, unknown> & { error?: string; id: string }>(
      "PUT",
      `/services/${service}/pricings/${label}?${query}`,
      { key: given, body },
    );
  const scheduledOf = async () =>
    (await api.call<Record<string, unknown>[]>("GET", `/services/${service}/scheduled`, { key })).body;
  const activeOf = async () =>
    Object.keys(
      (await api.call<{ activePricings: object }>("GET", `/services/${service}`, { key })).body.activePricings,
    );
  const carryOut = () => sweepAvailability(contextOf(api.resources, { kind: "anonymous" }));
  const at = START + DAY;
  /** Returns the events about the service that `work` records. */
  const about = async (work: () => Promise<unknown>) =>
    (await eventsDuring(work)).filter(
      ({ details }) => details["serviceName"] === `Dated${services}` || details["userId"] === user,
    );

  beforeEach(async () => {
    const name = `Dated${(services += 1)}`;
    service = name.toLowerCase();
    user = `${service}-user`;
    await upload(api, key, version(name, "1.0.0", "2025-05-01"), version(name, "2.0.0", "2025-06-01"));
    await contract(api, key, user, {
      contractedServices: { [service]: "1.0.0" },
      subscriptionPlans: { [service]: "PRO" },
      subscriptionAddOns: {},
    });
  });

  test("25: activations come before archivings of the same moment, in the name of who scheduled them", async () => {
    expect((await set("2.0.0", "availability=archived", { subscriptionPlan: "PRO" })).status).toBe(200);
    const active = await set("2_0_0", `availability=active&at=${iso(at)}`, {}, api.callers.management.key);
    expect(active.status).toBe(202);
    const archived = await set("1.0.0", `availability=archived&at=${iso(at)}`, { subscriptionPlan: "BUSINESS" });
    expect([archived.status, archived.body]).toEqual([
      202,
      {
        id: expect.any(String),
        organizationId: api.callers.organizationId,
        kind: "availability",
        state: "pending",
        serviceName: `Dated${services}`,
        pricingVersion: "1.0.0",
        availability: "archived",
        fallback: { subscriptionPlan: "BUSINESS" },
        overrideReason: null,
        at: iso(at),
        effectiveAt: null,
        why: null,
        createdAt: iso(START),
        actor: { kind: "key", id: api.callers.all.id, name: null },
      },
    ]);
    setNow(at - 1);
    expect(await carryOut()).toBe(0);
    setNow(at + 700);
    await consume(user);
    expect(await activeOf()).toEqual(["1.0.0"]);
    const events = await about(() => Promise.all([carryOut(), carryOut()]));
    expect(events.map(({ code }) => code)).toEqual(["PRICING_ACTIVED", "PRICING_ARCHIVED", "CONTRACT_NOVATED"]);
    expect(await activeOf()).toEqual(["2.0.0"]);
    expect(await scheduledOf()).toMatchObject([
      { pricingVersion: "1.0.0", state: "done", effectiveAt: iso(at + 700) },
      { pricingVersion: "2.0.0", state: "done", fallback: null, effectiveAt: iso(at + 700) },
    ]);
    expect(await show(user)).toMatchObject({ subscriptionPlans: { [service]: "BUSINESS" } });
    expect((await show(user, `?at=${iso(at + 700)}`)).asOf).toMatchObject({ cause: "archiving", since: iso(at + 700) });
    const audit = await api.call<{ data: { target: string; actor: { id: string } }[] }>(
      "GET",
      "/audit-log?action=pricing.activate",
      { key },
    );
    expect(audit.body.data[0]).toMatchObject({
      target: `Dated${services} 2.0.0`,
      actor: { id: api.callers.management.id },
    });
  });

  test("26: a second change of the moment conflicts, and one without effect is answered at once", async () => {
    await set("2.0.0", "availability=archived", { subscriptionPlan: "PRO" });
    const first = await set("2.0.0", `availability=active&at=${iso(at)}`);
    const second = await set("2.0.0", `availability=active&at=${iso(at)}`);
    expect([second.status, second.body.error]).toEqual([
      409,
      `CONFLICT: Pricing version 2.0.0 of service ${service} has a change scheduled for ${iso(at)} already: ${first.body.id}`,
    ]);
    const already = await set("2.0.0", `availability=active&at=${iso(at + 1_000)}`);
    expect([already.status, already.body["name"]]).toEqual([200, `Dated${services}`]);
    expect(await scheduledOf()).toHaveLength(1);
  });

  test("27: a rule that is broken then blocks, unless that very rule was passed over", async () => {
    const organization = await api.newOrganization(api.callers.owner);
    const { owner } = api.callers;
    const base = `/organizations/${organization.id}`;
    await upload(
      api,
      organization.key,
      version("Gated", "1.0.0", "2025-05-01"),
      version("Gated", "2.0.0", "2025-06-01"),
    );
    await contract(api, organization.key, "gina", {
      contractedServices: { gated: "1.0.0" },
      subscriptionPlans: { gated: "PRO" },
      subscriptionAddOns: {},
    });
    const archive = (query: string) =>
      api.call<{ id: string; error?: string }>(
        "PUT",
        `${base}/services/gated/pricings/1.0.0?availability=archived&${query}`,
        {
          key: owner.key,
          body: { subscriptionPlan: "FREE" },
        },
      );
    const gate = (rules: object[]) => api.call("PUT", `${base}/gate`, { key: owner.key, body: { rules } });
    const listed = async () =>
      (await api.call<Record<string, unknown>[]>("GET", `${base}/services/gated/scheduled`, { key: owner.key })).body;
    expect((await archive(`at=${iso(at)}`)).status).toBe(202);
    expect((await gate([{ rule: "noFeatureLost" }])).status).toBe(200);
    setNow(at);
    const gated = async () =>
      (await eventsDuring(carryOut)).filter(
        ({ details }) => details["serviceName"] === "Gated" || details["userId"] === "gina",
      );
    const events = await gated();
    const [blocked] = await listed();
    expect(blocked).toMatchObject({ state: "blocked", effectiveAt: null });
    expect(blocked?.["why"]).toMatch(/^CONFLICT: The gate is closed/);
    expect(events.map(({ code }) => code)).toEqual(["CHANGE_BLOCKED"]);
    expect(events[0]?.details).toMatchObject({ kind: "availability", serviceName: "Gated", pricingVersion: "1.0.0" });
    expect((await archive(`at=${iso(at + DAY)}`)).status).toBe(409);
    const passed = await archive(`at=${iso(at + DAY)}&overrideReason=Agreed`);
    expect([passed.status, passed.body]).toMatchObject([202, { overrideReason: "Agreed" }]);
    setNow(at + DAY);
    expect((await gated()).map(({ code }) => code)).toEqual(["PRICING_ARCHIVED", "CONTRACT_NOVATED"]);
    expect((await listed())[0]).toMatchObject({ state: "done" });
  });

  test("refusals are those of a change now, from the versions as they will be", async () => {
    for (const [label, query, body, status, sentence] of [
      ["1.0.0", "availability=gone&at=soon", {}, 400, expect.stringMatching(/^Invalid availability status/)],
      [
        "1.0.0",
        "availability=archived&at=soon",
        { subscriptionPlan: 5 },
        422,
        "The subscriptionPlan field must be a string",
      ],
      ["1.0.0", "availability=archived&at=soon", {}, 400, "INVALID DATA: at must be an ISO 8601 date"],
      ["1.0.0", `availability=archived&at=${iso(START)}`, {}, 400, "INVALID DATA: at must be in the future"],
      [
        "9.0.0",
        `availability=archived&at=${iso(at)}`,
        {},
        404,
        `Pricing version 9.0.0 not found for service ${"SERVICE"}`,
      ],
      ["1.0.0", `availability=archived&at=${iso(at)}`, {}, 400, expect.stringMatching(/must provide a fallback/)],
      [
        "1.0.0",
        `availability=archived&at=${iso(at)}`,
        { subscriptionPlan: "GOLD" },
        404,
        expect.stringMatching(/GOLD/),
      ],
    ] as const) {
      const answer = await set(label, query, body);
      const expected = typeof sentence === "string" ? sentence.replace("SERVICE", service) : sentence;
      expect([answer.status, answer.body.error], query).toEqual([status, expected]);
    }
    expect((await set("1.0.0", `availability=archived&at=${iso(at)}`, { subscriptionPlan: "PRO" })).status).toBe(202);
    const last = await set("2.0.0", `availability=archived&at=${iso(at + 1)}`, { subscriptionPlan: "PRO" });
    expect([last.status, last.body.error]).toEqual([
      400,
      `You cannot archive the last active pricing for service ${service}`,
    ]);
    for (let i = 1; i < 20; i += 1) {
      const change = i % 2 === 1 ? "active" : "archived";
      expect(
        (await set("1.0.0", `availability=${change}&at=${iso(at + i * DAY)}`, { subscriptionPlan: "PRO" })).status,
      ).toBe(202);
    }
    expect(
      (await set("1.0.0", `availability=archived&at=${iso(at + 30 * DAY)}`, { subscriptionPlan: "PRO" })).body.error,
    ).toBe("INVALID DATA: A service cannot have more than 20 availability changes scheduled");
  });

  test("is listed, cancelled, and cancelled with its version and service", async () => {
    const first = await set("2.0.0", `availability=archived&at=${iso(at)}`, { subscriptionPlan: "PRO" });
    const place = `/services/${service}/scheduled`;
    const events = await about(() =>
      api.call("DELETE", `${place}/${first.body.id}`, { key: api.callers.management.key }),
    );
    expect(events.map(({ code, details }) => [code, details["why"]])).toEqual([["CHANGE_CANCELLED", "Cancelled"]]);
    expect((await api.call("DELETE", `${place}/${first.body.id}`, { key })).body["error"]).toBe(
      `CONFLICT: Scheduled change ${first.body.id} is cancelled`,
    );
    expect((await api.call("DELETE", `${place}/nope`, { key })).body["error"]).toBe("Scheduled change nope not found");
    expect((await api.call("GET", "/services/none/scheduled", { key })).body["error"]).toBe(
      "NOT FOUND: Service with name none",
    );
    await set("2.0.0", "availability=archived", { subscriptionPlan: "PRO" });
    await set("2.0.0", `availability=active&at=${iso(at)}`);
    const all = await api.call<Record<string, unknown>[]>("GET", "/scheduled?kind=availability&limit=100", { key });
    expect(all.body.filter(({ serviceName }) => serviceName === `Dated${services}`)).toHaveLength(1);
    const deleted = await about(() => api.call("DELETE", `/services/${service}/pricings/2.0.0`, { key }));
    expect(deleted.map(({ details }) => details["why"])).toEqual(["The version was deleted"]);
    expect(await scheduledOf()).toMatchObject([
      { state: "cancelled", why: "The version was deleted", pricingVersion: "2.0.0" },
      { state: "cancelled" },
    ]);
  });

  test("is cancelled with its service, disabled or removed for good", async () => {
    await set("2.0.0", `availability=archived&at=${iso(at)}`, { subscriptionPlan: "PRO" });
    const removed = await about(() => api.call("DELETE", `/services/${service}`, { key }));
    expect(removed.filter(({ code }) => code === "CHANGE_CANCELLED").map(({ details }) => details["why"])).toEqual([
      "The service was removed",
    ]);
    const organization = await api.newOrganization(api.callers.owner);
    await upload(
      api,
      organization.key,
      version("Pruned", "1.0.0", "2025-05-01"),
      version("Pruned", "2.0.0", "2025-06-01"),
    );
    await api.call("PUT", `/services/pruned/pricings/1.0.0?availability=archived&at=${iso(at)}`, {
      key: organization.key,
      body: { subscriptionPlan: "PRO" },
    });
    await api.call("DELETE", "/services", { key: organization.key });
    const left = await api.call<Record<string, unknown>[]>("GET", "/scheduled?state=cancelled", {
      key: organization.key,
    });
    expect(left.body).toMatchObject([
      { serviceName: "Pruned", pricingVersion: "1.0.0", why: "The service was removed" },
    ]);
  });

  test("a version that is so already is done, without an event", async () => {
    await set("2.0.0", `availability=archived&at=${iso(at)}`, { subscriptionPlan: "PRO" });
    await set("2.0.0", "availability=archived", { subscriptionPlan: "PRO" });
    setNow(at);
    expect(await about(carryOut)).toEqual([]);
    expect(await scheduledOf()).toMatchObject([{ state: "done", why: "The version was archived already" }]);
  });
});
