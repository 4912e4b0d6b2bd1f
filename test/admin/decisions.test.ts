import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import "../support/console-texts.ts";
import { keyFor, may } from "../../src/admin/access.ts";
import type { ApiKey, Contract, WirePricing } from "../../src/admin/answers.ts";
import { csvOf } from "../../src/admin/csv.ts";
import { differencesBetween } from "../../src/admin/differences.ts";
import { explainAll, verdictOf } from "../../src/admin/explain.ts";
import { compiledFrom, entitlements, modelFrom } from "../../src/admin/pricing.ts";
import { decodeToken } from "../../src/admin/token.ts";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import { evaluateFeature, prepareEvaluation } from "../../src/core/pricing/evaluate.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../src/core/pricing/subscription.ts";
import { pricingToWire } from "../../src/core/pricing/wire.ts";

/** A sample pricing as the server sends it, through JSON. */
function wire(name: string, change: (yaml: string) => string = (yaml) => yaml): WirePricing {
  const yaml = readFileSync(new URL(`../../src/samples/${name}.yml`, import.meta.url), "utf8");
  const parsed = parsePricing(change(yaml), new Date());
  if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
  const place = { organizationId: "63f74bf8eeed64054274b60d", version: parsed.pricing.version };
  return JSON.parse(JSON.stringify(pricingToWire(parsed.pricing, place)));
}

function contract(userId: string, plan: string, addOns: Record<string, number> = {}): Contract {
  const now = "2025-06-15T10:00:00.000Z";
  return {
    id: userId,
    organizationId: "63f74bf8eeed64054274b60d",
    userContact: { userId, username: userId },
    billingPeriod: { startDate: now, endDate: now, autoRenew: true, renewalDays: 30 },
    usageLevels: {},
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: plan },
    subscriptionAddOns: Object.keys(addOns).length === 0 ? {} : { tasker: addOns },
    history: [],
  };
}

describe("a pricing that came over the wire", () => {
  test.each(["tasker", "beacon", "atlas"])("decides as the file of %s does, for each plan and feature", (name) => {
    const yaml = readFileSync(new URL(`../../src/samples/${name}.yml`, import.meta.url), "utf8");
    const parsed = parsePricing(yaml, new Date());
    if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
    const sides = [compilePricing(parsed.pricing), compilePricing(modelFrom(name, wire(name)))];
    let asked = 0;
    for (const plan of parsed.pricing.plans) {
      const [one, other] = sides.map((pricing) =>
        prepareEvaluation([{ serviceName: name, pricing, grant: grant(pricing, plan.name, {}) }]),
      );
      if (one === undefined || other === undefined) throw new Error("two sides");
      const usage = new Map(parsed.pricing.usageLimits.map((limit) => [`${name}-${limit.name}`, 7]));
      for (const { name: feature } of parsed.pricing.features) {
        const id = `${name}-${feature}`;
        expect(evaluateFeature(other, id, usage, { server: true })).toEqual(
          evaluateFeature(one, id, usage, { server: true }),
        );
        asked += 1;
      }
    }
    expect(asked).toBeGreaterThan(10);
  });

  test("says from where each entitlement comes", () => {
    const given = entitlements(compiledFrom("tasker", wire("tasker")), { plan: "pro", addOns: { extraTasks: 2 } });
    const of = (name: string) => given.find((each) => each.name === name);
    expect(of("darkMode")).toMatchObject({ value: true, from: { source: "plan", names: ["PRO"] } });
    expect(of("board")).toMatchObject({ value: true, from: { source: "default", names: [] } });
    expect(of("maxTasks")).toMatchObject({ value: 400, from: { source: "addOn", names: ["extraTasks"] } });
  });
});

test("the console classifies gains and losses as the server does, losses first", () => {
  const pricing = compiledFrom("tasker", wire("tasker"));
  const of = (plan: string) => ({ pricing, choice: { plan, addOns: {} } });
  const effects = (...[before, after]: Parameters<typeof differencesBetween>) =>
    differencesBetween(before, after).map(({ name, effect }) => `${name} ${effect}`);
  expect(effects(of("BUSINESS"), of("PRO")).toSorted()).toEqual([
    "board less",
    "export less",
    "maxTasks less",
    "sla different",
  ]);
  expect(effects(of("BUSINESS"), of("PRO")).at(-1)).toBe("sla different");
  expect(new Set(effects(of("FREE"), of("PRO")))).toEqual(new Set(["board more", "darkMode more", "maxTasks more"]));
  expect(effects(of("PRO"), of("PRO"))).toEqual([]);
  expect(effects(undefined, of("PRO"))).toContain("darkMode more");
  expect(effects(of("PRO"), undefined)).toContain("darkMode less");
});

