import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, contractFor, tasker, upload } from "../support/contracting.ts";
import { REST, type RunningServer, startRestServer, testKeyring } from "../support/event-server.ts";
import { type HeavyPricing, heavyPricing } from "../support/heavy-pricings.ts";
import { mainThreadMs, peakMegabytesOf } from "../support/hostile-tenant.ts";
import { yamlUpload } from "../support/uploads.ts";

/* One tenant requests minutes of processor time from a real server process. It must keep answering everyone else. */

/**
 * Processor time of the main thread between a request of other tenants and its answer. They may wait for some slices, but never
 * for an analysis, which takes seconds.
 */
const LONGEST_GAP_MS = 500;
/** A later answer counts as missing. Generous, because the machine may be busy. */
const TIMEOUT_MS = 30_000;
const MAX_RSS_MB = 600;

let api: TestApi;
let server: RunningServer;
/** Another tenant, whose contract is evaluated. */
let other: string;
beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  other = (await api.newOrganization(await api.newUser())).key;
  await upload(api, other, tasker());
  await contract(api, other, "ada");
}, 120_000);
afterAll(() => api.close());
beforeEach(async () => {
  server = await startRestServer(REST, api.database.url);
}, 60_000);
afterEach(() => server.stop());

const pid = () => server.process.pid ?? 0;

async function send(
  method: string,
  path: string,
  key: string,
  body?: FormData | object,
  timeoutMs?: number,
): Promise<Response> {
  const isForm = body instanceof FormData;
  return fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { "x-api-key": key, ...(isForm || body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    ...(timeoutMs === undefined ? {} : { signal: AbortSignal.timeout(timeoutMs) }),
  });
}

/** Repeats another tenant's request during the attack. Returns the answers, and what the server computed at most before one. */
async function meanwhile<T>(attack: () => Promise<T>): Promise<{ result: T; answers: number; longestMs: number }> {
  const over = new AbortController();
  let [answers, longestMs] = [0, 0];
  const asking = (async () => {
    while (!over.signal.aborted) {
      const before = mainThreadMs(pid());
      const [live, evaluation] = await Promise.all([
        fetch(`${server.url}/live`, { signal: AbortSignal.timeout(TIMEOUT_MS) }),
        send("POST", "/features/ada/tasker-board", other, {}, TIMEOUT_MS),
      ]);
      expect([live.status, evaluation.status]).toEqual([200, 200]);
      longestMs = Math.max(longestMs, mainThreadMs(pid()) - before);
      answers += 1;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  })();
  const result = await attack().finally(() => over.abort());
  await asking;
  return { result, answers, longestMs };
}

function expectOthersServed({ answers, longestMs }: { answers: number; longestMs: number }): void {
  expect(answers).toBeGreaterThan(10);
  expect(longestMs).toBeLessThan(LONGEST_GAP_MS);
  expect(server.process.exitCode).toBeNull();
  expect(peakMegabytesOf(pid())).toBeLessThan(MAX_RSS_MB);
}

const versions = (heavy: HeavyPricing) => [heavyPricing(heavy), heavyPricing({ ...heavy, version: "2.0.0", extra: 1 })];

describe("others are answered while an analysis runs:", () => {
  test.each<[string, HeavyPricing]>([
    ["a diff of four kilobytes", { name: "Small", features: 5, limits: 5, plans: 3, addOns: 6 }],
    ["a diff over 600 add-ons", { name: "Many", features: 5, limits: 5, plans: 3, addOns: 600 }],
    ["a diff of 1,000 features in 20 plans", { name: "Wide", features: 1000, limits: 5, plans: 20, addOns: 14 }],
  ])(
    "%s, asked for with an EVALUATION key",
    async (_, heavy) => {
      await upload(api, api.callers.all.key, ...versions(heavy));
      const diff = `/services/${heavy.name}/diff?from=1.0.0&to=2.0.0`;
      const served = await meanwhile(async () => {
        const answer = await send("GET", diff, api.callers.evaluation.key);
        return { status: answer.status, body: (await answer.json()) as { space?: Record<string, unknown> } };
      });
      expect(served.result.status).toBe(200);
      const { complete, capped } = served.result.body.space ?? {};
      expect(complete === true || (Array.isArray(capped) && capped.length > 0)).toBe(true);
      expectOthersServed(served);
      const again = await meanwhile(() => send("GET", diff, api.callers.evaluation.key));
      expect(await again.result.json()).toEqual(served.result.body);
    },
    240_000,
  );

  test("the impact on one contract with 150 add-ons", async () => {
    const heavy = { name: "Contracted", features: 5, limits: 5, plans: 3, addOns: 150 };
    const { key } = api.callers.all;
    await upload(api, key, ...versions(heavy));
    const addOns = Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`addOn${index}`, 2]));
    const made = await api.call("POST", "/contracts", {
      key,
      body: contractFor("holder", {
        contractedServices: { contracted: "1.0.0" },
        subscriptionPlans: { contracted: "PLAN0" },
        subscriptionAddOns: { contracted: addOns },
      }),
    });
    expect(made.status).toBe(201);
    const served = await meanwhile(async () => {
      const answer = await send("POST", "/services/Contracted/impact", key, {
        action: "novation",
        pricingVersion: "2.0.0",
      });
      return { status: answer.status, body: (await answer.json()) as { groups: { proposal: object }[] } };
    });
    expect(served.result.status).toBe(200);
    expect(served.result.body.groups[0]?.proposal).toMatchObject({ complete: false });
    expectOthersServed(served);
  }, 240_000);

  test("an upload and a draft of nearly two megabytes", async () => {
    const heavy = { name: "Long", features: 8000, limits: 200, plans: 2, addOns: 0 };
    const { key } = api.callers.all;
    const [first = "", second = ""] = versions(heavy);
    const served = await meanwhile(async () => {
      const made = await send("POST", "/services", key, yamlUpload(first));
      expect(made.status).toBe(201);
      return (await send("POST", "/services/Long/diff", key, yamlUpload(second))).status;
    });
    expect(served.result).toBe(200);
    expectOthersServed(served);
  }, 240_000);
});

test("an organization has two analyses at a time: of five more one is told to come back, and others are not concerned", async () => {
  const { key } = api.callers.all;
  const heavy = { name: "Crowded", features: 300, limits: 5, plans: 9, addOns: 10 };
  const texts = [0, 1, 2, 3, 4, 5, 6, 7].map((extra) => heavyPricing({ ...heavy, version: `${extra}.0.0`, extra }));
  await upload(api, key, ...texts);
  const answers = await Promise.all(
    [1, 2, 3, 4, 5, 6, 7].map((to) => send("GET", `/services/Crowded/diff?from=0.0.0&to=${to}.0.0`, key)),
  );
  const refused = answers.filter(({ status }) => status === 429);
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(2);
  expect(refused.length).toBeGreaterThanOrEqual(1);
  for (const answer of refused) {
    expect(answer.headers.get("retry-after")).toBe("5");
    expect(await answer.json()).toEqual({
      error: "Too many analyses of this organization at a time: at most 2. Try again in 5 seconds",
    });
  }
}, 240_000);
