import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Plan } from "../../src/cli/files/plan.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { pricingText } from "../support/pricings.ts";
import { yamlUpload } from "../support/uploads.ts";
import { folderOf, runAgainst } from "./folder-api.ts";

/* Exports over folders that somebody wrote: their files, paths, comments and drafts stay. */

const sample = (name: string) => readFileSync(new URL(`../../src/samples/${name}`, import.meta.url), "utf8");
const EXPECTATIONS = sample("tasker.expectations.yml");
const OLD = sample("tasker.yml");
const NEW = OLD.replace('version: "1.0.0"', 'version: "1.1.0"').replace(/^createdAt: .*/m, 'createdAt: "2025-04-01"');

let api: TestApi;
let organizations = 0;
/** An organization of each test's own. */
let organization: { id: string; key: string };
beforeAll(async () => {
  api = await createTestApi({ settings: { webhookAllowedHosts: [] } });
});
afterAll(() => api.close());
beforeEach(async () => {
  organization = await api.newOrganization(api.callers.owner, `Exported ${(organizations += 1)}`);
});

type Files = Record<string, string>;
const run = (command: string, files: Files, ...args: string[]) =>
  runAgainst(api, organization.key, [command, "pricings", ...args], files);
const asOwner = (command: string, files: Files, ...args: string[]) =>
  runAgainst(api, api.callers.owner.key, [command, "pricings", "--organization", organization.id, ...args], files);
async function planOf(files: Files, ...args: string[]): Promise<Plan & { code: number }> {
  const { code, out } = await run("plan", files, "--json", ...args);
  return { ...(JSON.parse(out) as Plan), code };
}
const tasker = (versions: Parameters<typeof folderOf>[1]) => folderOf("Tasker", versions);
const ONE = tasker({ "1.0.0": { pricing: OLD, expectations: EXPECTATIONS } });

