import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, contractOf, FAMILIES, type FamilyCalls, familyCalls, use } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

/** Fields of a report that these tests read. */
interface Report {
  action: string;
  pricingVersion: string | null;
  targetVersion: string | null;
  usage: string;
  counts: Record<string, number>;
  groups: {
    pricingVersion: string;
    configuration: { plan?: string; addOns: Record<string, number> };
    target: { plan?: string; addOns: Record<string, number> } | null;
    problem: { rule: string; message: string } | null;
    counts: Record<string, number>;
    features: { feature: string; effect: string; turnedOff: { client: number; server: number } }[];
    limits: { limit: string; effect: string; before: number; after: number; newlyOver: number }[];
    chosenBy: string | null;
    proposal: { target: object; keepsEverything: boolean; certificate?: object } | null;
  }[];
  unforeseen: string[];
}

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

/** FREE has 100 tasks and loses none; PRO loses its export and gets 50 tasks. */
const NARROWER = {
  version: "2.0.0",
  createdAt: "2025-04-01",
  plans: `
  FREE: { price: 0, unit: user/month, features: null }
  PRO: { price: 9, unit: user/month, features: null, usageLimits: { tasks: { value: 50 } } }
  GOLD: { price: 20, unit: user/month, features: { export: { value: true } } }`,
};

