import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CliFailure } from "../../src/cli/command.ts";
import type { Plan } from "../../src/cli/files/plan.ts";
import { createTestApi, type TestApi, type TestUser } from "../support/api.ts";
import { eventsDuring } from "../support/invariants.ts";
import { pricingText, type PricingParts } from "../support/pricings.ts";
import { folderOf, runAgainst, type VersionFiles } from "./folder-api.ts";

/* plan, apply and export against the application. Numbers are those of contract files-and-migration §9. */

const sample = (name: string) => readFileSync(new URL(`../../src/samples/${name}`, import.meta.url), "utf8");
const EXPECTATIONS = sample("tasker.expectations.yml");
const OLD = sample("tasker.yml");
const NEW = OLD.replace('version: "1.0.0"', 'version: "1.1.0"')
  .replace(/^createdAt: .*/m, 'createdAt: "2025-04-01"')
  .replace("value: 200\n", "value: 300\n");
const LESS = OLD.replace('version: "1.0.0"', 'version: "1.1.0"')
  .replace(/^createdAt: .*/m, 'createdAt: "2025-04-01"')
  .replaceAll(/ {6}export:\n {8}value: true\n/g, "");

let api: TestApi;
let owner: TestUser;
let organizations = 0;
/** An organization of each test's own. */
let organization: { id: string; key: string };
beforeAll(async () => {
  api = await createTestApi({ settings: { webhookAllowedHosts: [] } });
  owner = api.callers.owner;
});
afterAll(() => api.close());
beforeEach(async () => {
  organization = await api.newOrganization(owner, `Promoted ${(organizations += 1)}`);
});

type Files = Record<string, string>;
const run = (command: string, files: Files, ...args: string[]) =>
  runAgainst(api, organization.key, [command, "pricings", ...args], files);
const asOwner = (command: string, files: Files, ...args: string[]) =>
  runAgainst(api, owner.key, [command, "pricings", "--organization", organization.id, ...args], files);
async function planOf(files: Files, ...args: string[]): Promise<Plan & { code: number }> {
  const { code, out } = await run("plan", files, "--json", ...args);
  return { ...(JSON.parse(out) as Plan), code };
}
const auditEntries = async () => {
  const [row] = await api.database.connection.client<{ total: number }[]>`
    select count(*)::int as total from audit_log where organization_id = ${organization.id}`;
  return row?.total ?? 0;
};
const tasker = (versions: Record<string, VersionFiles>, options?: Parameters<typeof folderOf>[2]) =>
  folderOf("Tasker", versions, options);
const contract = (userId: string, plan: string) =>
  api.call("POST", "/contracts", {
    key: organization.key,
    body: {
      userContact: { userId: `${userId} ${organizations}`, username: userId },
      contractedServices: { Tasker: "1.0.0" },
      subscriptionPlans: { Tasker: plan },
      subscriptionAddOns: {},
    },
  });
const versions = async () => {
  const { body } = await api.call<{ pricingVersion: string; state: string }[]>("GET", "/services/Tasker/versions", {
    key: organization.key,
  });
  return Array.isArray(body) ? body.map(({ pricingVersion, state }) => `${pricingVersion} ${state}`) : [];
};

const ONE = tasker({ "1.0.0": { pricing: OLD, expectations: EXPECTATIONS } });
const TWO = tasker({
  "1.0.0": { pricing: OLD, state: "archived" },
  "1.1.0": { pricing: NEW, expectations: "expectations:\n  - { plan: PRO, features: { board: true } }\n" },
});

describe("the worked example", () => {
  test("1, 2: changes are planned, applied once, and then there is nothing to do", async () => {
    expect((await run("apply", ONE)).code).toBe(0);
    await contract("ada", "PRO");
    await contract("ben", "FREE");
    const plan = await planOf(TWO);
    expect(plan).toMatchObject({
      code: 2,
      organization: { id: organization.id, name: `Promoted ${organizations}` },
      verdict: "changes",
      services: [
        {
          name: "Tasker",
          verdict: "changes",
          steps: [
            { do: "upload", pricingVersion: "1.1.0", file: "1.1.0.yml" },
            { do: "archive", pricingVersion: "1.0.0", to: "1.1.0", by: "bestFit" },
          ],
          diff: { from: { version: "1.0.0" }, to: { version: "1.1.0" }, class: "widening" },
          lint: [],
          expectations: [{ pricingVersion: "1.1.0", met: 1, failed: [] }],
          impact: [{ action: "archive", pricingVersion: "1.0.0", counts: { contracts: 2, losing: 0 } }],
          gate: { passed: true, rules: [] },
          refusals: [],
        },
      ],
      parts: [],
      notes: [],
    });
    expect(await versions()).toEqual(["1.0.0 active"]);
    const { result: applied, events } = await eventsDuring(api.database, () => run("apply", TWO));
    expect(applied).toMatchObject({ code: 0, err: "" });
    expect(applied.out.split("\n").filter(Boolean)).toHaveLength(2);
    expect(events.filter(({ code }) => code.startsWith("PRICING_")).map(({ code }) => code)).toEqual([
      "PRICING_CREATED",
      "PRICING_ARCHIVED",
    ]);
    expect(await versions()).toEqual(["1.0.0 archived", "1.1.0 active"]);
    const entries = await auditEntries();
    expect(await run("apply", TWO)).toMatchObject({ code: 0, out: "nothing to do\n", calls: [] });
    expect(await auditEntries()).toBe(entries);
    expect(await planOf(TWO)).toMatchObject({ code: 0, verdict: "nothing", services: [{ steps: [], diff: null }] });
  });

  test("prints words with the diff, the impact and the steps", async () => {
    await run("apply", ONE);
    await contract("ada", "PRO");
    const { out } = await run("plan", TWO);
    expect(out).toMatch(
      /^# Plan for Promoted \d+: changes\n\n## Tasker: changes\n\n### Steps\n\n- upload 1\.1\.0 from/,
    );
    expect(out).toContain(
      "### Tasker 1.0.0 → 1.1.0\n\n#### Widening: subscribers get more (1)\n\n- limit maxTasks in PRO: 200 → 300\n",
    );
    expect(out).toContain("### Impact of archiving 1.0.0\n\n1 contract to 1.1.0: 1 gain something.\n");
    expect(out).toContain("| 1.0.0 | PRO | PRO | 1 | 0 | 1 |\n");
  });
});

