import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { compilePricing, trackedLimits } from "../../../src/core/pricing/compile.ts";
import { evaluateFeature, featureIds, prepareEvaluation } from "../../../src/core/pricing/evaluate.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../../src/core/pricing/subscription.ts";
import { pricingToWire } from "../../../src/core/pricing/wire.ts";
import { accept, TODAY } from "./case-file.ts";

const root = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const read = (path: string): string => readFileSync(root(path), "utf8");

/**
 * Columns: file, saasName, version, features, limits, renewable limits, plans, add-ons; from the collection's own list.
 */
const WILD = [
  ["planable-2019", "Planable", "2019-5-23", 5, 4, 0, 3, 0],
  ["overleaf-2025", "Overleaf - Individual", "2025", 16, 1, 0, 3, 0],
  ["trello-2021", "Trello", "2021-11-28", 44, 5, 1, 4, 1],
  ["jira-2023", "Jira", "2023-11-16", 46, 5, 2, 4, 1],
  ["zapier-2024", "Zapier", "2024-7-2", 51, 3, 1, 4, 4],
  ["box-2024", "Box", "2024-7-16", 50, 9, 2, 5, 0],
  ["openphone-2025", "OpenPhone", "2025", 52, 5, 0, 4, 9],
  ["notion-2025", "Notion", "2025", 63, 8, 0, 4, 3],
  ["databox-2025", "Databox", "2025", 65, 8, 2, 5, 8],
  ["clickup-2022", "ClickUp", "2022-11-27", 121, 35, 2, 5, 1],
  ["webflow-2025", "Webflow", "2025", 101, 21, 1, 14, 6],
] as const;
const WILD_FOLDER = "../shared/data/pricings";

describe("our own samples", () => {
  it.each([
    ["tasker", 4, 1, 3, 1],
    ["scribe", 2, 1, 2, 0],
    ["depot", 2, 2, 2, 0],
    ["beacon", 25, 9, 4, 4],
    ["atlas", 136, 49, 10, 13],
  ] as const)("%s is accepted whole, and every expression of every plan has an answer", (name, ...counts) => {
    const pricing = accept(read(`src/samples/${name}.yml`));
    const { features, usageLimits, plans, addOns } = pricing;
    expect([features, usageLimits, plans, addOns].map((each) => each.length)).toEqual(counts);
    const compiled = compilePricing(pricing);
    const usage = new Map(trackedLimits(compiled).map((limit) => [`${name}-${limit.name}`, 0]));
    for (const plan of plans) {
      const granted = grant(compiled, plan.name, {});
      const evaluation = prepareEvaluation([{ serviceName: name, pricing: compiled, grant: granted }]);
      for (const server of [false, true])
        for (const id of featureIds(evaluation, { server }))
          expect(evaluateFeature(evaluation, id, usage, { server }).error).toBeNull();
    }
  });
});

describe("pricings of real services", () => {
  if (!existsSync(root(WILD_FOLDER))) {
    console.log(`${WILD_FOLDER} is not here: only our own samples were read`);
    it("is skipped without the collection", () => undefined);
    return;
  }

  it.each(WILD)("%s is accepted", (file, saasName, version, ...counts) => {
    const pricing = accept(read(`${WILD_FOLDER}/${file}.yml`));
    expect(pricing.saasName).toBe(saasName);
    expect(pricing.version).toBe(version);
    const renewable = pricing.usageLimits.filter((limit) => limit.type === "RENEWABLE");
    const { features, usageLimits, plans, addOns } = pricing;
    expect([features, usageLimits, renewable, plans, addOns].map((each) => each.length)).toEqual(counts);
    compilePricing(pricing);
    for (const plan of plans) {
      expect(Object.keys(plan.features)).toHaveLength(features.length);
      expect(Object.keys(plan.usageLimits)).toHaveLength(usageLimits.length);
    }
  });

  it("mailchimp is refused for its key", () => {
    const result = parsePricing(read(`${WILD_FOLDER}/mailchimp-2024.yml`), TODAY);
    expect(result).toMatchObject({
      ok: false,
      problems: [
        {
          kind: "key",
          message:
            'Invalid key in features: "24/7EmailSupport". Keys must not contain "." or other invalid characters.',
          path: "features.24/7EmailSupport",
        },
      ],
    });
  });

  it("values reach the wire: clamped numbers, digit separators, restricted plans, words as prices", () => {
    const wire = (file: string): Record<string, unknown> =>
      JSON.parse(
        JSON.stringify(
          pricingToWire(accept(read(`${WILD_FOLDER}/${file}.yml`)), { organizationId: "o", version: "v" }),
        ),
      ) as Record<string, unknown>;
    expect(wire("planable-2019")).toMatchObject({
      plans: { ENTERPRISE: { price: "Contact Us", usageLimits: { usersLimit: 100_000_000 } } },
      usageLimits: { postsLimit: { defaultValue: 100_000_000, linkedFeatures: ["posts"], type: "NON_RENEWABLE" } },
    });
    expect(wire("openphone-2025")).toMatchObject({
      addOns: {
        internationalCallingAndMessaging: { price: "See Rates" },
        extraSmsViaApi: {
          dependsOn: ["smsViaApi"],
          usageLimitsExtensions: { smsViaApiAddOnLimit: 1 },
          subscriptionConstraints: { minQuantity: 1, maxQuantity: null, quantityStep: 1 },
        },
        useCanadaMessagingFee: { usageLimits: { useCanadaMessagingFeePayed: true } },
      },
    });
  });
});
