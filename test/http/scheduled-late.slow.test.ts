import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { type ContractBody, contractFor, upload } from "../support/contracting.ts";
import "../support/property-seed.ts";

/*
 * Late is on time: a scheduled change that nobody asks about for days leaves what one leaves that is carried out at its
 * moment. Source: contract custom-terms §7, §9.
 */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const HOUR = 3_600_000;
const RUNS = 40;

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE, SAMPLE.replace("saasName: Tasker", "saasName: Second"));
});
afterAll(() => api.close());

type Shown = ContractBody & {
  scheduled?: { at: string; id: string };
  trial?: { until: string };
  overrides?: object[];
  error?: string;
};

const SUBSCRIPTIONS = [
  { tasker: "FREE" },
  { tasker: "PRO" },
  { tasker: "BUSINESS" },
  { second: "PRO" },
  { tasker: "PRO", second: "FREE" },
] as const;
const subscriptionOf = (plans: Record<string, string>) => ({
  contractedServices: Object.fromEntries(Object.keys(plans).map((service) => [service, "1.0.0"])),
  subscriptionPlans: plans,
  subscriptionAddOns: {},
});

const subscription = fc.constantFrom(...SUBSCRIPTIONS).map((plans) => subscriptionOf({ ...plans }));
const hours = fc.integer({ min: 1, max: 24 * 20 });
const step = fc.oneof(
  fc.record({ do: fc.constant("consume" as const), amount: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ do: fc.constant("schedule" as const), to: subscription, in: hours, atEnd: fc.boolean() }),
  fc.record({ do: fc.constant("novate" as const), to: subscription, cancels: fc.boolean() }),
  fc.record({ do: fc.constant("billing" as const), in: hours, autoRenew: fc.boolean() }),
  fc.record({ do: fc.constant("override" as const), value: fc.integer({ min: 0, max: 900 }), in: hours }),
  fc.record({ do: fc.constant("cancel" as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const show = async (userId: string, query = "") =>
  (await api.call<Shown>("GET", `/contracts/${userId}${query}`, { key })).body;

/** Takes one step of a user, and returns what differs between users in no case: the status. */
async function take(userId: string, taken: Step, now: number): Promise<number> {
  const at = (after: number) => new Date(now + after * HOUR).toISOString();
  const call = async (method: "PUT" | "POST" | "DELETE", path: string, body?: object) =>
    (await api.call(method, path, { key, body })).status;
  switch (taken.do) {
    case "consume":
      return call("POST", `/features/${userId}/tasker-board`, { "tasker-maxTasks": taken.amount });
    case "schedule":
      return call("POST", `/contracts/${userId}/scheduled`, {
        ...taken.to,
        at: taken.atEnd ? "periodEnd" : at(taken.in),
      });
    case "novate":
      return call("PUT", `/contracts/${userId}?cancelScheduled=${taken.cancels}`, taken.to);
    case "billing":
      return call("PUT", `/contracts/${userId}/billingPeriod`, { endDate: at(taken.in), autoRenew: taken.autoRenew });
    case "override":
      return call("PUT", `/contracts/${userId}/overrides/tasker/usageLimits/maxTasks`, {
        mode: "set",
        value: taken.value,
        until: at(taken.in),
        reason: "test",
      });
    case "cancel": {
      const { scheduled } = await show(userId);
      return scheduled === undefined ? 0 : call("DELETE", `/contracts/${userId}/scheduled/${scheduled.id}`);
    }
  }
}

/** Everything that answers are made of, without what names the user. */
async function traceOf(userId: string, moments: readonly number[]) {
  const neutral = ({ id: _id, userContact: _contact, scheduled, overrides, ...rest }: Shown) => ({
    ...rest,
    scheduledAt: scheduled?.at,
    overrides: overrides?.length,
  });
  const past = [];
  for (const moment of moments) {
    const query = `?at=${new Date(moment).toISOString()}`;
    const { asOf: _asOf, ...then } = (await show(userId, query)) as Shown & { asOf?: object };
    const evaluated = await api.call<{ features: object }>("POST", `/features/${userId}${query}`, { key });
    past.push([neutral(then), evaluated.status, evaluated.body.features]);
  }
  const ledger = await api.resources.db.execute<{ row: string }>(
    `select l.kind || ' ' || l.limit_name || ' ' || l.delta || ' ' || l.created_at as row
     from usage_ledger l join contracts c on c.id = l.contract_id where c.user_id = '${userId}' order by l.id`,
  );
  const now = await api.call("POST", `/features/${userId}?details=true`, { key });
  return {
    contract: neutral(await show(userId)),
    past,
    ledger: ledger.map(({ row }) => row),
    now: [now.status, now.body],
  };
}

let users = 0;
test("whenever a change is carried out, everything is as if at its moment", async () => {
  let applied = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        first: subscription,
        autoRenew: fc.boolean(),
        trialDays: fc.option(fc.integer({ min: 1, max: 20 })),
        steps: fc.array(fc.record({ after: hours, take: step }), { minLength: 2, maxLength: 8 }),
      }),
      async ({ first, autoRenew, trialDays, steps }) => {
        let now = START;
        api.setNow(new Date(now));
        const [late, onTime] = [`late-${(users += 1)}`, `on-time-${users}`];
        for (const userId of [late, onTime]) {
          const then = { subscriptionPlans: first.subscriptionPlans, subscriptionAddOns: {} };
          const created = await api.call("POST", "/contracts", {
            key,
            body: {
              ...contractFor(userId),
              ...first,
              billingPeriod: { autoRenew, renewalDays: 12 },
              ...(trialDays === null ? {} : { trial: { days: trialDays, then } }),
            },
          });
          expect(created.status, JSON.stringify(created.body)).toBe(201);
        }
        const moments = [START];
        for (const { after, take: taken } of [...steps, { after: 24 * 30, take: { do: "cancel" as const } }]) {
          const next = now + after * HOUR;
          const { scheduled, trial } = await show(onTime);
          const due = Date.parse(scheduled?.at ?? trial?.until ?? "");
          if (due <= next) {
            api.setNow(new Date(due));
            await show(onTime);
            applied += 1;
            moments.push(due - 1, due);
          }
          api.setNow(new Date((now = next)));
          const [one, other] = [await take(late, taken, now), await take(onTime, taken, now)];
          expect(one, taken.do).toBe(other);
          moments.push(now);
        }
        expect(await traceOf(late, moments)).toEqual(await traceOf(onTime, moments));
      },
    ),
    { numRuns: RUNS },
  );
  expect(applied).toBeGreaterThan(RUNS / 4);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
}, 240_000);
