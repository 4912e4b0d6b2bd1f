import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createApp } from "../../src/http/app.ts";
import { createPricingCache } from "../../src/operations/state/pricing-cache.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { ADD_ONS_ONLY, consume, contract, show, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { yamlUpload } from "../support/uploads.ts";
import "../support/property-seed.ts";

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

describe("the answer of a past moment", () => {
  /** Times of bob's steps. */
  const when: Record<string, string> = {};
  const happened = (name: string) => {
    when[name] = moment();
    wait(3_600_000);
  };

  beforeAll(async () => {
    wait(DAY);
    key = (await api.newOrganization(api.callers.owner)).key;
    await upload(api, key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: 8 }));
    happened("before");
    await contract(api, key, "bob", { subscriptionAddOns: { tasker: { extraTasks: 2 } } });
    happened("contracted");
    await consume(api, key, "bob", { "tasker-maxTasks": 7 });
    happened("used");
    const fallback = { subscriptionPlan: "PRO" };
    await api.call("PUT", "/services/tasker/pricings/1.0.0?availability=archived", { key, body: fallback });
    await api.call("DELETE", "/services/tasker/pricings/1.0.0", { key });
    await upload(api, key, tasker({ maxTasks: 1 }));
    happened("archived");
  });

  it("says which state of the contract, which versions and which balances it is made from", async () => {
    const answer = await evaluate(at(when["used"] ?? "", "bob/tasker-board"));
    expect(answer).toMatchObject({
      status: 200,
      body: {
        eval: true,
        limit: { "tasker-maxTasks": 40 },
        used: { "tasker-maxTasks": 7 },
        remaining: { "tasker-maxTasks": 33 },
        asOf: {
          at: when["used"],
          since: when["contracted"],
          cause: "creation",
          until: when["archived"],
          contract: {
            contractedServices: { tasker: "1.0.0" },
            subscriptionPlans: { tasker: "PRO" },
            subscriptionAddOns: { tasker: { extraTasks: 2 } },
            usageLevels: { tasker: { maxTasks: { consumed: 7 }, maxExports: { consumed: 0 } } },
          },
        },
      },
    });
    const now = (await evaluate(at(when["archived"] ?? "", "bob/tasker-board"))).body;
    expect(now).toMatchObject({
      limit: { "tasker-maxTasks": 8 },
      used: { "tasker-maxTasks": 0 },
      asOf: { cause: "archiving", until: null, contract: { contractedServices: { tasker: "2.0.0" } } },
    });
  });

  it("is that of a version's own content, after it was deleted and another one has its name", async () => {
    // A second process, whose cache is empty.
    const resources = { ...api.resources, pricingCache: createPricingCache() };
    const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
    const answer = await app.request(at(when["contracted"] ?? "", "/api/v1/features/bob?details=true"), {
      method: "POST",
      headers: { "x-api-key": key },
    });
    expect(await answer.json()).toMatchObject({ features: { "tasker-board": { limit: { "tasker-maxTasks": 40 } } } });
  });

  it("is the contract as it was shown, with the history of that time", async () => {
    const [then, now] = [
      await api.call("GET", at(when["used"] ?? "", "/contracts/bob"), { key }),
      await show(api, key, "bob"),
    ];
    expect(then.body).toMatchObject({
      contractedServices: { tasker: "1.0.0" },
      usageLevels: { tasker: { maxTasks: { consumed: 7 } } },
      history: [],
      asOf: { at: when["used"], since: when["contracted"], cause: "creation", until: when["archived"] },
    });
    expect(now).not.toHaveProperty("asOf");
    expect(now.contractedServices).toEqual({ tasker: "2.0.0" });
  });

  it("may be asked for in any offset, in UTC without one, and by the day", async () => {
    const local = `${new Date(Date.parse(when["used"] ?? "") + 7_200_000).toISOString().slice(0, -1)}+02:00`;
    const spellings = [local, local.replace("+", " "), local.replace("+02:00", "").replace(/T(\d\d)/, "T$1")];
    const [first, second] = await Promise.all(
      spellings.slice(0, 2).map((text) => api.call("GET", `/contracts/bob?at=${encodeURIComponent(text)}`, { key })),
    );
    expect(first?.body["asOf"]).toMatchObject({ at: when["used"] });
    expect(second?.body).toEqual(first?.body);
    const bare = await api.call("GET", at((when["used"] ?? "").slice(0, -1), "/contracts/bob"), { key });
    expect(bare.body["asOf"]).toMatchObject({ at: when["used"] });
    const day = new Date(Date.parse(when["archived"] ?? "") + DAY).toISOString().slice(0, 10);
    wait(2 * DAY);
    const byDay = await api.call("GET", at(day, "/contracts/bob"), { key });
    expect(byDay.body["asOf"]).toMatchObject({ at: `${day}T00:00:00.000Z`, cause: "archiving" });
  });

  it("would have counted what a dry run asks", async () => {
    const asked = { key, body: { "tasker-maxTasks": 40 } };
    const path = at(when["used"] ?? "", "/features/bob/tasker-board?dryRun=true&strict=true");
    expect((await api.call("POST", path, asked)).body).toMatchObject({ eval: false, used: { "tasker-maxTasks": 47 } });
  });

  it("changes nothing: neither balances nor periods that were due", async () => {
    wait(40 * DAY);
    const before = await show(api, key, "bob");
    await api.call("PUT", "/contracts/bob/billingPeriod", { key, body: { autoRenew: true } });
    const answer = await evaluate(at(moment(), "bob/tasker-board"));
    expect(answer).toMatchObject({ status: 200, body: { used: { "tasker-maxTasks": 0 } } });
    const after = await show(api, key, "bob");
    expect(after.billingPeriod.endDate).toBe(before.billingPeriod.endDate);
    expect(after.usageLevels).toEqual(before.usageLevels);
  });

  it.each([
    ["before the contract", "POST", "/features/bob", "before", 404, /not found at .* it begins at/],
    ["before the contract", "GET", "/contracts/bob", "before", 404, /not found at .* it begins at/],
    ["in the future", "POST", "/features/bob/tasker-board", "2126-01-01", 400, "at must not be in the future"],
    ["that is none", "GET", "/contracts/bob", "yesterday", 400, "at must be an ISO 8601 date"],
    ["that is no day", "GET", "/contracts/bob", "2025-02-30", 400, "at must be an ISO 8601 date"],
    ["that no year has", "GET", "/contracts/bob", "0000-01-01", 400, "at must be an ISO 8601 date"],
    ["that is empty", "POST", "/features/bob", "", 400, "at must be an ISO 8601 date"],
    ["of nobody", "POST", "/features/nobody", "used", 404, "Contract with userId nobody not found"],
    ["and a token", "POST", "/features/bob/pricing-token", "used", 400, "token cannot be issued"],
    ["and a revert", "POST", "/features/bob/tasker-board?revert=true", "used", 400, "cannot be combined with 'revert'"],
  ] as const)("a moment %s is refused: %s %s", async (_, method, path, given, status, sentence) => {
    const answer = await api.call(method, at(when[given] ?? given, path), { key });
    expect(answer.status).toBe(status);
    expect(answer.body["error"]).toMatch(sentence);
  });

  it("is never consumed", async () => {
    const asked = { key, body: { "tasker-maxTasks": 1 } };
    const answer = await api.call("POST", at(when["used"] ?? "", "/features/bob/tasker-board"), asked);
    expect(answer.status).toBe(400);
    expect(answer.body["error"]).toMatch("cannot be combined with consumption");
  });

  it("is nobody else's: another organization's contract is not found", async () => {
    const other = await api.newOrganization(api.callers.outsider);
    for (const path of ["/features/bob", "/features/bob/tasker-board"]) {
      expect((await api.call("POST", at(when["used"] ?? "", path), { key: other.key })).status).toBe(404);
    }
    expect((await api.call("GET", at(when["used"] ?? "", "/contracts/bob"), { key: other.key })).status).toBe(404);
  });

  it("is refused where the record of an older contract begins, and where a change is not on record", async () => {
    const { client } = api.database.connection;
    const made = await contract(api, key, "old");
    const start = moment();
    await client`update contract_states set cause = 'record' where contract_id = ${made.id}`;
    const before = await evaluate(at(when["used"] ?? "", "old"));
    expect(before.status).toBe(400);
    expect(before.body["error"]).toBe(`INVALID DATA: The record of the contract of old starts at ${start}`);
    // Simulates a release that keeps no record.
    await client`update contract_services set plan = 'BASIC' where contract_id = ${made.id}`;
    const changed = await evaluate(at(start, "old"));
    expect(changed.body["error"]).toBe(`INVALID DATA: The record of the contract of old is incomplete since ${start}`);
    await client`delete from contracts where id = ${made.id}`;
  });

  it("is refused where the ledger does not keep single movements any more", async () => {
    await compactLedger(api.resources.db, new Date(now), 1);
    const start = new Date(await recordStart()).toISOString();
    const answer = await evaluate(at(when["used"] ?? "", "bob/tasker-board"));
    expect(answer).toMatchObject({
      status: 400,
      body: { error: `INVALID DATA: The record of usage starts at ${start}` },
    });
    expect((await evaluate(at(start, "bob/tasker-board"))).status).toBe(200);
    await expectBalancesMatchLedger(api.database);
  });
});
