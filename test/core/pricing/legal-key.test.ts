import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isLegalKey, KEY_MAPS, legalKey } from "../../../src/core/pricing/parse/legal-key.ts";

describe("legal keys", () => {
  it.each([
    ["features", "24/7support", "support247"],
    ["features", "24/7EmailSupport", "emailSupport247"],
    ["features", "99.9UptimeSLA", "uptimeSLA99_9"],
    ["features", "SSL/TLSEncryption", "SSL_TLSEncryption"],
    ["features", "networkAccess&CompliancePolicies", "networkAccessAndCompliancePolicies"],
    ["features", "import/export", "importExport"],
    ["features", "a/b", "featureAB"],
    ["features", "50%off", "percentOff50"],
    ["features", "crème brûlée", "cremeBrulee"],
    ["features", "__proto__", "proto"],
    ["features", "constructor", "constructorFeature"],
    ["features", "機能", "feature"],
    ["usageLimits", "1.5", "limit1_5"],
    ["usageLimits", "10,000 contacts", "contacts10_000"],
    ["plans", "Pay as you go", "Pay_as_you_go"],
    ["plans", "PRO+", "PRO_PLUS"],
    ["plans", "Pro+", "Pro_Plus"],
    ["plans", "2.0", "plan2_0"],
    ["addOns", "extra seats (10)", "extra_seats_10"],
  ] as const)("in %s, %s becomes %s", (map, name, key) => {
    expect(legalKey(map, name)).toBe(key);
  });

  it("any text becomes a legal key that starts with a letter", () => {
    fc.assert(
      fc.property(fc.constantFrom(...KEY_MAPS), fc.string({ unit: "binary", maxLength: 600 }), (map, name) => {
        const key = legalKey(map, name);
        expect(isLegalKey(key)).toBe(true);
        expect(key).toMatch(/^[A-Za-z]/);
        expect(key.length).toBeGreaterThanOrEqual(2);
        expect(key.length).toBeLessThanOrEqual(255);
      }),
    );
  });
});
