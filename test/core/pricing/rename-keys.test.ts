import * as fc from "fast-check";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { legalKeys } from "../../../src/core/pricing/parse/rename-keys.ts";
import { accept, TODAY } from "./case-file.ts";

const root = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** Returns the text with legal keys. */
function fixed(text: string): string {
  const result = legalKeys(text);
  if (!result.ok) throw new Error(JSON.stringify(result.conflicts));
  return result.text;
}

const BEFORE = `# Kept: the head
saasName: Support
syntaxVersion: "3.0"
version: "1.0"
createdAt: "2025-03-01"
currency: EUR
features:
  24/7support:   # why
    description: "24/7support is not renamed here"
    valueType: BOOLEAN
    defaultValue: false
    type: SUPPORT
    expression: pricingContext['features']['24/7support'] && subscriptionContext['tickets/month'] < pricingContext['usageLimits']['tickets/month']
    serverExpression: 'pricingContext[''features''][''24/7support''] && subscriptionContext["support-tickets/month"] <= 3'
  '99.9UptimeSLA': { valueType: BOOLEAN, defaultValue: true, type: GUARANTEE, expression: >-
      pricingContext['features']['99.9UptimeSLA']
      && pricingContext['features']['24/7support'] }
  "crème": { valueType: TEXT, defaultValue: "24/7support", type: DOMAIN, expression: pricingContext.features.crème == '24/7support' }
usageLimits:
  tickets/month: { valueType: NUMERIC, defaultValue: 1, unit: tickets/month, type: NON_RENEWABLE, trackable: true, linkedFeatures: [24/7support, "99.9UptimeSLA"] }
plans:
  Pay as you go:
    price: 0
    unit: month
    features: &all
      24/7support: { value: true }
      "99.9UptimeSLA": { value: true }
    usageLimits: { tickets/month: { value: 5 } }
  Pro+: { price: 1, unit: month, features: *all }
addOns:
  seats (10): { price: 1, unit: month, availableFor: [Pro+, 'Pay as you go'], features: { 24/7support: { value: true } } }
  more: { price: 1, unit: month, dependsOn: [seats (10)], excludes: [], usageLimits: { tickets/month: { value: 1 } }, usageLimitsExtensions: { tickets/month: { value: 1 } } }
renames:
  Old: Pro+
`;

const AFTER = `# Kept: the head
saasName: Support
syntaxVersion: "3.0"
version: "1.0"
createdAt: "2025-03-01"
currency: EUR
features:
  support247:   # why
    description: "24/7support is not renamed here"
    valueType: BOOLEAN
    defaultValue: false
    type: SUPPORT
    expression: pricingContext['features']['support247'] && subscriptionContext['ticketsMonth'] < pricingContext['usageLimits']['ticketsMonth']
    serverExpression: 'pricingContext[''features''][''support247''] && subscriptionContext["support-ticketsMonth"] <= 3'
  'uptimeSLA99_9': { valueType: BOOLEAN, defaultValue: true, type: GUARANTEE, expression: >-
      pricingContext['features']['uptimeSLA99_9']
      && pricingContext['features']['support247'] }
  "creme": { valueType: TEXT, defaultValue: "24/7support", type: DOMAIN, expression: pricingContext.features.creme == '24/7support' }
usageLimits:
  ticketsMonth: { valueType: NUMERIC, defaultValue: 1, unit: tickets/month, type: NON_RENEWABLE, trackable: true, linkedFeatures: [support247, "uptimeSLA99_9"] }
plans:
  Pay_as_you_go:
    price: 0
    unit: month
    features: &all
      support247: { value: true }
      "uptimeSLA99_9": { value: true }
    usageLimits: { ticketsMonth: { value: 5 } }
  Pro_Plus: { price: 1, unit: month, features: *all }
addOns:
  seats_10: { price: 1, unit: month, availableFor: [Pro_Plus, 'Pay_as_you_go'], features: { support247: { value: true } } }
  more: { price: 1, unit: month, dependsOn: [seats_10], excludes: [], usageLimits: { ticketsMonth: { value: 1 } }, usageLimitsExtensions: { ticketsMonth: { value: 1 } } }
renames:
  Old: Pro_Plus
`;

/** Block scalars stand in block mappings only. */
const block = (text: string): string =>
  text
    .replace(
      ", expression: >-\n",
      " }\n  other:\n    valueType: BOOLEAN\n    defaultValue: true\n    type: DOMAIN\n    expression: >-\n",
    )
    .replace("['24/7support'] }\n", "['24/7support']\n")
    .replace("['support247'] }\n", "['support247']\n");

