import { describe, expect, it } from "vitest";
import { compilePricing, findAddOn, findPlan, trackedLimits } from "../../../src/core/pricing/compile.ts";
import {
  checkExpectedConsumption,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  prepareEvaluation,
} from "../../../src/core/pricing/evaluate.ts";
import { contexts } from "../../../src/core/pricing/contexts.ts";
import { involvedLimits } from "../../../src/core/pricing/involved-limits.ts";
import type { ContractedService } from "../../../src/core/pricing/evaluate.ts";
import { grant } from "../../../src/core/pricing/subscription.ts";
import { accept } from "./case-file.ts";

const MODE = { server: false };

function service(
  serviceName: string,
  features: string,
  limits = "",
  plan: string | undefined = "PRO",
): ContractedService {
  const pricing = compilePricing(
    accept(`saasName: ${serviceName}\nsyntaxVersion: "3.0"\ncreatedAt: "2025-01-01"\ncurrency: USD\nfeatures:\n${features}
usageLimits:\n${limits}\nplans:\n  PRO: {price: 1, features: }\n`),
  );
  return { serviceName: serviceName.toLowerCase(), pricing, grant: grant(pricing, plan, {}) };
}

const feature = (name: string, expression: string, value = "true"): string =>
  `  ${name}: {valueType: BOOLEAN, defaultValue: ${value}, type: DOMAIN, expression: "${expression}"}\n`;
const limit = (name: string, value: number, trackable = true): string =>
  `  ${name}: {valueType: NUMERIC, defaultValue: ${value}, type: NON_RENEWABLE, trackable: ${String(trackable)}}\n`;
const below = (name: string): string => `subscriptionContext['${name}'] < pricingContext['usageLimits']['${name}']`;

describe("several services in one contract", () => {
  const tasker = service("Tasker", feature("board", below("tasks")), limit("tasks", 5));
  const mailer = service(
    "Mailer",
    feature("send", below("mails")) + feature("board", "pricingContext['features']['send']"),
    limit("mails", 3),
  );
  const evaluation = prepareEvaluation([mailer, tasker]);
  const usage = new Map([
    ["tasker-tasks", 1],
    ["mailer-mails", 3],
  ]);

  it("are answered in the order of the contract, features as declared", () => {
    expect(featureIds(evaluation, MODE)).toEqual(["mailer-send", "mailer-board", "tasker-board"]);
    expect(JSON.stringify(contexts(evaluation, usage))).toBe(
      '{"pricingContext":{"features":{"mailer-send":true,"mailer-board":true,"tasker-board":true},"usageLimits":{"mailer-mails":3,"tasker-tasks":5}},"subscriptionContext":{"mailer-mails":3,"tasker-tasks":1}}',
    );
  });

  it("do not see each other through short names", () => {
    expect(evaluateFeature(evaluation, "tasker-board", usage, MODE)).toEqual({
      eval: true,
      limit: { "tasker-tasks": 5 },
      used: { "tasker-tasks": 1 },
      error: null,
    });
    expect(evaluateBoolean(evaluation, "mailer-send", usage, MODE)).toBe(false);
  });

  it("see each other through identifiers in full", () => {
    const peeking = service(
      "Peek",
      feature(
        "other",
        "pricingContext.features['tasker-board'] === true && subscriptionContext[ 'tasker-tasks' ] === 1",
      ),
    );
    const both = prepareEvaluation([tasker, peeking]);
    expect(evaluateFeature(both, "peek-other", usage, MODE)).toEqual({
      eval: true,
      limit: null,
      used: null,
      error: null,
    });
  });

  it("serve any number of usages one after another", () => {
    for (const tasks of [0, 4, 5, 3]) {
      const each = new Map([["tasker-tasks", tasks]]);
      expect(evaluateFeature(evaluation, "tasker-board", each, MODE)).toMatchObject({
        eval: tasks < 5,
        used: { "tasker-tasks": tasks },
      });
      expect(evaluateBoolean(evaluation, "tasker-board", each, MODE)).toBe(tasks < 5);
    }
  });
});

describe("identifiers that coincide", () => {
  // `cal` with `app-board` and `cal-app` with `board` are both `cal-app-board`.
  const first = service(
    "cal",
    feature("app-board", "pricingContext['features']['app-board']") + feature("own", below("app-seats")),
    limit("app-seats", 5),
  );
  const second = service(
    "cal-app",
    feature("board", `pricingContext['features']['board'] || ${below("seats")}`, "false"),
    limit("seats", 2),
  );
  const usage = new Map([["cal-app-seats", 3]]);

  it("belong to the service contracted later", () => {
    const evaluation = prepareEvaluation([first, second]);
    expect(featureIds(evaluation, MODE)).toEqual(["cal-app-board", "cal-own"]);
    expect(evaluateFeature(evaluation, "cal-app-board", usage, MODE)).toMatchObject({
      eval: false,
      limit: { "cal-app-seats": 2 },
    });
    expect(evaluateFeature(evaluation, "cal-own", usage, MODE)).toMatchObject({
      eval: false,
      limit: { "cal-app-seats": 2 },
    });
    expect(involvedLimits(evaluation, "cal-own", MODE)).toEqual([
      { id: "cal-app-seats", serviceName: "cal-app", limitName: "seats" },
    ]);
    expect(contexts(evaluation, usage).pricingContext).toEqual({
      features: { "cal-app-board": false, "cal-own": true },
      usageLimits: { "cal-app-seats": 2 },
    });
  });

  it("belong to the other one when the contract turns round", () => {
    const evaluation = prepareEvaluation([second, first]);
    expect(evaluateFeature(evaluation, "cal-app-board", usage, MODE)).toMatchObject({ eval: true, limit: null });
    expect(evaluateFeature(evaluation, "cal-own", usage, MODE)).toMatchObject({
      eval: true,
      limit: { "cal-app-seats": 5 },
    });
    expect(involvedLimits(evaluation, "cal-own", MODE)).toEqual([
      { id: "cal-app-seats", serviceName: "cal", limitName: "app-seats" },
    ]);
  });

  it("mean the counted limit where only one of them is counted", () => {
    const uncounted = service("cal-app", feature("board", below("seats")), limit("seats", 2, false));
    expect(involvedLimits(prepareEvaluation([first, uncounted]), "cal-own", MODE)).toEqual([
      { id: "cal-app-seats", serviceName: "cal", limitName: "app-seats" },
    ]);
  });
});

