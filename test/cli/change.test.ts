import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PricingDiff } from "../../src/core/change/diff/diff.ts";
import buildIfStale from "../support/build-server.ts";
import { runFaregate } from "./io.ts";

/* The three commands for changing a pricing need only files, no server and no database. */

const ROOT = resolve(import.meta.dirname, "../..");
/** Starts in an eighth of the processor time of its source, which guides.e2e.test.ts starts. */
const FAREGATE = join(ROOT, "dist/server/faregate.js");
const TASKER = readFileSync(join(ROOT, "src/samples/tasker.yml"), "utf8");
const MINOR = TASKER.replace('version: "1.0.0"', 'version: "1.1.0"');

const FILES: Readonly<Record<string, string>> = {
  "pricing.yml": TASKER,
  "pricing.expectations.yml": readFileSync(join(ROOT, "src/samples/tasker.expectations.yml"), "utf8"),
  "narrower.yml": MINOR.replace("value: 200\n", "value: 100\n"),
  "wider.yml": MINOR.replace("value: 200\n", "value: 300\n"),
  "dead.yml": TASKER.replaceAll(/ {6}export:\n {8}value: true\n/g, ""),
  "broken.yml": TASKER.replace("currency: EUR", "currency: EUROS"),
  "odd.expectations.yml": "expectations:\n  - plan: GOLD\n    features: { board: true }\n",
};

const faregate = (...args: string[]) => runFaregate(args, FILES);

const NARROWING = `Tasker 1.0.0 → 1.1.0

Narrowing: subscribers get less (1)
  limit maxTasks in PRO: 200 → 100

The version 1.1.0 is not enough: the changes call for a major step, such as 2.0.0.
Compared 9 configurations of 3 plans; all others follow from these.
`;
const DEAD =
  "dead.yml:24:3 warning dead-feature: No plan and no add-on ever turns the feature export on. Give it to one, or remove it.\n";

describe("faregate diff", () => {
  it("prints what subscribers gain and lose, and fails when told which loss is too much", async () => {
    expect(await faregate("diff", "pricing.yml", "narrower.yml")).toMatchObject({ code: 0, out: NARROWING, err: "" });
    expect(await faregate("diff", "pricing.yml", "narrower.yml", "--fail-on", "widening")).toMatchObject({ code: 1 });
    expect(await faregate("diff", "pricing.yml", "narrower.yml", "--fail-on", "incompatible")).toMatchObject({
      code: 0,
    });
    const wider = await faregate("diff", "pricing.yml", "wider.yml", "--fail-on", "narrowing");
    expect(wider).toMatchObject({
      code: 0,
      out: expect.stringContaining("enough: the changes call for a minor step."),
    });
    const same = await faregate("diff", "pricing.yml", "pricing.yml", "--fail-on", "neutral");
    expect(same).toMatchObject({ code: 0, out: expect.stringContaining("Nothing changed.") });
  });

  it("prints JSON and Markdown for other programs, one of them at a time", async () => {
    const diff = JSON.parse((await faregate("diff", "pricing.yml", "narrower.yml", "--json")).out) as PricingDiff;
    expect(diff).toMatchObject({ class: "narrowing", counts: { narrowing: 1 }, suggestion: { version: "2.0.0" } });
    expect(diff.changes).toMatchObject([{ name: "maxTasks", plans: ["PRO"], before: 200, after: 100 }]);
    const markdown = await faregate("diff", "pricing.yml", "narrower.yml", "--markdown");
    expect(markdown.out).toContain("- limit maxTasks in PRO: 200 → 100\n");
    expect(await faregate("diff", "pricing.yml", "wider.yml", "--json", "--markdown")).toMatchObject({
      code: 2,
      out: "",
    });
  });

  it("compares a renamed plan with its previous name", async () => {
    const files = { ...FILES, "renamed.yml": TASKER.replaceAll(/\bPRO\b/g, "TEAM") };
    expect((await runFaregate(["diff", "pricing.yml", "renamed.yml"], files)).out).toContain("renames: { PRO: TEAM }");
    const renamed = await runFaregate(["diff", "pricing.yml", "renamed.yml", "--rename", "PRO:TEAM"], files);
    expect(renamed.out).toContain("plan PRO renamed to TEAM");
    expect(renamed.out).not.toContain("Incompatible");
    expect(await runFaregate(["diff", "pricing.yml", "renamed.yml", "--rename", "PRO"], files)).toMatchObject({
      code: 2,
      err: "faregate: --rename must be two plan names with a colon, such as PRO:TEAM. Received: PRO\n",
    });
    for (const [pair, problem] of [
      ["PROO:TEAM", "pricing.yml has no plan PROO. Its plans are: FREE, PRO, BUSINESS"],
      ["PRO:TAEM", "renamed.yml has no plan TAEM. Its plans are: FREE, TEAM, BUSINESS"],
    ] as const)
      expect(await runFaregate(["diff", "pricing.yml", "renamed.yml", "--rename", pair], files)).toMatchObject({
        code: 2,
        out: "",
        err: `faregate: --rename ${pair}: ${problem}\n`,
      });
  });

  it("exits with 2 and every problem when a file is no pricing, or is not there", async () => {
    expect(await faregate("diff", "pricing.yml", "broken.yml")).toMatchObject({
      code: 2,
      err: expect.stringContaining("broken.yml:7:1 The currency code EUROS is not a valid ISO 4217 currency code"),
    });
    const absent = await faregate("diff", "absent.yml", "pricing.yml");
    expect(absent).toMatchObject({ code: 2, err: "faregate: absent.yml does not exist.\n" });
    expect(await faregate("diff", "pricing.yml")).toMatchObject({ code: 2 });
    expect(await faregate("diff", "pricing.yml", "wider.yml", "--fail-on", "harm")).toMatchObject({ code: 2 });
  });
});