describe("what the folder and the server do not share", () => {
  test("3: an active version that the folder lacks is refused, and archived with --prune", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD }, "1.1.0": { pricing: NEW } }));
    const newest = tasker({ "1.1.0": { pricing: NEW } });
    const refused = await run("plan", newest);
    const sentence =
      "Tasker 1.0.0 is active on the server and not in the folder: export it, or archive it with --prune";
    expect(refused).toMatchObject({ code: 1, err: `faregate: ${sentence}\n` });
    expect(await planOf(newest)).toMatchObject({ verdict: "refused", services: [{ refusals: [sentence] }] });
    expect(await planOf(newest, "--prune")).toMatchObject({
      code: 2,
      services: [{ steps: [{ do: "archive", pricingVersion: "1.0.0", to: "1.1.0", by: "bestFit" }] }],
    });
    expect((await run("apply", newest, "--prune")).code).toBe(0);
    expect(await versions()).toEqual(["1.0.0 archived", "1.1.0 active"]);
    expect(await planOf(newest)).toMatchObject({ code: 0, services: [{ steps: [] }] });
  });

  test("4: a version never changes its meaning, and its text is left as it is", async () => {
    await run("apply", ONE);
    const other = await planOf(tasker({ "1.0.0": { pricing: OLD.replace("value: 200\n", "value: 7\n") } }));
    expect(other.services[0]?.refusals).toEqual([
      "Tasker 1.0.0 differs from the server's: a version never changes, give it a new number",
    ]);
    expect(other.code).toBe(1);
    const comment = await planOf(tasker({ "1.0.0": { pricing: `# Hello\n${OLD}` } }));
    expect(comment).toMatchObject({
      code: 0,
      services: [{ steps: [] }],
      notes: [expect.stringContaining("1.0.0.yml")],
    });
    const marked = await planOf(tasker({ "1.0.0": { pricing: `\uFEFF${OLD}` } }));
    expect(marked).toMatchObject({ code: 0, notes: [] });
  });

  test("8: only changed expectations are sent, and come back byte for byte", async () => {
    await run("apply", ONE);
    const changed = `${EXPECTATIONS}# Checked again\r\n`;
    const files = tasker({ "1.0.0": { pricing: OLD, expectations: changed } });
    const plan = await planOf(files);
    expect(plan).toMatchObject({
      code: 2,
      services: [
        {
          steps: [{ do: "expectations", pricingVersion: "1.0.0", file: "1.0.0.expectations.yml" }],
          expectations: [{ pricingVersion: "1.0.0", met: 14, failed: [], percent: 100 }],
        },
      ],
    });
    const applied = await run("apply", files);
    expect(applied.calls).toEqual(["PUT /api/v1/services/Tasker/pricings/1.0.0/expectations"]);
    const exported = await run("export", {});
    expect(exported.files["pricings/tasker/1.0.0.expectations.yml"]).toBe(changed);
  });

  test("services that the folder lacks are named and left alone", async () => {
    await run("apply", ONE);
    const other = OLD.replace("saasName: Tasker", "saasName: Second");
    const plan = await planOf(folderOf("Second", { "1.0.0": { pricing: other } }));
    expect(plan).toMatchObject({ code: 2, notes: ["The service Tasker is not in the folder and left alone"] });
  });
});

