import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { ADD_ONS_ONLY, contract, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { yamlUpload } from "../support/uploads.ts";
import "../support/property-seed.ts";

/* Each moment is answered later as it was answered then, over random histories. */

const DAY = 86_400_000;

let api: TestApi;
let key: string;
let revivals = 0;
let now = Date.UTC(2025, 0, 31, 12);
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

/** Advances the clock by this many milliseconds. */
function wait(ms: number): void {
  now += ms;
  api.setNow(new Date(now));
}

const moment = () => new Date(now).toISOString();
const at = (when: string, path: string) => `${path}${path.includes("?") ? "&" : "?"}at=${when.replaceAll("+", "%2B")}`;
const evaluate = (path: string) => api.call("POST", `/features/${path}`, { key });

/** Requests that evaluate features at every moment: both modes, all answer shapes, some with remaining amounts. */
const ASKED = [
  "ada",
  "ada?details=true",
  "ada?details=true&server=true",
  "ada/tasker-bulk?explain=true",
  "ada/tasker-board?explain=true&server=true",
];

type Said = { status: number; body: unknown }[];

/** Repeats the requests for a past moment, and removes the `asOf` part of the answers. */
async function featuresAt(when: string): Promise<Said> {
  const answers: Said = [];
  for (const path of ASKED) {
    const { status, body } = await evaluate(at(when, path));
    const { asOf: _, ...rest } = body;
    answers.push({ status, body: "features" in rest ? rest["features"] : rest });
  }
  return answers;
}
async function featuresNow(): Promise<Said> {
  const answers: Said = [];
  for (const path of ASKED) {
    const { status, body } = await evaluate(path);
    answers.push({ status, body });
  }
  return answers;
}
async function contractAt(when: string): Promise<Said> {
  const { status, body } = await api.call("GET", at(when, "/contracts/ada"), { key });
  const { asOf: _, ...rest } = body;
  return [{ status, body: rest }];
}
async function contractNow(): Promise<Said> {
  const { status, body } = await api.call("GET", "/contracts/ada", { key });
  return [{ status, body }];
}

const daily = (text: string) => text.replace("period: { value: 1, unit: MONTH }", "period: { value: 1, unit: DAY }");
const V1 = daily(tasker());
const V2 = tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: 8 });
const V1_AGAIN = daily(tasker({ maxTasks: 3 }));

type Step = { kind: string; [field: string]: unknown };
const limit = fc.constantFrom("maxTasks", "maxExports");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("consume"),
      feature: fc.constantFrom("board", "bulk"),
      amount: fc.integer({ min: 0, max: 6 }),
      strict: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("revert"),
      feature: fc.constantFrom("board", "bulk"),
      latest: fc.boolean(),
    }),
  },
  fc.record({ kind: fc.constant("usage"), query: fc.constantFrom("?reset=true", "?reset=true&renewableOnly=false") }),
  limit.map((name) => ({ kind: "usage", query: `?usageLimit=${name}` })),
  fc
    .tuple(limit, fc.integer({ min: -6, max: 6 }))
    .map(([name, amount]) => ({ kind: "usage", query: "", body: { tasker: { [name]: amount } } })),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("wait"),
      ms: fc.constantFrom(1, 60_000, 120_000, DAY - 2, DAY - 1, DAY, 3 * DAY + 5, 12 * DAY),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("novate"),
      version: fc.constantFrom("1.0.0", "2.0.0"),
      plan: fc.constantFrom("BASIC", "PRO"),
      addOns: fc.constantFrom({}, { extraTasks: 2 }, { extraTasks: 4, needsTasks: 1 }),
      extras: fc.boolean(),
    }),
  },
  fc.record({ kind: fc.constant("leave") }),
  fc
    .record({
      days: fc.integer({ min: 0, max: 5 }),
      autoRenew: fc.boolean(),
      renewalDays: fc.integer({ min: 1, max: 9 }),
    })
    .map(({ days, ...given }) => ({ kind: "billing", days, given })),
  { weight: 2, arbitrary: fc.constantFrom("archive", "delete", "again", "rename").map((kind) => ({ kind })) },
  fc.constantFrom("disable", "compact").map((kind) => ({ kind })),
);