describe.each(FAMILIES)("%s/{serviceName}", (family) => {
  let to: FamilyCalls;
  const mine = (name: string) => `${name} ${FAMILIES.indexOf(family)}`;
  const at = (name: string, path: string) => `/${encodeURIComponent(name)}${path}`;
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  describe("diff", () => {
    let name: string;
    beforeAll(async () => {
      name = mine("Diffed");
      await to.create({ name });
      await to.add({ name, ...NARROWER });
      await to.archive(name, "1.0.0", { subscriptionPlan: "FREE" });
    });

    test("tells what subscribers gain and lose between two versions, archived ones too", async () => {
      const answer = await to.call<{ class: string; changes: object[]; suggestion: object }>(
        "GET",
        at(name, "/diff?from=1_0_0&to=2.0.0"),
      );
      expect(answer.status).toBe(200);
      expect(answer.body.class).toBe("narrowing");
      expect(answer.body.suggestion).toEqual({ step: "major", version: "2.0.0", sufficient: true });
      expect(answer.body.changes).toContainEqual(
        expect.objectContaining({ subject: "plan", name: "GOLD", aspect: "presence", class: "widening" }),
      );
      expect(answer.body.changes).toContainEqual(
        expect.objectContaining({ subject: "usageLimit", name: "tasks", before: 100, after: 50, plans: ["PRO"] }),
      );
      const backwards = await to.call<{ class: string }>("GET", at(name, "/diff?from=2.0.0&to=1.0.0"));
      expect(backwards.body.class).toBe("narrowing");
      const same = await to.call("GET", at(name, "/diff?from=2.0.0&to=2.0.0"));
      expect(same.body).toMatchObject({ class: null, changes: [] });
    });

    test.each<[string, Record<string, string>]>([
      ["&format=markdown", {}],
      ["", { accept: "text/markdown, text/plain;q=0.5" }],
    ])("is Markdown where asked for: %j %j", async (query, headers) => {
      const answer = await to.call<string>("GET", at(name, `/diff?from=1.0.0&to=2.0.0${query}`), undefined, headers);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
      expect(answer.body).toContain("### Narrowing: subscribers get less");
      expect(answer.body).toContain("- limit tasks in PRO: 100 → 50");
    });

    test("takes a draft that is not kept, against the newest active version or a named one", async () => {
      const before = await to.call("GET", at(name, ""));
      const draft = () => yamlUpload(pricingText({ name, ...NARROWER, version: "2.1.0" }));
      const newest = await to.call("POST", at(name, "/diff"), draft());
      expect(newest).toMatchObject({ status: 200, body: { class: null, from: { version: "2.0.0" } } });
      const named = await to.call("POST", at(name, "/diff?from=1.0.0"), draft());
      expect(named).toMatchObject({ status: 200, body: { class: "narrowing", to: { version: "2.1.0" } } });
      expect((await to.call("GET", at(name, ""))).body).toEqual(before.body);
    });

    test("compares a renamed plan with its previous name", async () => {
      const renamed = () => yamlUpload(pricingText({ name, version: "9.0.0" }).replaceAll(/\bPRO\b/g, "TEAM"));
      const plain = await to.call("POST", at(name, "/diff?from=1.0.0"), renamed());
      expect(plain.body).toMatchObject({ class: "incompatible", suggestedRenames: [{ from: "PRO", to: "TEAM" }] });
      const named = await to.call("POST", at(name, "/diff?from=1.0.0&renames=PRO:TEAM"), renamed());
      expect(named.body).toMatchObject({
        class: "neutral",
        changes: [{ aspect: "name", before: "PRO", after: "TEAM" }],
      });
    });

    test.each<["GET" | "POST", string, unknown, number, RegExp]>([
      ["GET", "/diff?to=2.0.0", undefined, 400, /^The from query parameter is required$/],
      ["GET", "/diff?from=1.0.0", undefined, 400, /^The to query parameter is required$/],
      ["GET", "/diff?from=1.0.0&to=9", undefined, 404, /^Pricing version 9 not found for service Diffed \d$/],
      ["GET", "/diff?from=9&to=1.0.0", undefined, 404, /^Pricing version 9 not found/],
      ["GET", "/diff?from=1.0.0&to=2.0.0&format=yaml", undefined, 400, /format must be json or markdown/],
      ["GET", "/diff?from=1.0.0&to=2.0.0&renames=PRO", undefined, 400, /renames must be pairs of plan names/],
      ["POST", "/diff", {}, 400, /^No file or URL provided$/],
      ["POST", "/diff", yamlUpload("a: ["), 400, /^Pricing parsing error: /],
      ["POST", "/diff?from=9", yamlUpload(pricingText()), 404, /^Pricing version 9 not found/],
    ])("%s %s with %j is refused with %i", async (method, path, body, status, error) => {
      const answer = await to.call<{ error: string }>(method, at(name, path), body);
      expect(answer.status).toBe(status);
      expect(answer.body.error).toMatch(error);
    });

    test("an unknown service is 404", async () => {
      expect(await to.call("GET", "/Nowhere/diff?from=1&to=2")).toMatchObject({ status: 404 });
      expect(await to.call("POST", "/Nowhere/diff", yamlUpload(pricingText()))).toMatchObject({ status: 404 });
    });
  });

  describe("impact", () => {
    let name: string;
    let key: string;
    const ask = (body: object, query = "") => to.call<Report>("POST", at(name, `/impact${query}`), body);
    beforeAll(async () => {
      name = mine("Weighed");
      key = name.toLowerCase();
      await to.create({ name });
      await to.add({ name, ...NARROWER });
      const user = (id: string) => `${id} ${FAMILIES.indexOf(family)}`;
      await contract(api, user("free"), { [name]: { version: "1.0.0", plan: "FREE" } });
      await contract(api, user("pro"), { [name]: { version: "1.0.0", plan: "PRO" } });
      await contract(api, user("pro in capitals"), { [name]: { version: "1.0.0", plan: "pro", addOns: {} } });
      await contract(api, user("seats"), { [name]: { version: "1.0.0", plan: "PRO", addOns: { extraSeats: 2 } } });
      await contract(api, user("new"), { [name]: { version: "2.0.0", plan: "PRO" } });
      await use(api, user("pro"), { [key]: { tasks: 70 } });
      await use(api, user("seats"), { [key]: { tasks: 70, seats: 6 } });
    });

    test("of archiving: everybody on the version goes where the fallback says, with fresh levels", async () => {
      const { status, body } = await ask({ action: "archive", pricingVersion: "1.0.0", subscriptionPlan: "PRO" });
      expect(status).toBe(200);
      expect(body).toMatchObject({
        action: "archive",
        pricingVersion: "1.0.0",
        targetVersion: "2.0.0",
        usage: "reset",
      });
      expect(body.counts).toMatchObject({ contracts: 4, losingFeatures: 3, losingQuota: 4, turnedOff: 3, over: 2 });
      expect(body.groups.map((each) => [each.configuration, each.counts["contracts"], each.chosenBy])).toEqual([
        [expect.objectContaining({ plan: expect.stringMatching(/^pro$/i) as string }), 2, "fallback"],
        [{ plan: expect.any(String) as string, addOns: {} }, 1, "fallback"],
        [{ plan: "PRO", addOns: { extraSeats: 2 } }, 1, "fallback"],
      ]);
      expect(body.groups[0]?.features).toContainEqual(
        expect.objectContaining({ feature: "export", turnedOff: { client: 2, server: 2 } }),
      );
      expect(body.groups[2]?.limits.map(({ limit, before, after }) => [limit, before, after])).toEqual([
        ["tasks", 100, 50],
        ["seats", 7, 5],
      ]);
    });

    test("proposes the best fit to each group, and goes there where nothing else is said", async () => {
      const { body } = await ask({ action: "archive", pricingVersion: "1.0.0" });
      // No configuration has both: 7 seats with the export, and 100 tasks.
      expect(body.counts).toMatchObject({ contracts: 4, losing: 1 });
      const places = body.groups.map(({ configuration, target, chosenBy }) => [configuration.plan, target, chosenBy]);
      expect(places).toContainEqual(["FREE", { plan: "FREE", addOns: {} }, "bestFit"]);
      for (const { proposal, target } of body.groups) {
        expect(proposal).toEqual({ target, keepsEverything: expect.any(Boolean), complete: true });
      }
      const certified = await ask({ action: "archive", pricingVersion: "1.0.0" }, "?certificate=true");
      for (const { proposal, target } of certified.body.groups) {
        expect(proposal).toMatchObject({ target, certificate: { to: { version: "2.0.0" } } });
      }
      const told = await ask({
        action: "archive",
        pricingVersion: "1.0.0",
        groups: [{ configuration: { plan: "Pro" }, target: { plan: "GOLD", addOns: {} } }],
      });
      const gold = told.body.groups.find(({ chosenBy }) => chosenBy === "group");
      expect(gold).toMatchObject({ counts: { contracts: 2, losingFeatures: 0 }, target: { plan: "GOLD" } });
      expect(told.body.groups.filter(({ chosenBy }) => chosenBy === "bestFit")).toHaveLength(2);
    });

    test("of a target that cannot be subscribed to: who has no place, and why", async () => {
      const { status, body } = await ask({ action: "archive", pricingVersion: "1.0.0", subscriptionPlan: "DIAMOND" });
      expect(status).toBe(200);
      expect(body.counts["unplaced"]).toBe(4);
      expect(body.groups[0]?.problem).toEqual({
        rule: "planUnknown",
        message: `Plan DIAMOND for service ${key} not found in the request organization`,
      });
    });

    test("of a mass novation: contracts of other versions go to the newest and keep what they have used", async () => {
      const { body } = await ask({ action: "novation", subscriptionPlan: "PRO" });
      expect(body).toMatchObject({ targetVersion: "2.0.0", pricingVersion: null, usage: "kept" });
      expect(body.counts).toMatchObject({ contracts: 4, newlyOver: 2, over: 2 });
      expect(body.groups.flatMap(({ features }) => features.map(({ feature }) => feature))).toContain("board");
      const back = await ask({ action: "novation", pricingVersion: "1.0.0" });
      expect(back.body.counts).toMatchObject({ contracts: 1, losing: 0 });
      expect(back.body.groups[0]).toMatchObject({ pricingVersion: "2.0.0", counts: { contracts: 1 } });
      const some = await ask({ action: "novation", pricingVersion: "2.0.0", from: ["1_0_0", "2.0.0"] });
      expect(some.body.counts["contracts"]).toBe(5);
    });

    test("of disabling the service: everybody loses it", async () => {
      const { body } = await ask({ action: "disable" });
      expect(body).toMatchObject({ targetVersion: null, counts: { contracts: 5, losing: 5, unplaced: 5 } });
      expect(body.groups.map(({ target, proposal }) => [target, proposal])).toEqual([
        [null, null],
        [null, null],
        [null, null],
        [null, null],
      ]);
    });

    test("of activating a version: nobody is moved, and what would suit whom is said", async () => {
      const { body } = await ask({ action: "activate", pricingVersion: "2.0.0" });
      expect(body).toMatchObject({ pricingVersion: "2.0.0", targetVersion: null, usage: "kept" });
      expect(body.counts).toMatchObject({ contracts: 5, affected: 0 });
      expect(body.groups.every(({ chosenBy }) => chosenBy === "unchanged")).toBe(true);
      expect(body.groups.every(({ proposal }) => proposal !== null)).toBe(true);
    });

    test("changes nothing", async () => {
      const [user] = [`pro ${FAMILIES.indexOf(family)}`];
      const before = await Promise.all([contractOf(api, user), to.call("GET", at(name, ""))]);
      await ask({ action: "disable" });
      await ask({ action: "novation" });
      const after = await Promise.all([contractOf(api, user), to.call("GET", at(name, ""))]);
      expect([after[0], after[1].body]).toEqual([before[0], before[1].body]);
    });

    test("counts nothing as used of a period that is over", async () => {
      const later = new Date("2025-08-01T00:00:00.000Z");
      api.setNow(later);
      const { body } = await ask({ action: "novation", subscriptionPlan: "PRO" });
      expect(body.counts).toMatchObject({ contracts: 4, newlyOver: 1 });
      api.setNow(new Date("2025-06-15T10:00:00.000Z"));
    });

    test("comes line by line where asked for, the report last", async () => {
      const answer = await to.call<string>("POST", at(name, "/impact"), { action: "disable" }, {
        accept: "application/x-ndjson",
      }); // prettier-ignore
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("application/x-ndjson; charset=utf-8");
      const lines = answer.body
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines[0]).toEqual({ progress: { contracts: 5, of: 5 } });
      expect(lines.at(-1)).toEqual({ report: (await ask({ action: "disable" })).body });
    });

    test("a refusal that shows during the work is the last line", async () => {
      const body = { action: "novation", groups: [{ configuration: { plan: "NONE" }, target: { plan: "PRO" } }] };
      const error = "INVALID DATA: groups[0] has a configuration that no contract has";
      expect(await ask(body)).toMatchObject({ status: 400, body: { error } });
      const answer = await to.call<string>("POST", at(name, "/impact"), body, { accept: "application/x-ndjson" });
      expect(JSON.parse(answer.body.trim().split("\n").at(-1) ?? "")).toEqual({ error });
    });

    test("of archiving the last active version is refused as archiving is", async () => {
      const single = mine("Single");
      await to.create({ name: single });
      expect(
        await to.call("POST", at(single, "/impact"), { action: "archive", pricingVersion: "1.0.0" }),
      ).toMatchObject({
        status: 400,
        body: { error: `You cannot archive the last active pricing for service ${single}` },
      });
    });

    test.each<[object, number, string]>([
      [{}, 422, "The action field must be one of archive, activate, disable, novation"],
      [{ action: "explode" }, 422, "The action field must be one of archive, activate, disable, novation"],
      [[1], 422, "The body must be an object"],
      [{ action: "archive" }, 422, "The pricingVersion field is required to archive"],
      [{ action: "activate" }, 422, "The pricingVersion field is required to activate"],
      [{ action: "archive", pricingVersion: 1 }, 422, "The pricingVersion field must be a string"],
      [{ action: "novation", from: "1.0.0" }, 422, "The from field must be a list"],
      [{ action: "novation", from: [1] }, 422, "Each of from must be a string"],
      [{ action: "novation", subscriptionPlan: 1 }, 422, "The subscriptionPlan field must be a string"],
      [{ action: "novation", subscriptionAddOns: [] }, 422, "The subscriptionAddOns field must be an object"],
      [{ action: "novation", groups: {} }, 422, "The groups field must be a list"],
      [{ action: "novation", groups: [1] }, 422, "Each of groups must be an object"],
      [{ action: "novation", groups: [{ target: {} }] }, 422, "groups[].configuration must be an object"],
      [{ action: "novation", groups: [{ configuration: {} }] }, 422, "groups[].target must be an object"],
      [
        { action: "novation", groups: [{ configuration: { plan: 1 }, target: {} }] },
        422,
        "groups[].configuration.plan must be a string",
      ],
      [
        { action: "novation", groups: [{ configuration: {}, target: { addOns: { a: "1" } } }] },
        422,
        "groups[].target.addOns must have numbers as values",
      ],
      [
        {
          action: "novation",
          groups: [
            { configuration: {}, target: {} },
            { configuration: {}, target: {} },
          ],
        },
        400,
        "INVALID DATA: groups[1] has a configuration that another one has",
      ],
      [{ action: "novation", pricingVersion: "9" }, 404, "Pricing version 9 not found for service NAME"],
      [{ action: "novation", from: ["9"] }, 404, "Pricing version 9 not found for service NAME"],
      [{ action: "archive", pricingVersion: "9" }, 404, "Pricing version 9 not found for service NAME"],
      [{ action: "activate", pricingVersion: "9" }, 404, "Pricing version 9 not found for service NAME"],
    ])("%j is refused with %i %s", async (body, status, error) => {
      for (const headers of [{}, { accept: "application/x-ndjson" }]) {
        const answer = await to.call("POST", at(name, "/impact"), body, headers);
        expect(answer).toMatchObject({ status, body: { error: error.replace("NAME", name) } });
      }
    });
  });
});