describe("a folder that cannot be used", () => {
  test.each([
    ["prices: 1\n", "4:1 prices is unknown. Allowed: faregate, services, gate, alerts, webhooks"],
    ["services:\n  Tasker: { versions: [ { file: ../x.yml } ] }\n", "5:27 file must be a path inside the folder"],
    [
      "services:\n  Tasker: { versions: [ { file: a.yml, state: archived } ] }\n",
      "5:13 Tasker needs at least one active",
    ],
    ["services:\n  Tasker: { public: maybe, versions: [ { file: a.yml } ] }\n", "5:13 public must be true or false"],
    ["services:\n  Tasker: { versions: [ { file: nowhere.yml } ] }\n", "5:25 pricings/nowhere.yml does not exist"],
    ["gate: [ { rule: noFeatureLost }, { rule: nothing } ]\n", "4:36 gate[1].rule must be one of"],
    ["webhooks: [ { url: https://a.example/, code: X } ]\n", "4:40 code is unknown"],
    ["webhooks: [ { url: https://a.example/, codes: [X] } ]\n", "4:48 X is no code of an event"],
    ["webhooks: [ { url: https://a.example/, codes: [] } ]\n", "4:40 codes must not be empty"],
    [
      `webhooks: [ { url: https://a.example/, description: ${"x".repeat(201)} } ]\n`,
      "4:40 description must not be longer than 200 characters",
    ],
    ['services:\n  "..": { versions: [ { file: a.yml } ] }\n', '5:4 The service ".." has a name that no URL can have'],
    ["alerts: { thresholds: [a] }\n", "4:24 Each of thresholds must be a number"],
    ...["", "0", "201", "80.5", "80, 80", "1, 2, 3, 4, 5, 6"].map((list) => [
      `alerts: { thresholds: [${list}] }\n`,
      "4:11 thresholds must be a list of 1 to 5 different whole numbers from 1 to 200",
    ]),
  ])("5: %j is refused with line and column", async (lines, message) => {
    const files = { "pricings/faregate.yml": `# One\n\nfaregate: 1\n${lines}` };
    const refused = await run("plan", files);
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(refused.err).toContain(`pricings/faregate.yml:${message}`);
  });

  test("7: unmet expectations and errors of lint are refused, warnings are not", async () => {
    const unmet = "expectations:\n  - { name: Nothing for PRO, plan: PRO, features: { board: false } }\n";
    const plan = await planOf(tasker({ "1.0.0": { pricing: OLD, expectations: unmet } }));
    expect(plan).toMatchObject({ code: 1, services: [{ verdict: "refused" }] });
    expect(plan.services[0]?.refusals).toEqual([
      expect.stringMatching(/^1\.0\.0\.expectations\.yml:2 Nothing for PRO: board/),
    ]);
    const warned = OLD.replaceAll(/ {6}export:\n {8}value: true\n/g, "");
    expect(await planOf(tasker({ "1.0.0": { pricing: warned } }))).toMatchObject({
      code: 2,
      services: [{ lint: [{ file: "1.0.0.yml", code: "dead-feature" }], refusals: [] }],
    });
    expect(await planOf(tasker({ "1.0.0": { pricing: warned } }), "--fail-on", "warning")).toMatchObject({ code: 1 });
    const broken = warned.replace(
      /^features:\n/m,
      "features:\n  odd: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: \"pricingContext['features']['nothere']\" }\n",
    );
    const applied = await run("apply", tasker({ "1.0.0": { pricing: broken } }));
    expect(applied).toMatchObject({ code: 1, calls: [] });
    expect(applied.err).toMatch(/1\.0\.0\.yml:\d+:\d+ error unknown-name: /);
  });

  test("a file with a syntax error is one problem, though the server has its version", async () => {
    await run("apply", ONE);
    const broken = tasker({ "1.0.0": { pricing: OLD.replace("currency: EUR", "currency: [EUR") } });
    for (const options of [[], ["--prune"]]) {
      const plan = await planOf(broken, ...options);
      expect(plan).toMatchObject({ code: 1, services: [{ steps: [] }], notes: [] });
      expect(plan.services[0]?.refusals).toEqual([expect.stringMatching(/^1\.0\.0\.yml is not a valid pricing:\n/)]);
    }
    expect(await run("apply", broken, "--prune")).toMatchObject({ code: 1, calls: [] });
  });

  test("./ before a path changes nothing", async () => {
    const files = { ...ONE };
    files["pricings/faregate.yml"] = `faregate: 1
services: { Tasker: { versions: [ { file: ./1.0.0.yml, expectations: ././1.0.0.expectations.yml } ] } }
`;
    expect((await run("apply", files)).code).toBe(0);
    expect(await run("export", files)).toMatchObject({ out: "nothing to do\n", files });
    for (const path of ["./../a.yml", ".", "./", ".//a.yml", "a/../b.yml"]) {
      const outside = `faregate: 1\nservices: { Tasker: { versions: [ { file: ${path} } ] } }\n`;
      expect((await run("plan", { "pricings/faregate.yml": outside })).err, path).toContain(
        `file must be a path inside the folder, without .. and backslashes. Received: ${path}\n`,
      );
    }
  });

  test("a file that is no pricing is refused with its lines", async () => {
    const plan = await planOf(tasker({ "1.0.0": { pricing: OLD.replace("currency: EUR", "currency: EUROS") } }));
    expect(plan.code).toBe(1);
    expect(plan.services[0]?.refusals[0]).toMatch(
      /^1\.0\.0\.yml is not a valid pricing:\n {2}1\.0\.0\.yml:7:1 The currency/,
    );
  });

  test("17: a wrong key, an unreachable server and an unknown option exit with 1", async () => {
    const wrong = await runAgainst(api, `org_${"0".repeat(64)}`, ["plan", "pricings"], ONE);
    expect(wrong).toMatchObject({ code: 1, err: "faregate: Invalid Organization API Key\n" });
    const unreachable = { fetch: () => Promise.reject(new Error("down")) };
    expect(await runAgainst(api, organization.key, ["plan", "pricings"], ONE, unreachable)).toMatchObject({
      code: 1,
      err: "faregate: http://faregate.test could not be reached: down\n",
    });
    expect((await run("plan", ONE, "--sideways")).code).toBe(1);
    expect((await run("plan", ONE, "--only", "prices")).code).toBe(1);
    expect((await run("diff", ONE, "--sideways")).code).toBe(2);
    const { evaluation } = api.callers;
    const low = await runAgainst(api, evaluation.key, ["plan", "pricings"], ONE);
    expect(low).toMatchObject({ code: 1, err: expect.stringContaining("EVALUATION") });
  });
});

