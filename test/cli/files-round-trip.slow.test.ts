import "../support/property-seed.ts";
import { readdirSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { pricingText } from "../support/pricings.ts";
import { runAgainst } from "./folder-api.ts";

/*
 * An export that is applied to an empty organization and exported again gives the same bytes: for all samples, and for
 * 100 generated folders with names that clash in paths, texts with other line ends and settings of every kind.
 */

const FOLDERS = 100;
/** After the days of all samples. */
const NOW = new Date("2026-11-01T00:00:00.000Z");
const SAMPLES = new URL("../../src/samples/", import.meta.url);

let api: TestApi;
let count = 0;
beforeAll(async () => {
  api = await createTestApi();
  api.setNow(NOW);
});
afterAll(() => api.close());

type Files = Record<string, string>;
const newOrganization = () => api.newOrganization(api.callers.owner, `Round ${(count += 1)}`);
async function run(id: string, command: string, files: Files): Promise<Files> {
  const { key } = api.callers.owner;
  const {
    code,
    err,
    files: after,
  } = await runAgainst(api, key, [command, ".", "--organization", id], files, {
    now: () => NOW,
  });
  expect({ command, code, err }, JSON.stringify(files)).toEqual({
    command,
    code: 0,
    err: err.replace(/^faregate: .*/s, ""),
  });
  return after;
}

/** Applies a folder, exports it, applies the export elsewhere, and expects the same export there. */
async function expectSameBytes(files: Files): Promise<void> {
  const [first, second] = [await newOrganization(), await newOrganization()];
  await run(first.id, "apply", files);
  const exported = await run(first.id, "export", {});
  await run(second.id, "apply", exported);
  expect(await run(second.id, "export", {})).toEqual(exported);
  await run(first.id, "plan", exported);
  await run(first.id, "plan", files);
}

test("all samples", async () => {
  const names = readdirSync(SAMPLES).filter((name) => name.endsWith(".yml") && !name.endsWith(".expectations.yml"));
  expect(names.length).toBeGreaterThanOrEqual(3);
  const files: Files = { "faregate.yml": "faregate: 1\nservices:\n" };
  for (const name of names) {
    const text = readFileSync(new URL(name, SAMPLES), "utf8");
    files[name] = text;
    const expectations = name.replace(/yml$/, "expectations.yml");
    const isTested = readdirSync(SAMPLES).includes(expectations);
    if (isTested) files[expectations] = readFileSync(new URL(expectations, SAMPLES), "utf8");
    const service = /^saasName: (.+)$/m.exec(text)?.[1]?.trim() ?? "";
    files["faregate.yml"] +=
      `  ${service}:\n    versions: [ { file: ${name}${isTested ? `, expectations: ${expectations}` : ""} } ]\n`;
  }
  await expectSameBytes(files);
}, 120_000);

/** Names whose paths clash or need other characters, and one of dots. */
const NAMES = [
  "Tasker",
  "tasker two",
  "Tasker-Two",
  "Zürich",
  "...",
  "a/b",
  "a\\b",
  "faregate.yml",
  "true",
  "1.0",
  "#x: y",
];
const VERSIONS = ["1.0.0", "1.0.0.expectations", "2.0", "2_1", "3.0.0-beta+1", "V4", "v 4"];
const MET = [
  "expectations:\n  - { plan: PRO, features: { board: true } }\n",
  "# nötig\r\nexpectations:\r\n- plan: FREE\r\n  features:\r\n    board: true",
];

const version = fc.record({
  version: fc.constantFrom(...VERSIONS),
  day: fc.integer({ min: 1, max: 28 }),
  state: fc.constantFrom("active", "archived"),
  expectations: fc.option(fc.constantFrom(...MET), { nil: undefined }),
  comment: fc.constantFrom("", "# ✓ 漢字\n", "\n\n"),
  isWindows: fc.boolean(),
});
const service = fc.record({
  name: fc.constantFrom(...NAMES),
  isPublic: fc.boolean(),
  versions: fc.uniqueArray(version, {
    minLength: 1,
    maxLength: 4,
    selector: (each) => each.version.replaceAll("_", "."),
  }),
});
const folder = fc.record({
  services: fc.uniqueArray(service, { minLength: 1, maxLength: 3, selector: ({ name }) => name.toLowerCase() }),
  gate: fc.option(
    fc.subarray(["{ rule: noPriceRise, byMoreThanPercent: 5 }", "{ rule: noFeatureLost, features: [export] }"]),
  ),
  thresholds: fc.option(fc.constantFrom([80, 100], [100, 80], [1], [200, 5, 50])),
  webhooks: fc.option(
    fc.subarray([
      '{ url: "https://a.example/x?y=1" }',
      '{ url: "https://b.example/", enabled: false, description: "a: b # c", codes: [PRICING_CREATED] }',
    ]),
  ),
});
type Folder = typeof folder extends fc.Arbitrary<infer T> ? T : never;

function filesOf({ services, gate, thresholds, webhooks }: Folder): Files {
  const files: Files = {};
  const lines = services.flatMap(({ name, isPublic, versions }, at) => [
    `  ${JSON.stringify(name)}:`,
    ...(isPublic ? ["    public: true"] : []),
    "    versions:",
    ...versions.map(({ version, day, state, expectations, comment, isWindows }, index) => {
      const file = `s${at}/v${index}.yml`;
      const text = comment + pricingText({ name, version, createdAt: `2025-03-${String(day).padStart(2, "0")}` });
      files[file] = isWindows ? text.replaceAll("\n", "\r\n") : text;
      if (expectations !== undefined) files[`${file}.tests`] = expectations;
      const isActive = state === "active" || versions.every((other) => other.state === "archived");
      return `      - { file: ${file}${isActive ? "" : ", state: archived"}${expectations === undefined ? "" : `, expectations: ${file}.tests`} }`;
    }),
  ]);
  const part = (key: string, items: readonly string[] | null) =>
    items === null ? [] : [`${key}: [ ${items.join(", ")} ]`];
  files["faregate.yml"] = [
    "faregate: 1",
    "services:",
    ...lines,
    ...part("gate", gate),
    ...(thresholds === null ? [] : [`alerts: { thresholds: [${thresholds.join(", ")}] }`]),
    ...part("webhooks", webhooks),
    "",
  ].join("\n");
  return files;
}

test(`${FOLDERS} generated folders`, async () => {
  await fc.assert(
    fc.asyncProperty(folder, (generated) => expectSameBytes(filesOf(generated))),
    { numRuns: FOLDERS, endOnFailure: true },
  );
}, 600_000);
