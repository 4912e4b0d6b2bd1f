import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import {
  firstDifference,
  parsedAsWire,
  storedAsWire,
  writePricingText,
} from "../../../src/core/space/stored-pricing.ts";
import { objectId, plainDocument, storedPricing, TASKER } from "../../support/space-dump.ts";
import { pricingText } from "../../support/pricings.ts";
import type { SpaceDocument } from "../../../src/core/space/documents.ts";

const SAMPLES = join(import.meta.dirname, "../../../src/samples");
const sample = (name: string) => readFileSync(join(SAMPLES, `${name}.yml`), "utf8");

/** One pricing in each syntax version. */
const SYNTAXES = {
  "1.0": `saasName: Old
version: "1.0"
day: 1
month: 2
year: 2024
currency: USD
hasAnnualPayment: true
features: {board: {type: DOMAIN, valueType: BOOLEAN, defaultValue: true}}
usageLimits: {seats: {type: RESPONSE_DRIVEN, valueType: NUMERIC, defaultValue: 3, linkedFeatures: [board]}}
plans: {BASIC: {monthlyPrice: 10, annualPrice: 96, features: {board: {value: false}}}}
addOns: {more: {monthlyPrice: 2, usageLimitsExtensions: {seats: {value: 1}}}}
`,
  "1.1": `saasName: Old
version: "1.1"
createdAt: "2024-02-01"
currency: USD
features: {board: {type: DOMAIN, valueType: BOOLEAN, defaultValue: true}}
plans: {BASIC: {monthlyPrice: Contact us, features: null}}
`,
  "2.0": `saasName: Old
version: "2.0"
createdAt: 2024-02-01
currency: USD
features: {board: {type: DOMAIN, valueType: BOOLEAN, defaultValue: true, expression: "planContext['features']['board'] && userContext['seats'] < planContext['usageLimits']['seats']"}}
usageLimits: {seats: {type: TIME_DRIVEN, valueType: NUMERIC, defaultValue: 3, linkedFeatures: [board]}}
plans: {BASIC: {price: 10, features: null, usageLimits: {seats: {value: .inf}}}}
`,
  "2.1": `saasName: Old
syntaxVersion: "2.1"
version: "1"
createdAt: "2024-02-01"
currency: USD
features: {board: {type: DOMAIN, valueType: BOOLEAN, defaultValue: true}}
plans: {BASIC: {price: 10, features: null}}
addOns: {more: {price: 1, features: {board: {value: true}}, usageLimits: {}}}
`,
};

const PRICINGS: Record<string, string> = {
  ...SYNTAXES,
  ...Object.fromEntries(["tasker", "beacon", "atlas"].map((name) => [name, sample(name)])),
  ...TASKER,
  "all kinds of add-ons": pricingText(),
  "a negative price and a date with a time": pricingText({ version: "1" })
    .replace('createdAt: "2025-03-01"', "createdAt: 2025-03-01T10:20:30.456Z\nvariables: {a: 3}")
    .replace("PRO: { price: 9", 'PRO: { price: "#a - 5"'),
};

describe.each(Object.entries(PRICINGS))("a pricing that SPACE has stored: %s", (_, text) => {
  const stored = plainDocument(
    storedPricing(text, { id: objectId("any"), service: "Any", organizationId: "o" }),
  ) as SpaceDocument;

  it("is written as a text with the same answer", () => {
    const wire = storedAsWire(stored);
    const written = writePricingText(wire, { saasName: "Service", version: "1_0.0" });
    const read = parsePricing(written, new Date("2030-01-01"));
    expect(read).toMatchObject({ ok: true, pricing: { saasName: "Service", version: "1_0.0", syntaxVersion: "3.0" } });
    if (!read.ok) return;
    expect(firstDifference(wire, parsedAsWire(read.pricing))).toBeUndefined();
    expect(JSON.parse(JSON.stringify(parsedAsWire(read.pricing)))).toEqual(JSON.parse(JSON.stringify(wire)));
  });
});

it("a difference is named with its path, and the order of keys is none", () => {
  expect(firstDifference({ a: 1, b: [1, 2] }, { b: [1, 2], a: 1 })).toBeUndefined();
  expect(firstDifference({ a: { b: [1, 2] } }, { a: { b: [1, 3] } })).toBe("a.b.1");
  expect(firstDifference({ a: 1 }, { a: 1, b: undefined })).toBe("b");
  expect(firstDifference({ a: [1] }, { a: {} })).toBe("a");
});