test("the explanation of a feature that is off names the missing feature or used-up limit, with values in the expression", () => {
  const pricing = compiledFrom("tasker", wire("tasker"));
  const subscription = {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "FREE" },
    subscriptionAddOns: {},
  };
  const of = (used: number) =>
    new Map(
      explainAll(subscription, () => pricing, new Map([["tasker-maxTasks", used]]), { server: false }).map((each) => [
        each.name,
        each,
      ]),
    );
  expect(of(20).get("board")).toMatchObject({
    filledIn: "true && 20 < 20",
    reasons: [{ kind: "atLimit", limit: "maxTasks", used: 20, allowed: 20 }],
    result: { eval: false },
  });
  expect(of(19).get("board")).toMatchObject({ result: { eval: true } });
  const denied = of(0).get("export");
  expect(denied).toMatchObject({ reasons: [{ kind: "notGranted", name: "export" }] });
  expect(denied === undefined ? "" : verdictOf(denied)).toBe("No. FREE does not include Export.");
  const full = of(20).get("board");
  expect(full === undefined ? "" : verdictOf(full)).toBe("No. Max tasks is used up: 20 of 20.");
});

test("the console decides permissions as the server does, and programs' calls use the key of least scope", () => {
  const who = (inOrganization: "EVALUATOR" | "MANAGER" | undefined) => ({
    username: "eva",
    role: "USER" as const,
    inOrganization,
  });
  expect(may(who("EVALUATOR"), "GET", "/organizations/x/contracts")).toBe(true);
  expect(may(who("EVALUATOR"), "POST", "/organizations/x/contracts")).toBe(false);
  expect(may(who("MANAGER"), "DELETE", "/organizations/x/contracts/y")).toBe(false);
  expect(may(who(undefined), "GET", "/organizations/x/contracts")).toBe(false);
  expect(may({ ...who(undefined), role: "ADMIN" }, "GET", "/organizations/x/contracts")).toBe(true);
  expect(may(who("MANAGER"), "GET", "/no/such/path")).toBe(false);
  const keys: ApiKey[] = [
    { id: "1", key: "org_all", scope: "ALL" },
    { id: "2", key: "org_masked*****", scope: "EVALUATION" },
    { id: "3", key: "org_management", scope: "MANAGEMENT" },
  ];
  expect(keyFor(keys, "POST", "/features/ada")?.id).toBe("3");
  expect(keyFor(keys, "DELETE", "/contracts/ada")?.id).toBe("1");
  expect(keyFor(keys.slice(1, 2), "POST", "/features/ada")).toBeUndefined();
});

test("the CSV export defuses formulas and quotes cells where needed", () => {
  const evil = { ...contract('=HYPERLINK("x")', "PRO"), groupId: "a,b" };
  const [, line = ""] = csvOf([evil]).split("\r\n");
  expect(line.startsWith('"\'=HYPERLINK(""x"")",')).toBe(true);
  expect(line).toContain('"a,b"');
});

test("the console decodes a pricing token and rejects other text", () => {
  const payload = { features: {}, pricingContext: {}, subscriptionContext: {}, iat: 1, exp: 2, sub: "añejo" };
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const [hs256, middle] = [encode({ alg: "HS256" }), encode(payload)];
  expect(decodeToken(` ${hs256}.${middle}.y `)).toEqual({ algorithm: "HS256", kid: undefined, payload });
  expect(decodeToken(`${encode({ alg: "EdDSA", kid: "k" })}.${middle}.`)).toMatchObject({
    algorithm: "EdDSA",
    kid: "k",
  });
  for (const none of ["", "x.y", `x.${middle}.y`, `${encode({})}.${middle}.y`, `${hs256}.${encode({})}.y`, "x.%%%.y"]) {
    expect(decodeToken(none), none).toBeUndefined();
  }
});