describe("an export into a folder that names files which do not exist yet", () => {
  const manifest = (...entries: string[]) => ({
    "pricings/faregate.yml": `faregate: 1\nservices:\n  Tasker:\n    versions:\n${entries.map((entry) => `      - { file: ${entry} }\n`).join("")}`,
  });
  const apply = async (...numbers: string[]) =>
    run("apply", tasker(Object.fromEntries(numbers.map((number) => [number, { pricing: versioned(number) }]))));
  const versioned = (number: string) =>
    OLD.replace('version: "1.0.0"', `version: "${number}"`).replace(
      /^createdAt: .*/m,
      `createdAt: "2025-0${number[2]}-01"`,
    );

  test("3: writes there, in order, if as many are missing as versions have no file", async () => {
    await apply("1.1.0");
    const one = manifest("here/a.yml, expectations: here/tests.yml");
    await api.call("PUT", "/services/Tasker/pricings/1.1.0/expectations", {
      key: organization.key,
      body: { expectations: EXPECTATIONS },
    });
    expect(await run("export", one)).toMatchObject({
      code: 0,
      out: "here/a.yml\nhere/tests.yml\n",
      err: "",
      files: { ...one, "pricings/here/a.yml": versioned("1.1.0"), "pricings/here/tests.yml": EXPECTATIONS },
    });
    await apply("1.1.0", "1.2.0", "1.3.0");
    const three = { ...manifest("here/c.yml", "old.yml", "./here/a.yml"), "pricings/old.yml": versioned("1.2.0") };
    const exported = await run("export", three);
    expect(exported).toMatchObject({
      code: 0,
      out: "here/c.yml\ntasker/1.1.0.expectations.yml\nhere/a.yml\nfaregate.yml\n",
    });
    expect(exported.files["pricings/here/c.yml"]).toBe(versioned("1.1.0"));
    expect(exported.files["pricings/here/a.yml"]).toBe(versioned("1.3.0"));
    expect(exported.files["pricings/faregate.yml"]).toBe(
      three["pricings/faregate.yml"].replace("c.yml", "c.yml, expectations: tasker/1.1.0.expectations.yml"),
    );
    expect((await planOf(exported.files)).code).toBe(0);
  });

  test("3: writes to the file that has the version in its name, however many are missing", async () => {
    await apply("1.1.0", "1.2.0", "1.3.0");
    const { files, out } = await run("export", manifest("tasker/1.3.0.yml", "tasker/1.1.0.yml"));
    expect(out.split("\n")).toEqual(["tasker/1.1.0.yml", "tasker/1.2.0.yml", "tasker/1.3.0.yml", "faregate.yml", ""]);
    expect(files["pricings/tasker/1.3.0.yml"]).toBe(versioned("1.3.0"));
    expect(files["pricings/faregate.yml"]).toBe(
      manifest("tasker/1.3.0.yml", "tasker/1.1.0.yml", "tasker/1.2.0.yml")["pricings/faregate.yml"],
    );
  });

  test("3: writes nothing and says so if several files could be meant", async () => {
    await apply("1.1.0", "1.2.0");
    for (const [entries, files, sentence] of [
      [
        ["a.yml"],
        {},
        "a.yml does not exist, so that export cannot choose the files of Tasker 1.1.0 and 1.2.0. Name one missing file for each of these versions, or remove the entries",
      ],
      [
        ["b.yml", "old.yml", "c.yml"],
        { "pricings/old.yml": versioned("1.1.0") },
        "b.yml and c.yml do not exist, so that export cannot choose the files of Tasker 1.2.0. Name one missing file for each of these versions, or remove the entries",
      ],
      [
        ["b.yml", "c.yml"],
        { "pricings/b.yml": "" },
        "c.yml does not exist, and b.yml is not a valid pricing, so that export cannot choose the files of Tasker 1.1.0 and 1.2.0. Name one missing file for each of these versions, or remove the entries",
      ],
    ] as const) {
      const before = { ...manifest(...entries), ...files };
      const refused = await run("export", before);
      const place = entries[0] === "b.yml" && entries.length === 2 ? "6:9" : "5:9";
      expect(refused).toMatchObject({
        code: 1,
        out: "",
        err: `faregate: pricings/faregate.yml:${place} ${sentence}\n`,
        files: before,
      });
    }
  });

  test("names a file that is missing and not needed, and one that is not a pricing", async () => {
    await apply("1.1.0");
    const files = {
      ...manifest("old.yml", "b.yml", "c.yml", "d.yml"),
      "pricings/old.yml": versioned("1.1.0"),
      "pricings/c.yml": "saasName: [",
      "pricings/d.yml": versioned("1.1.0"),
    };
    const exported = await run("export", files);
    expect(exported).toMatchObject({ code: 0, out: "nothing to do\n", files });
    expect(exported.err.split("\n")).toEqual([
      "faregate: d.yml has the version of another file of Tasker: its entry in faregate.yml stays as it is",
      "faregate: c.yml is not a valid pricing: its entry in faregate.yml stays as it is",
      "faregate: b.yml does not exist, and every version of Tasker on the server has another file: its entry in faregate.yml stays as it is",
      "",
    ]);
  });

  test("writes two texts to no file", async () => {
    await apply("1.1.0", "1.2.0");
    for (const files of [
      manifest("a.yml", "a.yml"),
      manifest("a.yml", "./A.yml"),
      { ...manifest("a.yml", "b.yml, expectations: a.yml") },
    ]) {
      await api.call("PUT", "/services/Tasker/pricings/1.2.0/expectations", {
        key: organization.key,
        body: { expectations: EXPECTATIONS },
      });
      const refused = await run("export", files);
      expect(refused).toMatchObject({ code: 1, out: "", files });
      expect(refused.err).toMatch(
        /^faregate: (a|A)\.yml is the file of Tasker 1\.1\.0 and of (the expectations of )?Tasker 1\.2\.0\. Name a file of its own for each\n$/,
      );
    }
    const onto = { ...manifest("a.yml", "b.yml, expectations: faregate.yml") };
    expect(await run("export", onto)).toMatchObject({ code: 1, files: onto });
  });
});

