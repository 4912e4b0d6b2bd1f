import { describe, expect, it } from "vitest";
import { compilePricing } from "../../../src/core/pricing/compile.ts";
import { evaluateFeature, prepareEvaluation } from "../../../src/core/pricing/evaluate.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../../src/core/pricing/subscription.ts";
import { accept, TODAY } from "./case-file.ts";

const HEAD = `saasName: Acme\nsyntaxVersion: "3.0"\ncreatedAt: "2025-01-01"\ncurrency: USD\n`;
const BOARD = `features:\n  board: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}\n`;

/** Returns this process's processor time, which other processes do not affect. */
function computedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Returns the first problem and the duration of the check. */
function judge(text: string): { message: string | undefined; milliseconds: number; count: number } {
  const start = computedMs();
  const result = parsePricing(text, TODAY);
  const milliseconds = computedMs() - start;
  const problems = result.ok ? [] : result.problems;
  return { message: problems[0]?.message, milliseconds, count: problems.length };
}

const SIZE = 262_144;
const FEATURES = Array.from(
  { length: 1_000 },
  (_, index) => `  f${index}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}\n`,
);
const COMMENT = "# An ordinary pricing has a comment here and there, and names that people can read.\n";
const ORDINARY = `${HEAD}features:\n${FEATURES.join("")}`.padEnd(SIZE, COMMENT);
const TRIES_MS = 20_000;
/** Processor time that a text of 256 KB may take, in times of an ordinary pricing of that size. */
const MOST_TIMES = 25;

/**
 * Judges a text and an ordinary one of the same size in turn. Ends when their ratio is good, or when the time is over.
 * On a shared machine the fastest run of each is its cost.
 */
function costOf(text: string): { times: number; message: string | undefined; count: number } {
  const until = performance.now() + TRIES_MS;
  let own = Number.POSITIVE_INFINITY;
  let ordinary = Number.POSITIVE_INFINITY;
  for (;;) {
    const verdict = judge(text);
    own = Math.min(own, verdict.milliseconds);
    ordinary = Math.min(ordinary, judge(ORDINARY).milliseconds);
    const times = own / ordinary;
    if (times < MOST_TIMES * 0.8 || performance.now() > until)
      return { times, message: verdict.message, count: verdict.count };
  }
}

function billionLaughs(levels: number): string {
  let text = "custom:\n  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (let level = 1; level < levels; level++)
    text += `  a${level}: &a${level} [${Array.from({ length: 9 }, () => `*a${level - 1}`).join(", ")}]\n`;
  return text;
}

function mergeChain(levels: number): string {
  let text = "custom:\n  m0: &m0 {k0: 1}\n";
  for (let level = 1; level < levels; level++) text += `  m${level}: &m${level} {<<: *m${level - 1}, k${level}: 1}\n`;
  return text;
}