describe("rights", () => {
  const gated = tasker({ "1.0.0": { pricing: OLD } }, { rest: "gate: [ { rule: noFeatureLost } ]\n" });

  test("9: an organization key cannot apply a folder with a gate, unless it leaves it out", async () => {
    const refused = await run("apply", gated);
    expect(refused).toMatchObject({ code: 1, calls: [] });
    expect(refused.err).toBe("faregate: gate: needs the user key of an OWNER or ADMIN; leave it out with --only\n");
    expect(await run("apply", gated, "--only", "services")).toMatchObject({ code: 0 });
    expect(await planOf(gated, "--only", "services")).toMatchObject({ code: 0, parts: [] });
    expect((await asOwner("apply", gated)).calls).toEqual([`PUT /api/v1/organizations/${organization.id}/gate`]);
    expect((await asOwner("plan", gated)).code).toBe(0);
  });

  test("a user key that sees several organizations names one", async () => {
    const several = await runAgainst(api, owner.key, ["plan", "pricings"], ONE);
    expect(several.code).toBe(1);
    expect(several.err).toContain(`${organization.id} Promoted ${organizations}`);
    // A server with short pages shows a platform ADMIN one of them.
    api.resources.settings.maxPageSize = 1;
    const one = await runAgainst(api, api.callers.platformAdmin.key, ["plan", "pricings"], ONE);
    api.resources.settings.maxPageSize = undefined;
    expect(one.err).toContain("The key sees several organizations. Give --organization with the id of one:");
  });

  test("6: a closed gate refuses, an OWNER passes over it with a reason, and another key cannot", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    await asOwner("apply", gated, "--only", "gate");
    await contract("ada", "BUSINESS");
    const less = tasker({ "1.0.0": { pricing: OLD, state: "archived" }, "1.1.0": { pricing: LESS } });
    const closed = await run("apply", less);
    expect(closed).toMatchObject({ code: 1, calls: [] });
    expect(closed.err).toContain("Tasker: The gate is closed: ");
    expect(await planOf(less)).toMatchObject({ code: 1, services: [{ gate: { passed: false } }] });
    const byKey = await run("apply", less, "--override-reason", "Agreed");
    expect(byKey).toMatchObject({
      code: 1,
      calls: [],
      err: "faregate: --override-reason needs the user key of an OWNER\n",
    });
    expect(await versions()).toEqual(["1.0.0 active"]);
    expect((await asOwner("apply", less, "--override-reason", "Agreed")).code).toBe(0);
    expect(await versions()).toEqual(["1.0.0 archived", "1.1.0 active"]);
    const decisions = await api.call<{ data: { overrideReason: string }[] }>("GET", "/services/Tasker/decisions", {
      key: organization.key,
    });
    expect(decisions.body.data[0]?.overrideReason).toBe("Agreed");
  });

  test("offers are published and withdrawn by an OWNER", async () => {
    const shown = tasker({ "1.0.0": { pricing: OLD } }, { service: "    public: true\n" });
    expect((await run("plan", shown)).err).toContain("public: needs the user key of an OWNER or ADMIN");
    expect((await asOwner("apply", shown)).out).toContain("Tasker: publish its offer\n");
    expect((await asOwner("plan", shown)).code).toBe(0);
    const hidden = tasker({ "1.0.0": { pricing: OLD } }, { service: "    public: false\n" });
    expect((await asOwner("apply", hidden, "--only", "public")).out).toBe("Tasker: unpublish its offer\n");
  });
});