describe("legal keys for a whole pricing", () => {
  it("are used wherever the old ones were, and nothing else of the text changes", () => {
    expect(fixed(block(BEFORE))).toBe(block(AFTER));
    expect(accept(block(AFTER)).renames).toEqual({ Old: "Pro_Plus" });
  });

  it("come with their places, and a second run changes nothing", () => {
    expect(legalKeys(block(BEFORE))).toMatchObject({
      renames: [
        { map: "features", from: "24/7support", to: "support247", line: 8, column: 3, places: 7 },
        { map: "features", from: "99.9UptimeSLA", to: "uptimeSLA99_9", places: 4 },
        { map: "features", from: "crème", to: "creme", places: 2 },
        { map: "usageLimits", from: "tickets/month", to: "ticketsMonth", places: 7 },
        { map: "plans", from: "Pay as you go", to: "Pay_as_you_go", places: 2 },
        { map: "plans", from: "Pro+", to: "Pro_Plus", places: 3 },
        { map: "addOns", from: "seats (10)", to: "seats_10", places: 2 },
      ],
    });
    expect(legalKeys(block(AFTER))).toEqual({ ok: true, text: block(AFTER), renames: [] });
  });

  it("keep a byte order mark and the line ends of Windows", () => {
    const windows = (text: string) => `\uFEFF${block(text).replaceAll("\n", "\r\n")}`;
    expect(fixed(windows(BEFORE))).toBe(windows(AFTER));
  });

  it("are found in lists of items with names", () => {
    const list = (name: string, plan: string) =>
      `features:\n  - name: "${name}"\n    valueType: BOOLEAN\nplans:\n  - { name: ${plan}, features: { ${name}: { value: true } } }\naddOns: [{ name: more, availableFor: [${plan}] }]\n`;
    expect(fixed(list("24/7support", "Pro+"))).toBe(list("support247", "Pro_Plus"));
  });

  it("are refused where a new name would clash, with the place of each, and nothing is renamed", () => {
    const text = "features:\n  a/b+: {}\n  24/7help: {}\nplans:\n  Pro+: {}\n  pro_plus: {}\n  A B: {}\n  A.B: {}\n";
    expect(legalKeys(text)).toEqual({
      ok: false,
      conflicts: [
        { message: expect.stringContaining('"Pro+" in plans would become "Pro_Plus", which another key has.'), line: 5, column: 3 },
        { message: expect.stringContaining('"A B" in plans would become "A_B"'), line: 7, column: 3 },
        { message: expect.stringContaining('"A.B" in plans would become "A_B"'), line: 8, column: 3 },
      ],
    }); // prettier-ignore
  });

  it("are refused where a name is an alias or has escapes that a rename cannot keep", () => {
    const alias = "custom: &n 24/7help\nfeatures:\n  24/7help: {}\nusageLimits:\n  calls: { linkedFeatures: [*n] }\n";
    expect(legalKeys(alias)).toMatchObject({ ok: false, conflicts: [{ line: 5 }] });
    const literal = `features:\n  a/b+: { expression: "pricingContext['features']['a\\u002fb+']" }\n`;
    expect(legalKeys(literal)).toMatchObject({ ok: false, conflicts: [{ line: 2 }] });
  });

  it("leave what is no readable document as it is", () => {
    for (const text of ["", "a: [", "- 1", "features: 3", "features: { ok: {} }"])
      expect(legalKeys(text)).toEqual({ ok: true, text, renames: [] });
  });

  it.each(["tasker", "beacon", "atlas"])("make of %s with illegal keys the same pricing as with legal ones", (name) => {
    const text = readFileSync(root(`src/samples/${name}.yml`), "utf8");
    const { features, usageLimits, plans, addOns } = accept(text);
    const names = [...features, ...usageLimits, ...plans, ...addOns].map((each) => each.name);
    // Names also stand in descriptions: those of the pricing with illegal keys keep them.
    const renamed = new RegExp(
      `(?<![\\w#-])(?:${names.sort((one, other) => other.length - one.length).join("|")})(?![\\w-])`,
      "g",
    );
    const bare = text.replace(/^\s*(?:description: .*|docUrl: .*|unit: .*|#.*)$/gm, "");
    const illegal = bare.replace(renamed, "$&.x");
    expect(parsePricing(illegal, TODAY).ok).toBe(false);
    const back = JSON.stringify(accept(fixed(illegal)));
    expect(JSON.parse(back.replace(/(?<=[A-Za-z0-9])(?:X|_x)(?=['"])/g, ""))).toEqual(
      JSON.parse(JSON.stringify(accept(bare))),
    );
  });

  it("never fail on a damaged text, and leave no illegal key in one that they change", () => {
    const text = block(BEFORE);
    fc.assert(
      fc.property(fc.nat(text.length), fc.nat(20), fc.string({ maxLength: 8 }), (at, length, inserted) => {
        const result = legalKeys(text.slice(0, at) + inserted + text.slice(at + length));
        if (!result.ok || result.renames.length === 0) return;
        expect(legalKeys(result.text)).toMatchObject({ ok: true, renames: [] });
      }),
      { numRuns: 500 },
    );
  });

  const wild = root("../shared/data/pricings/mailchimp-2024.yml");
  it.skipIf(!existsSync(wild))("make a real pricing acceptable that was refused for its key", () => {
    const text = readFileSync(wild, "utf8");
    const result = legalKeys(text);
    expect(result).toMatchObject({ renames: [{ from: "24/7EmailSupport", to: "emailSupport247" }] });
    expect(parsePricing(fixed(text), TODAY).ok).toBe(true);
  });
});