describe("faregate lint", () => {
  it("prints findings with their place, and fails from a severity on", async () => {
    expect(await faregate("lint", "pricing.yml")).toMatchObject({ code: 0, out: "pricing.yml: nothing found\n" });
    expect(await faregate("lint", "dead.yml")).toMatchObject({ code: 0, out: DEAD });
    expect(await faregate("lint", "pricing.yml", "dead.yml", "--fail-on", "warning")).toMatchObject({ code: 1 });
    expect(await faregate("lint", "dead.yml", "--fail-on", "never")).toMatchObject({ code: 0 });
    expect(await faregate("lint", "broken.yml")).toMatchObject({ code: 2, out: "" });
    const both = await faregate("lint", "broken.yml", "dead.yml");
    expect(both).toMatchObject({ code: 2, out: DEAD });
    expect(both.err).toContain("broken.yml is not a valid pricing");
    const json = await faregate("lint", "dead.yml", "--json");
    expect(JSON.parse(json.out)).toMatchObject([{ path: "dead.yml", findings: [{ code: "dead-feature", line: 24 }] }]);
  });
});

describe("faregate lint --fix", () => {
  const illegal = TASKER.replaceAll("darkMode", "dark.mode").replaceAll("BUSINESS", '"Business+"');

  it("renames illegal keys in the file, says what became of each, and changes nothing the second time", async () => {
    const before = await runFaregate(["lint", "illegal.yml"], { "illegal.yml": illegal });
    expect(before).toMatchObject({ code: 2, out: "" });
    expect(before.err).toContain(`illegal.yml:18:3 Invalid key in features: "dark.mode".`);
    expect(before.err).toContain(`such as "darkMode".\n  illegal.yml:64:4 Invalid key in plans: "Business+".`);
    const fixed = await runFaregate(["lint", "--fix", "illegal.yml"], { "illegal.yml": illegal });
    expect(fixed).toMatchObject({
      code: 0,
      out:
        'illegal.yml:18:3 renamed "dark.mode" in features to "darkMode", in 4 places\n' +
        'illegal.yml:64:4 renamed "Business+" in plans to "Business_Plus", in 2 places\n' +
        "illegal.yml: nothing found\n",
    });
    expect(fixed.files["illegal.yml"]).toBe(TASKER.replaceAll("BUSINESS", '"Business_Plus"'));
    const again = await runFaregate(["lint", "--fix", "--json", "illegal.yml"], fixed.files);
    expect(JSON.parse(again.out)).toEqual([{ path: "illegal.yml", findings: [], renamed: [] }]);
    expect(again.files).toEqual(fixed.files);
  });

  it("changes nothing where a new name would clash, and goes on with the other files", async () => {
    const clash = TASKER.replace("  export:\n", "  dark_mode: &x\n").replace("  darkMode:\n", "  dark_mode.:\n");
    const run = await runFaregate(["lint", "--fix", "clash.yml", "illegal.yml"], {
      "clash.yml": clash,
      "illegal.yml": illegal,
    });
    expect(run.code).toBe(2);
    expect(run.err).toBe(
      'faregate: clash.yml was not changed:\n  clash.yml:18:3 "dark_mode." in features would become "dark_mode", which another key has. Rename one of them by hand.\n',
    );
    expect(run.files["clash.yml"]).toBe(clash);
    expect(run.files["illegal.yml"]).not.toBe(illegal);
  });
});

describe("faregate lint of several files", () => {
  it("goes on after a file that cannot be read, and exits with 2", async () => {
    const run = await faregate("lint", "absent.yml", "broken.yml", "dead.yml", "pricing.yml");
    expect(run).toMatchObject({ code: 2, out: `${DEAD}pricing.yml: nothing found\n` });
    expect(run.err).toMatch(/^faregate: absent\.yml does not exist\.\nfaregate: broken\.yml is not a valid pricing:\n/);
    const json = await faregate("lint", "absent.yml", "dead.yml", "--json");
    expect(json.code).toBe(2);
    expect(JSON.parse(json.out)).toMatchObject([
      { path: "dead.yml", findings: [{ code: "dead-feature" }] },
      { path: "absent.yml", error: "absent.yml does not exist." },
    ]);
  });
});

