import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createApp } from "../../src/http/app.ts";
import { createPricingCache } from "../../src/operations/state/pricing-cache.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, show, tasker, upload } from "../support/contracting.ts";
import { keepsMovements } from "../support/distributed-database.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

const DAY = 86_400_000;

let api: TestApi;
let key: string;
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

async function recordStart(): Promise<number> {
  const [row] = await api.database.connection.client<{ at: string | null }[]>`select at from usage_ledger_start`;
  return row?.at == null ? 0 : Date.parse(row.at);
}

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

  it.skipIf(keepsMovements())("is refused where the ledger does not keep single movements any more", async () => {
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
