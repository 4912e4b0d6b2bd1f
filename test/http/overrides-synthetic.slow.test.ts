import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { compilePricing, trackedLimits } from "../../src/core/pricing/compile.ts";
import { type Pricing, UNLIMITED } from "../../src/core/pricing/model.ts";
import type { Override } from "../../src/core/pricing/overrides.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../src/core/pricing/subscription.ts";
import { chosenOverrides, overridePicks } from "../core/change/small-pricings.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { yamlUpload } from "../support/uploads.ts";
import "../support/property-seed.ts";

/*
 * A contract with overrides is answered as one without on a plan that has the effective values. PRICINGS names a folder
 * of other pricing files. Source: contract custom-terms §9.
 */

const FOLDER = process.env["PRICINGS"] ?? fileURLToPath(new URL("../../src/samples", import.meta.url));
const START = Date.parse("2025-06-15T10:00:00.000Z");
// Between two resets of the limits that renew every minute.
const FROM = START + 10_000;
const UNTIL = START + 50_000;
const RUNS = 3;
/** Features that are also asked for one by one. */
const SINGLE = 8;

const FILES = readdirSync(FOLDER)
  .filter((name) => /\.ya?ml$/.test(name))
  .flatMap((name) => {
    const parsed = parsePricing(readFileSync(join(FOLDER, name), "utf8"), new Date("2100-01-01"));
    return parsed.ok && parsed.pricing.plans.length > 0 ? [{ name, pricing: parsed.pricing }] : [];
  });

/** The values that expressions should read: by the rules of the contract, not by the code under test. */
function effectiveValues(pricing: Pricing, plan: string, overrides: readonly Override[]) {
  const granted = grant(compilePricing(pricing), plan, {});
  const features = new Map(granted.features);
  const usageLimits = new Map(granted.usageLimits);
  for (const { kind, name, mode, value } of overrides) {
    if (kind === "features") features.set(name, value);
    else if (mode === "set") usageLimits.set(name, value as number | boolean);
    else {
      const base = Number(usageLimits.get(name));
      usageLimits.set(name, base >= UNLIMITED ? base : Math.min(UNLIMITED, Math.max(0, base + Number(value))));
    }
  }
  return { features, usageLimits };
}

/** Writes a pricing with one plan that has these values. JSON is YAML. */
function synthetic(pricing: Pricing, version: string, values: ReturnType<typeof effectiveValues>): string {
  const named = (items: readonly { name: string }[]) =>
    Object.fromEntries(items.map(({ name, ...item }) => [name, item]));
  const valued = (map: ReadonlyMap<string, unknown>) =>
    Object.fromEntries([...map].map(([name, value]) => [name, { value }]));
  return JSON.stringify({
    saasName: "Synthetic",
    syntaxVersion: "3.0",
    version,
    createdAt: "2025-01-01",
    currency: "EUR",
    tags: pricing.tags,
    features: named(pricing.features),
    usageLimits: named(pricing.usageLimits),
    plans: {
      ONLY: {
        price: 0,
        unit: "user",
        features: valued(values.features),
        usageLimits: valued(values.usageLimits),
      },
    },
  });
}

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