describe("faregate test", () => {
  it("prints the line of an unnamed expectation once", async () => {
    const few = {
      ...FILES,
      "pricing.expectations.yml": "expectations:\n  - plan: FREE\n    features: { board: false }\n",
    };
    const { out, code } = await runFaregate(["test"], few);
    expect(code).toBe(1);
    expect(out).toMatch(/^pricing\.expectations\.yml:2\n {2}line 3: board: /);
    expect(out).toContain("0 of 1 expectation holds; ");
  });

  it("holds the pricing against the expectations beside it", async () => {
    const held = await faregate("test", "--coverage", "100");
    expect(held).toMatchObject({
      code: 0,
      out: "14 of 14 expectations hold; 100 % of plans, features and limit edges are covered (27 of 27)\n",
    });
    const missed = await faregate("test", "narrower.yml", "pricing.expectations.yml");
    expect(missed.code).toBe(1);
    expect(missed.out).toContain(`pricing.expectations.yml:26 PRO may stretch its tasks
  line 31: board: expected true, is false (maxTasks: 399 of 300 used)
  line 31: board: expected 1 of maxTasks to remain, is -99 (maxTasks: 399 of 300 used)
`);
  });

  it("lists what no expectation covers when more is wanted", async () => {
    const few = { ...FILES, "pricing.expectations.yml": "expectations: [{ plan: FREE, features: { board: true } }]" };
    const run = await runFaregate(["test", "--coverage", "50"], few);
    expect(run.code).toBe(1);
    expect(run.out).toContain("1 of 1 expectation holds; 3 % of plans");
    expect(run.out).toContain("  not covered: FREE: board with maxTasks below the limit\n");
    const json = await runFaregate(["test", "--json"], few);
    expect(JSON.parse(json.out)).toMatchObject({ results: [{ misses: [] }], coverage: { points: 27, covered: 1 } });
  });

  it("exits with 2 when the expectations cannot be used", async () => {
    expect(await faregate("test", "pricing.yml", "odd.expectations.yml")).toMatchObject({
      code: 2,
      err: expect.stringContaining("odd.expectations.yml:2:5 Unknown plan GOLD"),
    });
    const absent = await faregate("test", "narrower.yml");
    expect(absent).toMatchObject({ code: 2, err: "faregate: narrower.expectations.yml does not exist.\n" });
    const percent = await faregate("test", "--coverage", "all");
    expect(percent).toMatchObject({
      code: 2,
      err: expect.stringContaining("--coverage must be a number from 0 to 100"),
    });
  });
});

describe("as processes of their own, over real files, the commands", { timeout: 60_000 }, () => {
  let folder = "";
  beforeAll(async () => {
    await buildIfStale();
    folder = await mkdtemp(join(tmpdir(), "faregate-change-"));
    for (const [name, text] of Object.entries(FILES)) await writeFile(join(folder, name), text);
    await writeFile(join(folder, "latin.yml"), TASKER.replace("A dark colour", "Ein düsteres"), "latin1");
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each([
    [["diff", "pricing.yml", "narrower.yml", "--fail-on", "narrowing"], { code: 1, out: NARROWING, err: "" }],
    [["lint", "dead.yml"], { code: 0, out: DEAD, err: "" }],
    [
      ["lint", "latin.yml"],
      {
        code: 2,
        out: "",
        err: "faregate: latin.yml:19:23 The file is not encoded in UTF-8, but probably in Latin-1. Save it as UTF-8.\n",
      },
    ],
    [["test", "narrower.yml"], { code: 2, out: "", err: "faregate: narrower.expectations.yml does not exist.\n" }],
  ])("%j end as they do here", async (args, wanted) => {
    const child = spawn(process.execPath, [FAREGATE, ...args], { cwd: folder, env: { PATH: process.env["PATH"] } });
    let [out, err] = ["", ""];
    child.stdout.on("data", (chunk) => (out += String(chunk)));
    child.stderr.on("data", (chunk) => (err += String(chunk)));
    const code = await new Promise((settle) => child.on("close", settle));
    expect({ code, out, err }).toEqual(wanted);
  });

  it("end as usual when nobody reads what they print", async () => {
    const child = spawn(process.execPath, [FAREGATE, "lint", "dead.yml"], {
      cwd: folder,
      env: { PATH: process.env["PATH"] },
    });
    child.stdout.destroy();
    let err = "";
    child.stderr.on("data", (chunk) => (err += String(chunk)));
    const code = await new Promise((settle) => child.on("close", settle));
    expect({ code, err }).toEqual({ code: 0, err: "" });
  });
});

it("the guide on promotion prints the workflow file that lies beside it", () => {
  const workflow = readFileSync(join(ROOT, "src/docs/pricings.workflow.yml"), "utf8");
  const guide = readFileSync(join(ROOT, "src/docs/promotion.md"), "utf8");
  expect(guide).toContain(`\`\`\`yaml\n${workflow}\`\`\`\n`);
});