describe("targets", () => {
  const groups = (lines: string) => `    moves:\n      fallback: { plan: PRO }\n      groups:\n${lines}`;
  const TO_PRO = '        - { pricingVersion: "1.0.0", configuration: { plan: free }, target: { plan: PRO } }\n';

  test("10: groups without contracts are left out", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    await contract("ada", "FREE");
    const files = tasker(
      { "1.0.0": { pricing: OLD, state: "archived" }, "1.1.0": { pricing: NEW } },
      {
        service: groups(
          `${TO_PRO}        - { configuration: { plan: PRO, addOns: { extraTasks: 3 } }, target: { plan: PRO } }\n`,
        ),
      },
    );
    const plan = await planOf(files);
    expect(plan).toMatchObject({
      code: 2,
      services: [
        { steps: [{ do: "upload" }, { do: "archive", by: "groups" }], impact: [{ groups: [{ chosenBy: "group" }] }] },
      ],
    });
    expect((await run("apply", files)).code).toBe(0);
    const moved = await api.call("GET", `/contracts/${encodeURIComponent(`ada ${organizations}`)}`, {
      key: organization.key,
    });
    expect(moved.body).toMatchObject({ contractedServices: { tasker: "1.1.0" }, subscriptionPlans: { tasker: "PRO" } });
  });

  test("contracts without a valid target are refused", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    await contract("ada", "FREE");
    const files = tasker(
      { "1.0.0": { pricing: OLD, state: "archived" }, "1.1.0": { pricing: NEW } },
      { service: "    moves: { fallback: { plan: GOLD } }\n" },
    );
    const refused = await run("apply", files);
    expect(refused).toMatchObject({ code: 1, calls: [] });
    expect(refused.err).toContain("Tasker 1.0.0 → 1.1.0: 1 contract with FREE have no valid target: ");
  });
});

describe("webhooks", () => {
  const url = "https://ops.example/hook";
  const hooked = (line: string) => ({ "pricings/faregate.yml": `faregate: 1\nwebhooks:\n${line}` });
  const WITH = hooked(`  - { url: "${url}", description: billing, codes: [CONTRACT_CREATED], enabled: false }\n`);

  test("11: are created with their secret in one file, and then there is no step", async () => {
    const applied = await run("apply", WITH, "--secrets-out", "secrets.json");
    expect(applied).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(applied.files["secrets.json"] ?? "")).toEqual({ [url]: expect.stringMatching(/^whsec_/) });
    expect(applied.out).not.toContain("whsec_");
    expect(await run("apply", WITH)).toMatchObject({ code: 0, out: "nothing to do\n", calls: [] });
    const changed = hooked(`  - { url: "${url}#part", description: accounts }\n`);
    const plan = await planOf(changed);
    expect(plan.parts).toEqual([
      { part: "webhooks", steps: [{ do: "webhook.update", url, fields: ["description", "codes", "enabled"] }] },
    ]);
    expect((await run("apply", changed)).code).toBe(0);
    expect((await planOf(changed)).code).toBe(0);
  });

  test("are not created where the file for their secret cannot be written, or has something else in it", async () => {
    const failing = { writeFile: () => Promise.reject(new CliFailure("none/secrets.json cannot be written")) };
    const apply = ["apply", "pricings", "--secrets-out"];
    const refused = [
      await runAgainst(api, organization.key, [...apply, "none/secrets.json"], WITH, failing),
      await run("apply", { ...WITH, "notes.txt": "Remember the milk" }, "--secrets-out", "notes.txt"),
    ];
    expect(refused).toMatchObject([
      { code: 1, calls: [], err: "faregate: none/secrets.json cannot be written\n" },
      {
        code: 1,
        calls: [],
        err: "faregate: notes.txt has no secrets of webhooks as JSON by address: name another file\n",
        files: { "notes.txt": "Remember the milk" },
      },
    ]);
    const applied = await run(
      "apply",
      { ...WITH, "secrets.json": '{"https://other.example/": "whsec_1"}' },
      "--secrets-out",
      "secrets.json",
    );
    expect(JSON.parse(applied.files["secrets.json"] ?? "")).toEqual({
      "https://other.example/": "whsec_1",
      [url]: expect.stringMatching(/^whsec_/),
    });
  });

  test("that the server would refuse are refused before anything is uploaded", async () => {
    const NOT_HTTPS = "The url must begin with https://. WEBHOOK_ALLOWED_HOSTS of the server allows local receivers";
    for (const [refused, sentence] of [
      ["http://ops.example/hook", NOT_HTTPS],
      ["ftp://localhost/", NOT_HTTPS],
      ["https://me:secret@ops.example/", "The url must not contain credentials"],
    ] as const) {
      const refusals = [`webhooks: ${refused}: ${sentence}`];
      const files = { ...ONE };
      files["pricings/faregate.yml"] += `webhooks: [ { url: "${refused}" } ]\n`;
      expect(await planOf(files)).toMatchObject({ code: 1, parts: [{ part: "webhooks", steps: [], refusals }] });
      expect(await run("apply", files)).toMatchObject({ code: 1, calls: [] });
    }
    // Only the server knows what it allows.
    const local = hooked('  - { url: "http://localhost:4000/hook" }\n');
    expect(await planOf(local)).toMatchObject({ code: 2 });
  });

  test("that the folder lacks are named, deleted with --prune, and can come back", async () => {
    await run("apply", WITH);
    const none = { "pricings/faregate.yml": "faregate: 1\nwebhooks: []\n" };
    expect(await planOf(none)).toMatchObject({
      code: 0,
      notes: [`The webhook ${url} is not in the folder: --prune deletes it`],
    });
    expect((await run("apply", none, "--prune")).out).toBe(`delete the webhook ${url}\n`);
    const again = await run("apply", WITH);
    expect(again.code).toBe(0);
    expect(await planOf(WITH)).toMatchObject({ code: 0 });
  });
});