describe("a service without plan", () => {
  const bare = service("Tasker", feature("board", below("tasks")), limit("tasks", 5), undefined);
  const evaluation = prepareEvaluation([{ ...bare, grant: grant(bare.pricing, undefined, {}) }]);

  it("has its features asked and not found", () => {
    expect(featureIds(evaluation, MODE)).toEqual(["tasker-board"]);
    expect(evaluateFeature(evaluation, "tasker-board", new Map([["tasker-tasks", 0]]), MODE).error?.code).toBe(
      "FLAG_NOT_FOUND",
    );
    expect(evaluateBoolean(evaluation, "tasker-board", new Map([["tasker-tasks", 0]]), MODE)).toBe(false);
  });

  it("has what add-ons bring in the order of the pricing, whatever theirs is", () => {
    const addOns = `addOns:
  one: {price: 1, features: {abe: {value: true}, zed: {value: true}}, usageLimitsExtensions: {bbb: {value: 1}}}
  two: {price: 1, usageLimits: {aaa: {value: 7}}}`;
    const extras = service(
      "Extras",
      feature("zed", "true", "false") + feature("abe", "true", "false"),
      limit("aaa", 1) + limit("bbb", 2) + addOns,
    );
    const granted = { ...extras, grant: grant(extras.pricing, undefined, { one: 1, two: 1 }) };
    const { pricingContext } = contexts(prepareEvaluation([granted]), new Map());
    expect(JSON.stringify(pricingContext)).toBe(
      '{"features":{"extras-zed":true,"extras-abe":true},"usageLimits":{"extras-aaa":7,"extras-bbb":3}}',
    );
  });

  it("shows usage all the same", () => {
    expect(
      contexts(
        evaluation,
        new Map([
          ["tasker-tasks", 2],
          ["gone-limit", 1],
        ]),
      ),
    ).toEqual({
      pricingContext: { features: {}, usageLimits: {} },
      subscriptionContext: { "tasker-tasks": 2, "gone-limit": 1 },
    });
  });
});

describe("a limit that no add-on or plan brings", () => {
  it("is null in the result", () => {
    const { pricing } = service("Tasker", feature("board", "subscriptionContext['tasks'] < 5"), limit("tasks", 5));
    const none = { features: new Map([["board", true]]), usageLimits: new Map<string, number>() };
    const evaluation = prepareEvaluation([{ serviceName: "tasker", pricing, grant: none }]);
    expect(evaluateFeature(evaluation, "tasker-board", new Map([["tasker-tasks", 1]]), MODE)).toEqual({
      eval: true,
      limit: { "tasker-tasks": null },
      used: { "tasker-tasks": 1 },
      error: null,
    });
  });
});

describe("expected consumption", () => {
  const evaluation = prepareEvaluation([service("Tasker", feature("board", below("tasks")), limit("tasks", 5))]);

  it("is not asked for features that are not there", () => {
    expect(checkExpectedConsumption(evaluation, "tasker-none", { a: 1 }, MODE)).toBeUndefined();
  });

  it("is not satisfied by inherited names", () => {
    expect(checkExpectedConsumption(evaluation, "tasker-board", { toString: 1 }, MODE)?.error?.code).toBe(
      "INVALID_EXPECTED_CONSUMPTION",
    );
  });
});

describe("look-ups in a compiled pricing", () => {
  const pricing = compilePricing(
    accept(`saasName: Acme
syntaxVersion: "3.0"
createdAt: "2025-01-01"
currency: USD
features:
  board: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}
usageLimits:
  monthly: {valueType: NUMERIC, defaultValue: 1, type: RENEWABLE}
  daily: {valueType: NUMERIC, defaultValue: 1, type: RENEWABLE, period: {value: 2, unit: DAY}}
  counted: {valueType: NUMERIC, defaultValue: 1, type: NON_RENEWABLE, trackable: true}
  timed: {valueType: NUMERIC, defaultValue: 1, type: NON_RENEWABLE, period: {value: 1, unit: DAY}}
  silent: {valueType: NUMERIC, defaultValue: 1, type: NON_RENEWABLE}
plans:
  Pro: {price: 1, features: }
addOns:
  Extra: {price: 1, features: {board: {value: true}}}
`),
  );

  it("find plans and add-ons ignoring case", () => {
    expect(findPlan(pricing, "PRO")?.name).toBe("Pro");
    expect(findAddOn(pricing, "extra")?.name).toBe("Extra");
    expect(findPlan(pricing, "none")).toBeUndefined();
  });

  it("know which limits a contract counts, and which of them start again", () => {
    expect(trackedLimits(pricing)).toEqual([
      { name: "monthly", period: { value: 1, unit: "MONTH" } },
      { name: "daily", period: { value: 2, unit: "DAY" } },
      { name: "counted" },
      { name: "timed" },
    ]);
  });
});