describe("hostile documents are decided quickly", () => {
  it.each([
    ["an alias bomb", HEAD + BOARD + billionLaughs(10), "aliases and merge keys repeat more than 10000 values"],
    ["a deep alias bomb in features", `${HEAD}${billionLaughs(30)}features: *a29\n`, "aliases and merge keys repeat"],
    ["a chain of merges", HEAD + BOARD + mergeChain(2_000), "aliases and merge keys repeat more than 10000 values"],
    ["an alias of itself", `${HEAD}${BOARD}custom: &a [*a]\n`, 'recursive alias "a" is not accepted'],
    ["a tag of code", `${HEAD}${BOARD}custom: !!js/function "x"\n`, "unknown tag !!js/function"],
    ["an ordered map by tag", `${HEAD}${BOARD}custom: !!omap [${"{a: 1},".repeat(10_000)}]\n`, "unknown tag !!omap"],
    ["deep lists in a row", "[".repeat(10_000), "nesting deeper than 32 levels is not accepted"],
    ["deep maps in a row", "{a: ".repeat(10_000), "nesting deeper than 32 levels is not accepted"],
    ["deep dashes", "- ".repeat(10_000), "nesting deeper than 32 levels is not accepted"],
    ["deep question marks", "? ".repeat(10_000), "nesting deeper than 32 levels is not accepted"],
    ["deep anchors and tags", "&a !!seq [".repeat(5_000), "nesting deeper than 32 levels is not accepted"],
    ["a null byte", `${HEAD}${BOARD}custom: {a: "\0"}`, "null byte is not allowed in input"],
    ["a lone surrogate", `${HEAD}${BOARD}custom: {a: x\uD800y}`, "the stream contains non-printable characters"],
    ["two megabytes and a bit", "a".repeat(2_200_000), "the document is longer than 2 MB"],
  ])("%s", (_, text, message) => {
    const verdict = costOf(text);
    expect(verdict.message).toContain(message);
    expect(verdict.times).toBeLessThan(MOST_TIMES);
  });

  it("the parser survives deep nesting again and again", () => {
    for (const depth of [100, 1_000, 10_000, 100_000])
      expect(judge("[".repeat(depth) + "]".repeat(depth)).message).toContain("nesting deeper");
  });

  const feature = (index: number): string => `  f${index}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}\n`;
  const many = (count: number, make: (index: number) => string): string =>
    Array.from({ length: count }, (_, index) => make(index)).join("");
  const line = (length: number): string => "x".repeat(length);

  it.each([
    [
      "many features and many plans, multiplied",
      `${HEAD}features:\n${many(2_000, (i) => feature(i + 10))}plans:\n${many(4_000, (i) => `  pl${i}: {price: 1, features: }\n`)}`,
    ],
    [
      "many plans and many add-ons, multiplied",
      `${HEAD}${BOARD}plans:\n${many(3_000, (i) => `  pl${i}: {price: 1, features: }\n`)}addOns:\n${many(2_500, (i) => `  ad${i}: {price: 1, features: {board: {value: true}}}\n`)}`,
    ],
    ["many problems", `${HEAD}features:\n${many(4_000, (i) => `  f${i}: {valueType: X, defaultValue: 1, type: Y}\n`)}`],
    ["one long scalar", `${HEAD}${BOARD}custom: {a: ${line(250_000)}}\n`],
    ["one long quoted scalar", `${HEAD}${BOARD}custom: {a: "${"\\u0041".repeat(40_000)}"}\n`],
    [
      "a long name with many problems",
      `${HEAD}features:\n  ${line(900)}:\n    valueType: ${line(100_000)}\n    defaultValue: ${line(100_000)}\n    type: 1\n`,
    ],
    [
      "a long expression",
      `${HEAD}features:\n  board: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "${"true||".repeat(40_000)}true"}\n`,
    ],
    [
      "many long formulas",
      `${HEAD}variables: {a: 1}\nfeatures: {}\nplans:\n${many(60, (i) => `  pl${i}: {price: "${"#a+".repeat(1_300)}#a", features: }\n`)}`,
    ],
    ["many blank lines", `${HEAD}${"\n".repeat(250_000)}${BOARD}`],
    ["many comments", `${HEAD}${"# x\n".repeat(60_000)}${BOARD}`],
    ["many documents", "--- a\n".repeat(40_000)],
    ["many directives", "%FOO bar\n".repeat(28_000)],
    ["one key a thousand times over", `${HEAD}${BOARD}custom:\n${many(20_000, (i) => `  k${i}: 1\n`)}  k5: 2\n`],
    ["a wide list", `${HEAD}${BOARD}custom: {a: [${"1,".repeat(120_000)}1]}\n`],
    ["many flow pairs", `${HEAD}${BOARD}custom: {a: [${"a: 1, ".repeat(40_000)}]}\n`],
    ["many implicit pairs with lists as keys", `${HEAD}${BOARD}custom: [${"[a]: 1, ".repeat(30_000)}]\n`],
    ["unclosed quotes", `${HEAD}custom: "${line(250_000)}`],
    [
      "nested keys that need looking ahead",
      `${HEAD}custom:\n${many(30, (i) => `${" ".repeat(i + 1)}&a${i} k${i}:\n`)}`,
    ],
    ["many properties on one node", `${HEAD}custom: ${"&a ".repeat(60_000)}x\n`],
    ["many properties on lines of their own", `${HEAD}custom:\n${"  &a\n".repeat(40_000)}  x: 1\n`],
    [
      "many properties before blocks",
      `${HEAD}custom:\n${many(30, (i) => `${" ".repeat(i + 1)}&a${i} !!map\n${" ".repeat(i + 1)}k${i}:\n`)}`,
    ],
    ["a multi-line scalar of many lines", `${HEAD}custom:\n${"  word\n".repeat(35_000)}`],
    [
      "a regular expression as variable",
      `${HEAD}variables: {"(a+)+$": 1, "(": 2}\nfeatures: {}\nplans:\n  one: {price: "#a", features: }\n`,
    ],
    ["a url for backtracking", `${HEAD}url: http://${"a.".repeat(100_000)}\n`],
    ["a timestamp for backtracking", `${HEAD}custom: {a: 2025-01-01 ${" ".repeat(100_000)}x}\n`],
    ["a number for backtracking", `${HEAD}custom: {a: ${"1_".repeat(100_000)}x}\n`],
  ])("%s: costs at most 25 times an ordinary pricing of 256 KB", (_, text) => {
    const { times, count } = costOf(text.slice(0, SIZE));
    expect(times).toBeLessThan(MOST_TIMES);
    expect(count).toBeLessThanOrEqual(1_000);
  });

  it("two megabytes of features are read in reasonable time", () => {
    const text = `${HEAD}features:\n${many(32_000, (i) => feature(i + 10))}`;
    const verdict = judge(text);
    expect(verdict.message).toBeUndefined();
    expect(verdict.milliseconds).toBeLessThan(3_000);
  });
});

describe("hostile names reach no prototype", () => {
  const NAMES = ["__proto__", "constructor", "prototype", "hasOwnProperty", "toString", "valueOf", "__defineGetter__"];

  it.each(NAMES)("%s at every level", (name) => {
    const feature = `{valueType: BOOLEAN, defaultValue: true, type: DOMAIN, polluted: 1, ${name}: {polluted: 1}}`;
    const text = `${HEAD}${name}: {polluted: 1}
tags: [a]
variables: {${name}: 1}
billing: {${name}: 1}
custom: {${name}: {polluted: 1}, a: {${name}: {polluted: 1}}}
features:
  ${name}: ${feature}
usageLimits:
  ${name}: {valueType: NUMERIC, defaultValue: 1, type: NON_RENEWABLE, ${name}: 2}
plans:
  ${name}: {price: 1, features: {${name}: {value: false}}, usageLimits: {${name}: {value: 3}}}
addOns:
  ${name}: {price: 1, features: {${name}: {value: true}}, usageLimitsExtensions: {${name}: {value: 3}}}
`;
    const result = parsePricing(text, TODAY);
    expect(Reflect.get({}, "polluted")).toBeUndefined();
    expect(Object.keys(Object.prototype)).toEqual([]);
    if (["__proto__", "constructor", "prototype"].includes(name)) {
      expect(result.ok).toBe(false);
      return;
    }
    const pricing = accept(text);
    const compiled = compilePricing(JSON.parse(JSON.stringify(pricing)) as typeof pricing);
    const granted = grant(compiled, name, { [name]: 2 });
    expect(granted.features.get(name)).toBe(true);
    expect(granted.usageLimits.get(name)).toBe(9);
  });

  it("inherited names are unknown everywhere", () => {
    const compiled = compilePricing(accept(`${HEAD}${BOARD}plans:\n  PRO: {price: 1, features: }\n`));
    expect(grant(compiled, "toString", { constructor: 1, __proto__: 1 } as Record<string, number>).features.size).toBe(
      0,
    );
    const evaluation = prepareEvaluation([
      { serviceName: "svc", pricing: compiled, grant: grant(compiled, "pro", {}) },
    ]);
    for (const id of ["toString", "svc-toString", "__proto__", "constructor", ""])
      expect(evaluateFeature(evaluation, id, new Map(), { server: false }).error?.code).toBe("FLAG_NOT_FOUND");
  });
});

describe("hostile expressions", () => {
  const evaluateText = (expression: string, sla = "x"): { milliseconds: number; code: string | undefined } => {
    const pricing = accept(
      `${HEAD}${BOARD}  sla: {valueType: TEXT, defaultValue: "${sla}", type: DOMAIN}\nplans:\n  PRO: {price: 1, features: }\n`,
    );
    const features = pricing.features.map((each) => (each.name === "board" ? { ...each, expression } : each));
    const compiled = compilePricing({ ...pricing, features });
    const evaluation = prepareEvaluation([
      { serviceName: "svc", pricing: compiled, grant: grant(compiled, "PRO", {}) },
    ]);
    const run = (): string | undefined =>
      evaluateFeature(evaluation, "svc-board", new Map(), { server: false }).error?.code;
    const code = run();
    let milliseconds = Infinity;
    for (let again = 0; again < 5; again++) {
      const start = computedMs();
      run();
      milliseconds = Math.min(milliseconds, computedMs() - start);
    }
    return { milliseconds, code };
  };

  it.each([
    ["a hundred thousand terms", "true||".repeat(100_000) + "true", "EVALUATION_ERROR"],
    ["ten thousand conditions", "true?".repeat(10_000) + "1", "EVALUATION_ERROR"],
    ["ten thousand parentheses", "(".repeat(2_000) + ")".repeat(2_000), "EVALUATION_ERROR"],
    ["many signs", "!".repeat(4_000) + "true", "EVALUATION_ERROR"],
    ["code that got stored some other way", "pricingContext && process.exit()", "EVALUATION_ERROR"],
    ["the longest sum", `pricingContext.a + ${"1+".repeat(2_000)}1`, "TYPE_MISMATCH"],
    ["the longest chain", `pricingContext.a || ${"0||".repeat(1_300)}true`, undefined],
  ])("%s: at most two milliseconds", (_, expression, code) => {
    const result = evaluateText(expression);
    expect(result.code).toBe(code);
    expect(result.milliseconds).toBeLessThan(2);
  });

  it("a text cannot grow without bound", () => {
    const expression = `${Array.from({ length: 90 }, () => "pricingContext['features']['sla']").join("+")} === ''`;
    expect(evaluateText(expression, "x".repeat(100_000)).code).toBe("EVALUATION_ERROR");
  });
});