describe("usage alerts", () => {
  const alerting = (thresholds: string) => ({
    "pricings/faregate.yml": `faregate: 1\nalerts: { thresholds: [${thresholds}] }\n`,
  });
  const thresholds = async () =>
    (await api.call("GET", `/organizations/${organization.id}/usage-alerts`, { key: owner.key })).body;

  test("are planned, set once, and come back from an export", async () => {
    expect(await asOwner("plan", alerting("100, 80"))).toMatchObject({ code: 0 });
    const set = alerting("90, 50");
    const planned = await asOwner("plan", set, "--json");
    expect(planned.code).toBe(2);
    expect(JSON.parse(planned.out)).toMatchObject({ parts: [{ part: "alerts", steps: [{ do: "alerts" }] }] });
    expect(await thresholds()).toEqual({ thresholds: [80, 100] });
    const path = `/api/v1/organizations/${organization.id}/usage-alerts`;
    expect(await asOwner("apply", set)).toMatchObject({
      code: 0,
      out: "set the thresholds of usage alerts\n",
      calls: [`PUT ${path}`],
    });
    expect(await thresholds()).toEqual({ thresholds: [50, 90] });
    expect(await asOwner("apply", set)).toMatchObject({ code: 0, out: "nothing to do\n", calls: [] });

    const { files } = await asOwner("export", {});
    expect(files["pricings/faregate.yml"]).toContain("alerts: { thresholds: [50, 90] }\n");
    expect(await asOwner("plan", files)).toMatchObject({ code: 0 });
    expect(await asOwner("export", files)).toMatchObject({ out: "nothing to do\n" });
    expect(await asOwner("export", set, "--only", "alerts")).toMatchObject({ out: "nothing to do\n" });
  });

  test("need the user key of a MANAGER, and are not exported with the key of an organization", async () => {
    expect(await run("apply", alerting("50"))).toMatchObject({
      code: 1,
      err: "faregate: alerts: needs the user key of a MANAGER; leave it out with --only\n",
      calls: [],
    });
    await asOwner("apply", alerting("50"));
    expect((await run("export", {})).files["pricings/faregate.yml"]).not.toContain("alerts");
    expect(await thresholds()).toEqual({ thresholds: [50] });
  });
});

describe("two applications at once", () => {
  test("12: both end in the state of the folder, with each step done once", async () => {
    await run("apply", ONE);
    await contract("ada", "PRO");
    const files = { ...TWO };
    files["pricings/faregate.yml"] += 'webhooks: [ { url: "https://ops.example/hook" } ]\n';
    const { result, events } = await eventsDuring(api.database, () =>
      Promise.all([run("apply", files), run("apply", files), run("apply", files)]),
    );
    expect(result.map(({ code, err }) => [code, err.replace(/^The secret of .*\n/, "")])).toEqual([
      [0, ""],
      [0, ""],
      [0, ""],
    ]);
    expect(events.map(({ code }) => code).filter((code) => code.startsWith("PRICING_"))).toEqual([
      "PRICING_CREATED",
      "PRICING_ARCHIVED",
    ]);
    expect(await versions()).toEqual(["1.0.0 archived", "1.1.0 active"]);
    const hooks = await api.call<object[]>("GET", "/webhooks", { key: organization.key });
    expect(hooks.body).toHaveLength(1);
    expect((await planOf(files)).code).toBe(0);
  });
});

describe("a renamed service", () => {
  const parts = (version: string, name: string): PricingParts => ({
    version,
    name,
    createdAt: `2025-03-0${version[0]}`,
  });
  const files = folderOf("After", {
    "1.0.0": { pricing: pricingText(parts("1.0.0", "Before")) },
    "2.0.0": { pricing: pricingText(parts("2.0.0", "After")) },
    "3.0.0": { pricing: pricingText(parts("3.0.0", "Before")), state: "archived" },
  });

  test("is uploaded under the names in its files, and stops and goes on anywhere", async () => {
    const plan = await planOf(files);
    expect(plan.services[0]?.steps.map((step) => step.do)).toEqual([
      "create",
      "rename",
      "upload",
      "rename",
      "upload",
      "rename",
      "archive",
    ]);
    for (let calls = 0; calls < 7; calls += 1) {
      let left = 1;
      const stopped = await runAgainst(api, organization.key, ["apply", "pricings"], files, {
        fetch: async (input, init) => {
          const url = String(input);
          if (init?.method !== "GET" && !url.endsWith("/impact") && (left -= 1) < 0) throw new Error("stopped");
          return api.app.request(url, init);
        },
      });
      expect(stopped.code, `${calls}: ${stopped.out} ${stopped.err}`).toBe(calls < 6 ? 1 : 0);
    }
    expect((await planOf(files)).code).toBe(0);
    const { body } = await api.call("GET", "/services/After/versions", { key: organization.key });
    expect(body).toMatchObject([
      { pricingVersion: "1.0.0", saasName: "Before", state: "active" },
      { pricingVersion: "2.0.0", saasName: "After" },
      { pricingVersion: "3.0.0", saasName: "Before", state: "archived" },
    ]);
  });
});