describe("an export over a folder of one's own", () => {
  const OWN = `# Ours. Ask billing.
faregate: 1            # the format

services:
  # A draft of next year.
  'Draft':
    versions: [ { file: draft.yml } ]


  Tasker:              # the product
    versions:
      # Sold until March.
      - { file: "1.0.0.yml" }
      - file: 1.1.0.yml   # the present one
        state: active

      - file: next.yml    # not yet uploaded
        expectations: next.expectations.yml
    moves: { fallback: { plan: PRO } }   # as agreed
  # Nothing below.
webhooks:
  - { url: https://draft.example/hook#x, description: 'not yet' }   # draft
# The end.
`;
  const files = {
    "pricings/faregate.yml": OWN,
    "pricings/draft.yml": OLD.replace("saasName: Tasker", "saasName: Draft"),
    "pricings/1.0.0.yml": OLD,
    "pricings/1.1.0.yml": NEW,
    "pricings/next.yml": NEW.replace('version: "1.1.0"', 'version: "1.2.0"'),
    "pricings/next.expectations.yml": EXPECTATIONS,
  };
  const WARNINGS = [
    "faregate: Tasker 1.2.0 (next.yml) is not on the server: its entry in faregate.yml stays as it is",
    "faregate: Draft is not on the server: its entry in faregate.yml stays as it is",
    "faregate: The webhook https://draft.example/hook is not on the server: its entry in faregate.yml stays as it is",
    "",
  ];
  const both = tasker({ "1.0.0": { pricing: OLD }, "1.1.0": { pricing: NEW } });

  test("8: writes nothing when nothing changed, and names what the server does not have", async () => {
    await run("apply", both);
    for (const text of [OWN, `\uFEFF${OWN}`, OWN.replaceAll("\n", "\r\n"), OWN.trimEnd()]) {
      const own = { ...files, "pricings/faregate.yml": text };
      const exported = await run("export", own);
      expect(exported).toMatchObject({ code: 0, out: "nothing to do\n", files: own });
      expect(exported.err.split("\n")).toEqual(WARNINGS);
    }
  });

  test("8: changes the lines that differ, and then nothing", async () => {
    await run("apply", both);
    await run("apply", tasker({ "1.0.0": { pricing: OLD, state: "archived" }, "1.1.0": { pricing: NEW } }));
    const third = NEW.replace('version: "1.1.0"', 'version: "1.1.5"').replace("2025-04-01", "2025-05-01");
    await api.call("POST", "/services/Tasker/pricings", { key: organization.key, body: yamlUpload(third) });
    await run("apply", folderOf("Second", { "1.0.0": { pricing: pricingText({ name: "Second" }) } }));
    await run("apply", { "pricings/faregate.yml": "faregate: 1\nwebhooks: [ { url: 'https://a.example/' } ]\n" });
    const exported = await run("export", { ...files, "pricings/faregate.yml": `\uFEFF${OWN}` });
    expect(exported.err.split("\n")).toEqual(WARNINGS);
    expect(exported.out).toBe("second/1.0.0.yml\ntasker/1.1.5.yml\nfaregate.yml\n");
    const expected = OWN.replace('"1.0.0.yml" }', '"1.0.0.yml", state: archived }')
      .replace("state: active\n", "state: active\n      - { file: tasker/1.1.5.yml }\n")
      .replace("# as agreed\n", "# as agreed\n  Second:\n    versions:\n      - { file: second/1.0.0.yml }\n")
      .replace("# draft\n", '# draft\n  - { url: "https://a.example/" }\n');
    expect(exported.files["pricings/faregate.yml"]).toBe(`\uFEFF${expected}`);
    const again = await run("export", exported.files);
    expect(again).toMatchObject({ out: "nothing to do\n", files: exported.files });
    const left = await planOf(exported.files, "--only", "services");
    expect(left.services.flatMap(({ name, steps }) => steps.map((step) => [name, step.do]))).toEqual([
      ["Draft", "create"],
      ["Tasker", "upload"],
    ]);
  });

  test("keeps the entry of a disabled service", async () => {
    await run("apply", ONE);
    await api.call("DELETE", "/services/Tasker", { key: organization.key });
    expect(await run("export", ONE)).toMatchObject({
      code: 0,
      out: "nothing to do\n",
      err: "faregate: Tasker is disabled on the server: its entry in faregate.yml stays as it is\n",
      files: ONE,
    });
  });

  test("keeps expectations that the server does not have", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    expect(await run("export", ONE)).toMatchObject({
      out: "nothing to do\n",
      err: "faregate: 1.0.0.expectations.yml is not on the server: its entry in faregate.yml stays as it is\n",
      files: ONE,
    });
  });

  test("finds the service that is to be renamed", async () => {
    await run("apply", ONE);
    const renamed = folderOf("Planner", { "1.0.0": { pricing: OLD } }, { service: "    renamedFrom: Tasker\n" });
    const exported = await asOwner("export", renamed);
    expect(exported).toMatchObject({ out: "tasker/1.0.0.expectations.yml\nfaregate.yml\n", err: "" });
    expect(exported.files["pricings/faregate.yml"]).toBe(
      renamed["pricings/faregate.yml"]?.replace("1.0.0.yml", "1.0.0.yml, expectations: tasker/1.0.0.expectations.yml"),
    );
  });

  test("sets gate, alerts and offers, and leaves those of services that the server does not have", async () => {
    await asOwner("apply", tasker({ "1.0.0": { pricing: OLD } }));
    const settings = `faregate: 1
services:
  Tasker: { versions: [ { file: 1.0.0.yml } ], public: true }   # ours
  Draft: { versions: [ { file: draft.yml } ], public: true }
gate:
  - { rule: noFeatureLost }   # until May
alerts: { thresholds: [100, 80] }   # as ever
`;
    const own = { ...files, "pricings/faregate.yml": settings };
    const exported = await asOwner("export", own);
    const text = settings
      .replace("public: true }   #", "public: false }   #")
      .replace("gate:\n  - { rule: noFeatureLost }   # until May\n", "gate: []\n");
    expect(exported.files).toEqual({ ...own, "pricings/faregate.yml": text });
    expect((await asOwner("export", exported.files, "--only", "public")).out).toBe("nothing to do\n");
  });

  test("leaves a second webhook with one address out", async () => {
    for (const description of ["one", "two"])
      await api.call("POST", "/webhooks", {
        key: organization.key,
        body: { url: "https://twice.example/", description },
      });
    const exported = await run("export", {});
    expect(exported.err).toBe(
      "faregate: A second webhook https://twice.example/ is left out: a folder has one per address\n",
    );
    expect(exported.files["pricings/faregate.yml"]).toMatch(
      /webhooks:\n {2}- \{ url: "https:\/\/twice\.example\/".*\}\n$/,
    );
    expect((await run("export", exported.files)).out).toBe("nothing to do\n");
  });

  test("is refused before anything is written if lines share their values", async () => {
    await run("apply", both);
    await run("apply", tasker({ "1.0.0": { pricing: OLD, state: "archived" }, "1.1.0": { pricing: NEW } }));
    const shared = `faregate: 1
services:
  Draft: { versions: &all [ { file: 1.0.0.yml }, { file: 1.1.0.yml } ] }
  Tasker: &it
    versions: *all
`;
    const aliased = await run("export", { ...files, "pricings/faregate.yml": shared });
    expect(aliased.files["pricings/faregate.yml"]).toBe(
      shared.replace("*all", '[{ file: "1.0.0.yml", state: archived }, { file: "1.1.0.yml" }]'),
    );
    const anchored = shared

      .replace("Draft:", "Later:")
      .replace("Tasker:", "Draft:")
      .replace("Later:", "Tasker:");
    const own = { ...files, "pricings/faregate.yml": anchored };
    expect(await run("export", own)).toMatchObject({
      code: 1,
      err: "faregate: pricings/faregate.yml cannot be edited line by line. Write its anchors, aliases and merge keys out, or export into another folder\n",
      files: own,
    });
  });

  test("writes nothing if a path leads out of the folder, or if the manifest is empty", async () => {
    await run("apply", both);
    const own = { "pricings/faregate.yml": "faregate: 1\n" };
    const outside = "pricings/tasker/1.1.0.yml";
    const linked = await runAgainst(api, organization.key, ["export", "pricings"], own, {
      realPath: async (path) => (path === outside ? "/elsewhere/1.1.0.yml" : `/${path}`),
    });
    expect(linked).toMatchObject({
      code: 1,
      out: "",
      err: `faregate: ${outside} leads out of the folder through a link. Put the file itself there\n`,
      files: own,
    });
    for (const text of ["", "# Nothing yet\n"]) {
      const empty = await run("export", { "pricings/faregate.yml": text });
      expect(empty).toMatchObject({ code: 1, out: "", files: { "pricings/faregate.yml": text } });
      expect(empty.err).toContain("pricings/faregate.yml:1:1 The file must be a map. Received: ");
    }
  });

  test("has no folder that a file system or Git reserves", async () => {
    for (const name of ["con", "nul", ".git", "AUX"])
      await run("apply", folderOf(name, { "1.0.0": { pricing: pricingText({ name }) } }));
    await run("apply", folderOf("Tasker", { com1: { pricing: pricingText({ name: "Tasker", version: "com1" }) } }));
    const { out } = await run("export", {});
    expect(out.split("\n").filter(Boolean)).toEqual([
      "_git/1.0.0.yml",
      "_aux/1.0.0.yml",
      "tasker/_com1.yml",
      "_con/1.0.0.yml",
      "_nul/1.0.0.yml",
      "faregate.yml",
    ]);
  });
});