/** The answer of the step does not matter: a rejected call changes nothing, now or in the past. */
async function take({ kind, ...step }: Step): Promise<unknown> {
  const call = (method: "PUT" | "POST" | "DELETE", path: string, body?: unknown) =>
    api.call(method, path, { key, ...(body === undefined ? {} : { body }) });
  switch (kind) {
    case "consume": {
      const names = step["feature"] === "board" ? ["maxTasks"] : ["maxTasks", "maxExports"];
      const body = Object.fromEntries(names.map((name) => [`tasker-${name}`, step["amount"]]));
      return call("POST", `/features/ada/tasker-${String(step["feature"])}?strict=${String(step["strict"])}`, body);
    }
    case "revert":
      return call(
        "POST",
        `/features/ada/tasker-${String(step["feature"])}?revert=true&latest=${String(step["latest"])}`,
      );
    case "usage":
      return call("PUT", `/contracts/ada/usageLevels${String(step["query"])}`, step["body"] ?? {});
    case "wait":
      return wait(Number(step["ms"]));
    case "novate":
      return call("PUT", "/contracts/ada", {
        contractedServices: { tasker: step["version"], ...(step["extras"] === true ? { extras: "1.0.0" } : {}) },
        subscriptionPlans: { tasker: step["plan"] },
        subscriptionAddOns: {
          tasker: step["addOns"],
          ...(step["extras"] === true ? { extras: { reporting: 1 } } : {}),
        },
      });
    case "leave":
      return call("PUT", "/contracts/ada", { contractedServices: {}, subscriptionPlans: {}, subscriptionAddOns: {} });
    case "billing": {
      const endDate = new Date(now + Number(step["days"]) * DAY).toISOString();
      return call("PUT", "/contracts/ada/billingPeriod", { endDate, ...(step["given"] as object) });
    }
    case "archive":
      return call("PUT", "/services/tasker/pricings/1.0.0?availability=archived", { subscriptionPlan: "PRO" });
    case "delete":
      return call("DELETE", "/services/tasker/pricings/1.0.0");
    case "again":
      return api.call("POST", "/services/Tasker/pricings", { key, body: yamlUpload(V1_AGAIN) });
    case "rename":
      await call("PUT", "/services/jobber", { name: "Tasker" });
      wait(1);
      await call("PUT", "/services/tasker", { name: "Jobber" });
      wait(1);
      await evaluate("ada");
      wait(1);
      return call("PUT", "/services/jobber", { name: "Tasker" });
    case "disable":
      await call("DELETE", "/services/tasker");
      revivals += 1;
      await api.call("POST", "/services", { key, body: yamlUpload(tasker({ version: `9.${revivals}.0` })) });
      await call("PUT", "/services/tasker/pricings/1.0.0?availability=active");
      return call("PUT", "/services/tasker/pricings/2.0.0?availability=active");
    case "compact":
      return compactLedger(api.resources.db, new Date(now), 8);
  }
  throw new Error(`no step ${kind}`);
}

async function recordStart(): Promise<number> {
  const [row] = await api.database.connection.client<{ at: string | null }[]>`select at from usage_ledger_start`;
  return row?.at == null ? 0 : Date.parse(row.at);
}

test("whatever happened, each moment is answered later as it was answered then", async () => {
  let compared = 0;
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 30, size: "max" }), async (steps) => {
      wait(DAY);
      key = (await api.newOrganization(api.callers.owner)).key;
      await upload(api, key, V1, V2, ADD_ONS_ONLY);
      await contract(api, key, "ada", { billingPeriod: { autoRenew: true, renewalDays: 5 } });
      const said: { when: string; ask: (when: string) => Promise<Said>; answers: Said }[] = [];
      for (const one of steps) {
        wait(1);
        await take(one);
        for (const [ask, askNow] of [
          [contractAt, contractNow],
          [featuresAt, featuresNow],
        ] as const) {
          wait(1);
          // Ask about the present first: a live evaluation records the renewals that were due.
          const before = await ask(moment());
          const answers = await askNow();
          expect({ one, answers: before }).toEqual({ one, answers });
          said.push({ when: moment(), ask, answers });
        }
      }
      const start = await recordStart();
      for (const { when, ask, answers } of said) {
        const again = await ask(when);
        if (Date.parse(when) < start) {
          const error = `INVALID DATA: The record of usage starts at ${new Date(start).toISOString()}`;
          expect(again).toEqual(again.map(() => ({ status: 400, body: { error } })));
          refused += 1;
        } else {
          expect({ when, steps, again }).toEqual({ when, steps, again: answers });
          compared += 1;
        }
      }
    }),
    { numRuns: 10, endOnFailure: true },
  );
  expect(compared).toBeGreaterThan(80);
  expect(refused).toBeLessThan(compared);
  await expectBalancesMatchLedger(api.database);
}, 120_000);