describe("a service with another key than the name in its files", () => {
  const named = (key: string, pricing: string, service = "") => folderOf(key, { "1.0.0": { pricing } }, { service });
  const SENTENCE = `Taskr: its files have the name Tasker. Name the service as they do, or add "renamedFrom: Tasker" if Taskr is its new name`;

  test("is refused with both names, on a server that has the name and on one that has not", async () => {
    for (const state of ["without", "with"]) {
      const refused = await run("apply", named("Taskr", OLD));
      expect(refused, state).toMatchObject({ code: 1, calls: [], err: `faregate: ${SENTENCE}\n` });
      expect(await planOf(named("Taskr", OLD)), state).toMatchObject({
        verdict: "refused",
        services: [{ refusals: [SENTENCE] }],
      });
      await run("apply", ONE);
    }
    expect(await versions()).toEqual(["1.0.0 active"]);
  });

  test("renames the service that renamedFrom names, with its contracts, and only once", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    await contract("ada", "PRO");
    const renamed = named("Taskr", OLD, "    renamedFrom: tasker\n");
    expect(await planOf(renamed)).toMatchObject({
      code: 2,
      services: [{ steps: [{ do: "rename", from: "Tasker", to: "Taskr" }], refusals: [] }],
      notes: [],
    });
    expect(await run("apply", renamed)).toMatchObject({ code: 0, out: "Taskr: rename Tasker to Taskr\n" });
    expect(await run("apply", renamed)).toMatchObject({ code: 0, out: "nothing to do\n" });
    const moved = await api.call("GET", `/contracts/${encodeURIComponent(`ada ${organizations}`)}`, {
      key: organization.key,
    });
    expect(moved.body).toMatchObject({ contractedServices: { taskr: "1.0.0" } });
  });

  test("is renamed before anything else changes for contracts", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    await contract("ada", "PRO");
    const files = folderOf(
      "Taskr",
      { "1.0.0": { pricing: OLD }, "1.1.0": { pricing: NEW.replace("saasName: Tasker", "saasName: Taskr") } },
      { service: "    renamedFrom: Tasker\n" },
    );
    expect((await planOf(files)).services[0]?.refusals).toEqual([
      "Tasker has contracts, so that it cannot be renamed to Taskr together with other changes. Apply the rename first, with the versions that the server has",
    ]);
    const other = folderOf("Tasker", {
      "1.0.0": { pricing: OLD },
      "1.1.0": { pricing: NEW.replace("saasName: Tasker", "saasName: Former") },
    });
    expect((await planOf(other)).services[0]?.refusals).toEqual([
      "Tasker has contracts, so that it cannot be renamed to Former to upload a file with that name",
    ]);
  });

  test("needs renamedFrom where an earlier run may have stopped between two names", async () => {
    const parts = (version: string, name: string) =>
      pricingText({ version, name, createdAt: `2025-03-0${version[0]}` });
    await run("apply", folderOf("Before", { "1.0.0": { pricing: parts("1.0.0", "Before") } }));
    await api.call("POST", "/contracts", {
      key: organization.key,
      body: {
        userContact: { userId: `eve ${organizations}`, username: "eve" },
        contractedServices: { Before: "1.0.0" },
        subscriptionPlans: { Before: "PRO" },
        subscriptionAddOns: {},
      },
    });
    const files = folderOf("After", {
      "1.0.0": { pricing: parts("1.0.0", "Before") },
      "2.0.0": { pricing: parts("2.0.0", "After") },
    });
    expect((await planOf(files)).services[0]?.refusals).toEqual([
      `Before has contracts, so that it cannot be renamed to After. Add "renamedFrom: Before" if After is its new name`,
    ]);
  });

  test("cannot be renamed from another service of the folder", async () => {
    const files = named("Taskr", OLD, "    renamedFrom: Second\n");
    files["pricings/faregate.yml"] += "  second: { versions: [ { file: 1.0.0.yml } ] }\n";
    expect((await run("plan", files)).err).toContain(
      "pricings/faregate.yml:4:5 renamedFrom must not name Second, a service of this folder\n",
    );
    const twice = named("Taskr", OLD, "    renamedFrom: First\n");
    twice["pricings/faregate.yml"] += "  Third: { renamedFrom: first, versions: [ { file: 1.0.0.yml } ] }\n";
    expect((await run("plan", twice)).err).toContain(
      "pricings/faregate.yml:7:12 The former name first is there twice\n",
    );
  });
});

