import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serializeTokenPayload, tokenFeature } from "../../src/core/pricing-token.ts";
import "../support/property-seed.ts";

type Limits = Record<string, number | boolean | null> | null;
const result = (limit: Limits, used: Record<string, number> | null) => ({ eval: true, limit, used, error: null });

describe("limit and used of one feature are numbers or null:", () => {
  test.each<
    [rule: string, limit: Limits, used: Record<string, number> | null, expected: [number | null, number | null]]
  >([
    ["no involved limit: both null", null, null, [null, null]],
    ["one: its two numbers", { "a-x": 40 }, { "a-x": 3 }, [40, 3]],
    ["several: the one with the least left", { "a-x": 40, "a-y": 5 }, { "a-x": 3, "a-y": 1 }, [5, 1]],
    ["the least left may be below zero", { "a-x": 40, "a-y": 5 }, { "a-x": 50, "a-y": 9 }, [40, 50]],
    ["on a tie the first in the expression", { "a-x": 40, "a-y": 5 }, { "a-x": 36, "a-y": 1 }, [40, 36]],
    ["a boolean limit: null and the number", { "a-x": true }, { "a-x": 3 }, [null, 3]],
    ["a boolean limit beside a number: the number", { "a-x": false, "a-y": 5 }, { "a-x": 3, "a-y": 1 }, [5, 1]],
    ["a number beside a boolean limit: the number", { "a-y": 5, "a-x": false }, { "a-y": 1, "a-x": 3 }, [5, 1]],
    ["two boolean limits: null and the first number", { "a-x": true, "a-y": true }, { "a-x": 3, "a-y": 4 }, [null, 3]],
    ["a limit that the pricing lacks: null and the number", { "a-x": null }, { "a-x": 3 }, [null, 3]],
  ])("%s", (_, limit, used, [expectedLimit, expectedUsed]) => {
    const feature = tokenFeature(result(limit, used));
    expect(JSON.stringify(feature)).toBe(
      JSON.stringify({ eval: true, limit: expectedLimit, used: expectedUsed, error: null }),
    );
  });

  test("an error is carried along", () => {
    const error = { code: "PARSE_ERROR", message: "no" } as const;
    expect(tokenFeature({ eval: false, limit: null, used: null, error })).toEqual({
      eval: false,
      limit: null,
      used: null,
      error,
    });
  });
});

/** Decodes the payload as the published React client does: the browser's atob, without base64url conversion. */
function readLikeABrowser(payload: string): unknown {
  const bytes = new TextEncoder().encode(payload);
  const base64url = Buffer.from(bytes).toString("base64url");
  expect(base64url).not.toMatch(/[-_]/);
  return JSON.parse(atob(base64url));
}

test("whatever names and values a payload has, plain atob and JSON.parse read it back", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: fc.constantFrom("~", ">", "?", "\u007f", "ÿ", "\ud83d", "\u0000", "\\", '"') }),
  );
  fc.assert(
    fc.property(text, text, fc.dictionary(text, fc.oneof(fc.integer(), text)), (sub, name, context) => {
      const payload = {
        features: { [`s-${name}`]: { eval: true, limit: 1, used: 2, error: null } },
        pricingContext: context,
        subscriptionContext: {},
        iat: 1,
        exp: 2,
        sub,
        iss: name,
        aud: "67f0c0ffee0123456789aaaa",
      };
      const serialized = serializeTokenPayload(payload);
      expect(serialized).toMatch(/^[\u0020-\u007d]*$/);
      expect(readLikeABrowser(serialized)).toEqual(JSON.parse(JSON.stringify(payload)));
    }),
    { numRuns: 300 },
  );
});
