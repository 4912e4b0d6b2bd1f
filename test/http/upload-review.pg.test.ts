import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { tasker as anyTasker } from "../support/contracting.ts";
import { eventsDuring } from "../support/invariants.ts";
import { FAMILIES, type FamilyCalls, familyCalls } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

/* Uploads answer with warnings and with the result of the pricing's expectations. */

const sample = (name: string) => readFileSync(new URL(`../../src/samples/${name}`, import.meta.url), "utf8");
const PRICING = sample("tasker.yml");
const EXPECTATIONS = sample("tasker.expectations.yml");
/** PRO with a hundred tasks fewer, which breaks three expectations. */
const LESS = PRICING.replace("value: 200", "value: 100");

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

function form(pricing: string, expectations: string | Blob): FormData {
  const body = yamlUpload(pricing);
  if (typeof expectations === "string") body.append("expectations", expectations);
  else body.append("expectations", expectations, "expectations.yml");
  return body;
}
const named = (text: string, name: string) => text.replace("saasName: Tasker", `saasName: ${name}`);
const file = (text: string) => new Blob([text], { type: "application/yaml" });

describe.each(FAMILIES)("an upload to %s", (family) => {
  let to: FamilyCalls;
  let name: string;
  beforeAll(() => {
    to = familyCalls(api, family);
    name = `Tasker ${FAMILIES.indexOf(family)}`;
  });

  it("that meets its expectations is taken, and told how much they cover", async () => {
    const made = await to.call("POST", "", form(named(PRICING, name), file(EXPECTATIONS)));
    expect(made).toMatchObject({
      status: 201,
      body: {
        name,
        warnings: [],
        expectations: { met: 14, coverage: { points: 27, covered: 27, percent: 100, missing: [] } },
      },
    });
    expect(made.body).not.toHaveProperty("warningsComplete");
  });

  it("that does not is refused with each case that fails, and leaves nothing behind", async () => {
    const second = named(LESS, name).replace('version: "1.0.0"', 'version: "2.0.0"');
    const { result, events } = await eventsDuring(api.database, () =>
      to.call("POST", `/${encodeURIComponent(name)}/pricings`, form(second, file(EXPECTATIONS))),
    );
    expect(events).toEqual([]);
    expect(result.status).toBe(400);
    expect(result.body["error"]).toMatch(/^Invalid request: \d of 14 expectations are not met\. PRO may stretch/);
    expect(result.body["problems"]).toContainEqual({
      message: expect.stringMatching(/^on the server PRO gets its last task too: board: expected true, is false/),
      path: "expectations.7",
      line: expect.any(Number),
      column: 1,
    });
    const shown = await to.call("GET", `/${encodeURIComponent(name)}`);
    expect(Object.keys(shown.body["activePricings"] as object)).toEqual(["1.0.0"]);
  });

  it("is not refused for warnings, which come with their lines", async () => {
    const dead = anyTasker({ name, version: "3.0.0" }).replace(
      "  silent:",
      `  never: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['never']" }\n  silent:`,
    );
    const made = await to.call("POST", `/${encodeURIComponent(name)}/pricings`, yamlUpload(dead));
    expect(made.status).toBe(201);
    const line = dead.split("\n").findIndex((text) => text.startsWith("  never:")) + 1;
    expect(made.body["warnings"]).toContainEqual(
      expect.objectContaining({ code: "dead-feature", severity: "warning", path: "features.never", line }),
    );
    expect(made.body).not.toHaveProperty("expectations");
  });

  it.each<[string, (name: string) => FormData, number, RegExp]>([
    ["no YAML", (name) => form(named(PRICING, name), file("]")), 400, /^Expectations parsing error: /],
    [
      "an unknown plan",
      (name) => form(named(PRICING, name), "expectations: [{ plan: GOLD, features: { board: true } }]"),
      400,
      /^Expectations parsing error: Unknown plan GOLD/,
    ],
    ["nothing", (name) => form(named(PRICING, name), "{}"), 400, /must have a list of expectations/],
    ["too much", (name) => form(named(PRICING, name), file(`#${"x".repeat(256 * 1024)}`)), 413, /^File too large$/],
    [
      "no text",
      (name) => form(named(PRICING, name), new Blob([new Uint8Array([0xff, 0xfe, 0xfd])])),
      400,
      /not contain valid YAML/,
    ],
    [
      "in UTF-16",
      (name) => form(named(PRICING, name), new Blob([new Uint8Array([0xff, 0xfe, 0x5b, 0x00])])),
      400,
      /encoded in UTF-16\. Save it as UTF-8\.$/,
    ],
    [
      "two files",
      (name) => {
        const body = form(named(PRICING, name), file(EXPECTATIONS));
        body.append("expectations", file(EXPECTATIONS), "again.yml");
        return body;
      },
      400,
      /^Unexpected field$/,
    ],
    [
      "a file beside them",
      (name) => {
        const body = form(named(PRICING, name), file(EXPECTATIONS));
        body.append("other", file("x"), "other.yml");
        return body;
      },
      400,
      /^Unexpected field$/,
    ],
  ])("with expectations that are %s is refused", async (_, body, status, sentence) => {
    const answer = await to.call("POST", "", body("Refused"));
    expect(answer.status).toBe(status);
    expect(answer.body["error"]).toMatch(sentence);
  });

  it("with an empty file input for expectations has none", async () => {
    const made = await to.call("POST", "", form(named(PRICING, `Empty ${name}`), new Blob([])));
    expect(made.status).toBe(201);
    expect(made.body).not.toHaveProperty("expectations");
  });
});

it("expectations in JSON must be a text", async () => {
  const body = { pricing: "https://example.com/pricing.yml", expectations: { plan: "PRO" } };
  const answer = await api.call("POST", "/services", { key: api.callers.all.key, body });
  expect(answer).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: The expectations field must be a file or a text" },
  });
});

it("a pricing made to take half a minute is looked at for as long as others can wait, and taken", async () => {
  const many = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i)).join("");
  const text = `saasName: Big
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
${many(300, (i) => `  feat${i}: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['feat${i}'] && subscriptionContext['lim${i}'] < pricingContext['usageLimits']['lim${i}']" }\n`)}usageLimits:
${many(300, (i) => `  lim${i}: { valueType: NUMERIC, defaultValue: 5, unit: x, type: NON_RENEWABLE, trackable: true }\n`)}plans:
${many(20, (i) => `  plan${i}: { price: ${i}, unit: m, features: { feat${i}: { value: true } } }\n`)}addOns:
${many(300, (i) => `  addon${i}: { price: 1, unit: m, features: { feat${i}: { value: true } }, ${i === 0 ? "" : `dependsOn: [addon${i - 1}], `}usageLimitsExtensions: { lim${i}: { value: 3 } } }\n`)}`;
  const before = process.cpuUsage();
  const made = await api.call("POST", "/services", { key: api.callers.all.key, body: yamlUpload(text) });
  expect(made).toMatchObject({ status: 201, body: { warningsComplete: false } });
  expect(process.cpuUsage(before).user / 1000).toBeLessThan(5000);
});