describe("an export", () => {
  test("of a renamed service can be applied to another organization", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    await api.call("PUT", "/services/Tasker", { key: organization.key, body: { name: "Planner" } });
    const { files } = await run("export", {});
    expect(files["pricings/faregate.yml"]).toBe(
      "faregate: 1\nservices:\n  Planner:\n    renamedFrom: Tasker\n    versions:\n      - { file: planner/1.0.0.yml }\n",
    );
    expect((await planOf(files)).code).toBe(0);
    organization = await api.newOrganization(owner, `Promoted ${(organizations += 1)}`);
    expect((await run("apply", files)).code).toBe(0);
    expect((await run("export", {})).files).toEqual(files);
  });

  test("1: of a server has nothing to do there, and gives the same files again", async () => {
    await run("apply", TWO);
    const first = await run("export", {});
    expect(first.out.split("\n").filter(Boolean)).toEqual([
      "tasker/1.0.0.yml",
      "tasker/1.1.0.yml",
      "tasker/1.1.0.expectations.yml",
      "faregate.yml",
    ]);
    expect(await planOf(first.files)).toMatchObject({ code: 0, verdict: "nothing", notes: [] });
    expect((await run("export", first.files)).out).toBe("nothing to do\n");
    const kept = { ...TWO, "pricings/faregate.yml": `# Ours\n${TWO["pricings/faregate.yml"]}` };
    expect(await run("export", kept)).toMatchObject({ code: 0, out: "nothing to do\n", files: kept });
  });

  test("writes what changed to the paths of the folder, and nowhere else", async () => {
    await run("apply", TWO);
    await api.call("PUT", "/services/Tasker/pricings/1.0.0?availability=active", { key: organization.key, body: {} });
    const { out, files } = await run("export", TWO);
    expect(out).toBe("faregate.yml\n");
    expect(files).toEqual({
      ...TWO,
      "pricings/faregate.yml": TWO["pricings/faregate.yml"]?.replace("state: archived", "state: active"),
    });
    expect((await planOf(files)).code).toBe(0);
  });

  test("needs an empty folder, or one with a manifest", async () => {
    const refused = await run("export", { "pricings/letter.txt": "Dear Sir" });
    expect(refused).toMatchObject({
      code: 1,
      err: "faregate: pricings is not empty and has no faregate.yml: name another folder\n",
    });
  });

  test("leaves out versions that were renamed when their service was created again", async () => {
    await run("apply", ONE);
    await api.call("DELETE", "/services/Tasker", { key: organization.key });
    await run("apply", ONE);
    const { files, err } = await run("export", {});
    expect(err).toMatch(/^faregate: Tasker 1\.0\.0\.\d+ is left out: /);
    expect(Object.keys(files)).toHaveLength(3);
  });

  test("leaves out disabled services and says so", async () => {
    await run("apply", ONE);
    await api.call("DELETE", "/services/Tasker", { key: organization.key });
    const { code, out, err } = await run("export", {});
    expect({ code, out, err }).toEqual({
      code: 0,
      out: "faregate.yml\n",
      err: "faregate: Tasker is left out: it is disabled\n",
    });
  });

  test("has the settings that the key may read", async () => {
    await run("apply", tasker({ "1.0.0": { pricing: OLD } }));
    const settings = `gate:\n  - { rule: noQuotaLost, atMost: { percent: 2.5 } }\nwebhooks:\n  - { url: "https://ops.example/hook", description: "Ops: all" }\n`;
    const all = tasker({ "1.0.0": { pricing: OLD } }, { service: "    public: true\n", rest: settings });
    expect((await asOwner("apply", all)).code).toBe(0);
    const exported = await asOwner("export", {});
    expect(exported.files["pricings/faregate.yml"]).toBe(
      `faregate: 1\nservices:\n  Tasker:\n    public: true\n    versions:\n      - { file: tasker/1.0.0.yml }\n${settings}`,
    );
    expect((await asOwner("plan", exported.files)).code).toBe(0);
    const byKey = await run("export", {});
    expect(byKey.files["pricings/faregate.yml"]).not.toMatch(/^gate:|public/m);
  });
});

describe("an organization whose changes need a second person", () => {
  const approvals = (actions: string[]) =>
    api.call("PUT", `/organizations/${organization.id}/approvals`, { key: owner.key, body: { actions } });

  test("apply does what needs nobody, prints the request ids, and exits 3; after the approval, nothing is left", async () => {
    await run("apply", ONE);
    await approvals(["archive", "gate"]);
    const applied = await run("apply", TWO);
    expect(applied.code).toBe(3);
    const [, id = ""] =
      /Archive 1\.0\.0 of Tasker waits for a second person: change request ([0-9a-f]{24})/.exec(applied.out) ?? [];
    expect(await versions()).toEqual(["1.0.0 active", "1.1.0 active"]);
    const repeated = await run("apply", TWO, "--json");
    expect(repeated.code).toBe(3);
    expect(JSON.parse(repeated.out)).toMatchObject({ done: [], held: [{ id, summary: "Archive 1.0.0 of Tasker" }] });
    const { key } = api.callers.platformAdmin;
    const path = `/organizations/${organization.id}/change-requests/${id}/approve`;
    expect((await api.call("POST", path, { key })).status).toBe(200);
    expect(await versions()).toEqual(["1.0.0 archived", "1.1.0 active"]);
    expect(await run("apply", TWO)).toMatchObject({ code: 0, out: "nothing to do\n" });
  });

  test("the gate of a folder waits, too", async () => {
    await approvals(["gate"]);
    const files = tasker({ "1.0.0": { pricing: OLD } }, { rest: "gate:\n  - { rule: noPriceRise }\n" });
    const applied = await asOwner("apply", files);
    expect([applied.code, applied.err]).toEqual([3, ""]);
    expect(applied.out).toMatch(/Change the gate's rules waits for a second person: change request [0-9a-f]{24}\n/);
    expect(await versions()).toEqual(["1.0.0 active"]);
  });
});
