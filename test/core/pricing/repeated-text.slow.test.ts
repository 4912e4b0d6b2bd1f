import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { compilePricing } from "../../../src/core/pricing/compile.ts";
import { evaluateFeature, prepareEvaluation } from "../../../src/core/pricing/evaluate.ts";
import { excerpt } from "../../../src/core/pricing/excerpt.ts";
import { jsonBytes, MAX_MODEL_BYTES } from "../../../src/core/pricing/parse/size.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { grant } from "../../../src/core/pricing/subscription.ts";
import type * as hostile from "../../support/hostile-pricings.ts";
import { repeatedByPlans } from "../../support/hostile-pricings.ts";
import { accept, TODAY } from "./case-file.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
/** More than the process needs with a text of two megabytes; far less than these pricings once took. */
const MAX_PEAK_MB = 256;
/** A process that computes for longer is killed, which fails the test. */
const TIMEOUT_MS = 25_000;
const MAX_PROCESSOR_MS = 2_500;

interface Verdict {
  processorMs: number;
  peakMB: number;
  messages: string[];
  paths: string[];
}

/** Result for a hostile pricing in a process with little memory. */
async function judge(attack: keyof typeof hostile): Promise<Verdict> {
  const child = ["--import", "tsx", "--expose-gc", "--max-old-space-size=256", "test/core/pricing/judge.ts", attack];
  const { stdout } = await promisify(execFile)(process.execPath, child, {
    cwd: ROOT,
    timeout: TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
  return JSON.parse(stdout) as Verdict;
}

describe("a text that a pricing repeats is refused before it is repeated", () => {
  it.each<[string, keyof typeof hostile, string]>([
    ["aliases of a long text", "repeatedByAliases", "aliases and merge keys repeat more than 10000 values"],
    ["aliases of a long text that is a mistake", "repeatedInProblems", "aliases and merge keys repeat more than 10000"],
    ["a long default in every plan", "repeatedByPlans", "whose value has 1600000 characters"],
    [
      "long names in every plan",
      "namesRepeatedByPlans",
      "The pricing is too large: with the values of every plan it takes more than 8 MB, most of them in plans",
    ],
    ["a long name above many mistakes", "mistakesBelowLongName", "Feature x0 is not defined in the global features."],
    ["many tags and many features", "unknownTags", "Error validating tag: Feature tag 'u100000' must be one of"],
    ["a long expression of unclosed quotes", "unclosedQuotes", "the text is longer than 4096 characters"],
    [
      "many expressions of unclosed quotes",
      "unclosedQuotesInEach",
      "The expression of a feature is invalid: unexpected '",
    ],
    ["comparisons of long texts", "longComparisons", "a text longer than 65536 characters cannot be compared"],
    ["a concatenation longer than any string", "longConcatenation", "a text longer than 65536 characters was built"],
    ["limits that every answer repeats", "usageReadTooOften", "The expressions of the features read usage too often"],
    ["an alias with a long name", "longAlias", 'unidentified alias "xxx'],
    ["a tag with a long name", "longTag", "unknown tag !xxx"],
  ])(
    "%s",
    async (_, attack, message) => {
      const verdict = await judge(attack);
      expect(verdict.messages[0]).toContain(message);
      expect(verdict.peakMB).toBeLessThan(MAX_PEAK_MB);
      expect(verdict.processorMs).toBeLessThan(MAX_PROCESSOR_MS);
      expect([...verdict.messages, ...verdict.paths].join("").length).toBeLessThan(300 * 1024);
      expect(Math.max(...verdict.messages.map(({ length }) => length))).toBeLessThanOrEqual(4_001);
    },
    60_000,
  );

  it("the refusal names the feature and where it stands", () => {
    const result = parsePricing(repeatedByPlans({ length: 100_000, plans: 150 }), TODAY);
    expect(result.ok ? [] : result.problems).toMatchObject([{ path: "features.note", line: 7, column: 3 }]);
  });

  it("a long text in a few plans is taken", () => {
    const pricing = accept(repeatedByPlans({ length: 100_000, plans: 20 }));
    expect(JSON.stringify(pricing).length).toBeLessThan(MAX_MODEL_BYTES);
  });
});

describe("a text that a feature holds", () => {
  const note = (expression: string): string =>
    `saasName: Acme\nsyntaxVersion: "3.0"\ncreatedAt: "2025-01-01"\ncurrency: USD\nfeatures:\n  note: {valueType: TEXT, type: DOMAIN, defaultValue: ${"x".repeat(100_000)}}\n  same: {valueType: TEXT, type: DOMAIN, defaultValue: ${"x".repeat(100_000)}}\n  read: {valueType: BOOLEAN, type: DOMAIN, defaultValue: true, expression: "${expression}"}\nplans:\n  PRO: {price: 1, features: }\n`;
  const read = (expression: string) => {
    const pricing = compilePricing(accept(note(expression)));
    const evaluation = prepareEvaluation([{ serviceName: "acme", pricing, grant: grant(pricing, "PRO", {}) }]);
    return evaluateFeature(evaluation, "acme-read", new Map(), { server: false });
  };

  it("is quoted in part by the message about a feature that is no boolean", () => {
    const { error } = read("pricingContext['features']['note']");
    expect(error?.code).toBe("TYPE_MISMATCH");
    expect(error?.message.length).toBeLessThan(1_200);
    expect(error?.message).toContain("xxx… of type string");
  });

  it.each(["==", "===", "!=", "!==", "<", ">=", "-"])("is not read through by %s", (operator) => {
    const { error } = read(`pricingContext['features']['note'] ${operator} pricingContext['features']['same']`);
    expect(error).toMatchObject({
      code: "EVALUATION_ERROR",
      message: "Error evaluating feature acme-read: a text longer than 65536 characters cannot be compared",
    });
  });

  it("is compared for equality with a short one as ever", () => {
    expect(read("pricingContext['features']['note'] != 'x'")).toMatchObject({ eval: true, error: null });
  });
});

describe("the size of a model", () => {
  it.each(["plain", 'quo"te\\', "\b\t\n\u000b\f\r\u0001", "é", "語", "😀", ""])("counts %j as JSON does", (text) => {
    const data = { [text]: [text, 1, -0.5, true, null, { text }], absent: undefined };
    const bytes = new TextEncoder().encode(JSON.stringify(data)).length;
    // Counts a comma after the last item too, so the result is an upper bound.
    expect(jsonBytes(data, 1_000)).toBeGreaterThanOrEqual(bytes - 3);
    expect(jsonBytes(data, 1_000)).toBeLessThanOrEqual(bytes + 5);
  });

  it("ends counting where it is too large", () => {
    const list: object[] = [];
    for (let n = 0; n < 25; n++) list.push(list.slice());
    expect(jsonBytes(list, 1_000)).toBeLessThan(3_000);
  });
});

describe("an excerpt", () => {
  it("keeps nothing alive of the text it was cut from", () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    gc();
    const before = process.memoryUsage().heapUsed;
    const excerpts = Array.from({ length: 100 }, (_, i) => excerpt(`${i}abcdefgh`.repeat(100_000), 4_000));
    gc();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000);
    expect(excerpts).toHaveLength(100);
  });

  it.each([
    ["abcdef", 3, "abc…"],
    ["abc", 3, "abc"],
    ["", 3, ""],
    ["ab😀d", 3, "ab…"],
    ["a😀d", 3, "a😀…"],
  ])("of %j in %i characters is %j", (text, length, expected) => {
    expect(excerpt(text, length)).toBe(expected);
  });
});