async function must<T>(
  ...[method, path, body, key]: [Parameters<TestApi["call"]>[0], string, unknown, string]
): Promise<T> {
  const answer = await api.call<T>(method, path, { key, ...(body === undefined ? {} : { body }) });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Explanations name where a limit comes from, which is the difference between the two contracts. */
const withoutSources = (answer: object): unknown =>
  JSON.parse(JSON.stringify(answer, (key, value: unknown) => (key === "sources" ? undefined : value)));

/** Every kind of answer about a user. Identifiers begin with `synthetic` for both. */
async function answersOf(userId: string, key: string, single: readonly string[], at?: string): Promise<unknown> {
  const query = at === undefined ? "" : `?at=${at}`;
  const joined = at === undefined ? "?" : `${query}&`;
  const withoutPast = (body: Record<string, unknown>) => {
    const { asOf: _asOf, ...rest } = body;
    return rest;
  };
  const answers: unknown[] = [
    withoutPast(await must("POST", `/features/${userId}${query}`, undefined, key)),
    withoutPast(await must("POST", `/features/${userId}${joined}details=true`, undefined, key)),
    withoutPast(await must("POST", `/features/${userId}${joined}details=true&server=true`, undefined, key)),
  ];
  for (const name of single) {
    const path = `/features/${userId}/synthetic-${encodeURIComponent(name)}${joined}explain=true`;
    answers.push(withoutSources(withoutPast(await must("POST", path, {}, key))));
  }
  if (at !== undefined) return answers;
  const { pricingToken } = await must<{ pricingToken: string }>(
    "POST",
    `/features/${userId}/pricing-token`,
    undefined,
    key,
  );
  const { features, pricingContext, subscriptionContext } = JSON.parse(
    Buffer.from(pricingToken.split(".")[1] ?? "", "base64url").toString(),
  );
  answers.push({ features, pricingContext, subscriptionContext });
  const flags = await api.call("POST", "/ofrep/v1/evaluate/flags", {
    key,
    body: { context: { targetingKey: userId } },
  });
  answers.push(flags.body);
  return answers;
}

test.each(FILES)(
  "$name: overrides answer as a plan with the effective values does, and at their boundaries",
  async ({ pricing }) => {
    const picked = fc.record({ plan: fc.nat(99), picks: overridePicks, used: fc.nat(99), first: fc.nat(999) });
    await fc.assert(
      fc.asyncProperty(picked, async ({ plan: place, picks, used, first }) => {
        api.setNow(new Date(START));
        const { key } = await api.newOrganization(api.callers.owner);
        const plan = pricing.plans[place % pricing.plans.length]?.name ?? "";
        const overrides = chosenOverrides(pricing, picks);
        const last = [...new Map(overrides.map((each) => [`${each.kind} ${each.name}`, each])).values()];
        const granted = effectiveValues(pricing, plan, []);
        const effective = effectiveValues(pricing, plan, last);
        await must("POST", "/services", yamlUpload(synthetic(pricing, "1.0.0", granted)), key);
        await must("POST", "/services/Synthetic/pricings", yamlUpload(synthetic(pricing, "2.0.0", effective)), key);
        const contractOn = async (userId: string, version: string) => {
          await must(
            "POST",
            "/contracts",
            {
              userContact: { userId, username: userId },
              contractedServices: { synthetic: version },
              subscriptionPlans: { synthetic: "ONLY" },
              subscriptionAddOns: {},
            },
            key,
          );
          const tracked = trackedLimits(compilePricing(pricing)).map(({ name }) => [name, used % 12] as const);
          const amounts = { synthetic: Object.fromEntries(tracked) };
          if (tracked.length > 0) await must("PUT", `/contracts/${userId}/usageLevels`, amounts, key);
        };
        await contractOn("overridden", "1.0.0");
        await contractOn("granted", "1.0.0");
        await contractOn("effective", "2.0.0");
        for (const { kind, name, mode, value } of overrides) {
          const path = `/contracts/overridden/overrides/synthetic/${kind}/${encodeURIComponent(name)}`;
          const times = { from: new Date(FROM).toISOString(), until: new Date(UNTIL).toISOString() };
          await must("PUT", path, { mode, value, reason: "Agreed with support", ...times }, key);
        }
        const names = pricing.features.map(({ name }) => name);
        const single = names.slice(first % names.length).slice(0, SINGLE);
        const moments = [
          [FROM - 1, "granted"],
          [FROM, "effective"],
          [UNTIL - 1, "effective"],
          [UNTIL, "granted"],
        ] as const;
        for (const [moment, like] of moments) {
          api.setNow(new Date(moment));
          expect(await answersOf("overridden", key, single)).toEqual(await answersOf(like, key, single));
        }
        api.setNow(new Date(UNTIL + 5_000));
        for (const [moment, like] of moments) {
          const at = new Date(moment).toISOString();
          expect(await answersOf("overridden", key, single, at)).toEqual(await answersOf(like, key, single, at));
        }
      }),
      { numRuns: RUNS },
    );
  },
  300_000,
);
