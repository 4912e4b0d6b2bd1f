import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring } from "../support/invariants.ts";
import { pricingText, type PricingParts } from "../support/pricings.ts";
import { contract, FAMILIES, type FamilyCalls, familyCalls } from "../support/service-calls.ts";

/* Predictions over versions that are not uploaded yet. Source: contract files-and-migration §3. */

interface Impact {
  error?: string;
  targetVersion: string | null;
  counts: { contracts: number; losing: number; losingFeatures: number; unplaced: number };
  groups: { target: { plan: string } | null; chosenBy: string | null }[];
  gate: { passed: boolean };
}

const LESS: PricingParts = {
  plans: "\n  FREE: { price: 0, features: null }\n  PRO: { price: 9, features: null }",
  addOns: " {}",
};

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

describe.each(FAMILIES)("a prediction below %s", (family) => {
  let to: FamilyCalls;
  let name: string;
  const draftsOf = (...parts: PricingParts[]) => parts.map((each) => pricingText({ name, ...each }));
  const form = (change: unknown, drafts: readonly string[]) => {
    const body = new FormData();
    body.append("change", typeof change === "string" ? change : JSON.stringify(change));
    for (const text of drafts) body.append("pricing", new Blob([text]), "pricing.yml");
    return body;
  };
  const predict = (change: unknown, drafts: readonly string[], at = `/${name}`) =>
    to.call<Impact>("POST", `${at}/impact`, form(change, drafts));
  const ARCHIVE = { action: "archive", pricingVersion: "1.0.0" };

  beforeAll(async () => {
    to = familyCalls(api, family);
    name = `Drafted${FAMILIES.indexOf(family)}`;
    await to.create({ name });
    await contract(api, `${name} pro`, { [name]: { version: "1.0.0", plan: "PRO" } });
    await contract(api, `${name} free`, { [name]: { version: "1.0.0", plan: "FREE" } });
  });

  test("counts a draft as the newest version, and stores nothing", async () => {
    const newer = draftsOf({ ...LESS, version: "2.0.0", createdAt: "2025-04-01" });
    const { result, events } = await eventsDuring(api.database, () => predict(ARCHIVE, newer));
    expect(result.status).toBe(200);
    expect(result.body).toMatchObject({
      pricingVersion: "1.0.0",
      targetVersion: "2.0.0",
      counts: { contracts: 2, losing: 1, losingFeatures: 1, unplaced: 0 },
    });
    expect(result.body.groups.map(({ chosenBy }) => chosenBy)).toEqual(["bestFit", "bestFit"]);
    expect(events).toEqual([]);
    const listed = await to.call<{ pricingVersion: string }[]>("GET", `/${name}/versions`);
    expect(listed.body.map(({ pricingVersion }) => pricingVersion)).toEqual(["1.0.0"]);
    const asJson = await to.call("POST", `/${name}/impact`, ARCHIVE);
    expect(asJson).toMatchObject({
      status: 400,
      body: { error: `You cannot archive the last active pricing for service ${name}` },
    });
  });

  test("equals the prediction once the draft is uploaded", async () => {
    const text = draftsOf({ ...LESS, version: "3.0.0", createdAt: "2025-05-01" });
    const change = { ...ARCHIVE, groups: [{ configuration: { plan: "PRO" }, target: { plan: "FREE" } }] };
    const before = await predict(change, text);
    expect((await to.add({ ...LESS, name, version: "3.0.0", createdAt: "2025-05-01" })).status).toBe(201);
    const after = await to.call("POST", `/${name}/impact`, change);
    expect(before.status).toBe(200);
    expect(before.body).toEqual(after.body);
    expect((await predict(change, text)).body).toEqual(after.body);
    expect((await predict(change, [])).body).toEqual(after.body);
  });

  test("orders drafts by their day, and after the versions of the same day", async () => {
    const [newest, same] = draftsOf(
      { version: "8.0.0", createdAt: "2025-05-02" },
      { version: "7.0.0", createdAt: "2025-05-01" },
    );
    expect((await predict(ARCHIVE, [same ?? "", newest ?? ""])).body.targetVersion).toBe("8.0.0");
    expect((await predict(ARCHIVE, [same ?? ""])).body.targetVersion).toBe("3.0.0");
  });

  test("streams its progress, then the report", async () => {
    const answer = await to.call<string>(
      "POST",
      `/${name}/impact`,
      form(ARCHIVE, draftsOf({ version: "8.0.0", createdAt: "2025-05-02" })),
      { accept: "application/x-ndjson" },
    );
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body.trim().split("\n").at(-1) ?? "")).toMatchObject({
      report: { targetVersion: "8.0.0" },
    });
  });

  test("refuses the change, then the drafts, then what a JSON body refuses", async () => {
    const wrongName = pricingText({ name: "Other", version: "4.0.0" });
    const other = draftsOf({ ...LESS, version: "1.0.0" });
    const [one, two] = [draftsOf({ version: "5.0.0" }), draftsOf({ ...LESS, version: "5_0_0" })];
    const drafts = Array.from({ length: 21 }, (_, i) => pricingText({ name, version: `6.0.${i}` }));
    const without = new FormData();
    without.append("pricing", new Blob(["nonsense"]), "pricing.yml");
    expect(await to.call("POST", `/${name}/impact`, without)).toMatchObject({
      status: 422,
      body: { error: "The change field is required" },
    });
    const answers: [status: number, error: string | undefined][] = [];
    for (const [change, files, at] of [
      ["{", drafts],
      [[], drafts],
      [{}, [wrongName]],
      [{}, ["saasName: 7"]],
      [{}, other],
      [ARCHIVE, [...one, ...two]],
      [{}, one],
      ["7", one],
      [{ ...ARCHIVE, force: true }, one],
      [{ ...ARCHIVE, pricingVersion: "9.9.9" }, one],
      [ARCHIVE, [pricingText({ name: "Nowhere" })], "/Nowhere"],
    ] as const) {
      const { status, body } = await predict(change, files, at);
      answers.push([status, body.error]);
    }
    expect(answers).toEqual([
      [422, "The change field must be JSON"],
      [400, "INVALID DATA: At most 20 drafts"],
      [
        400,
        `Invalid request: The service name in the pricing file (Other) does not match the service name in the URL (${name})`,
      ],
      [400, expect.stringMatching(/^Pricing parsing error: /)],
      [400, `Pricing version 1.0.0 already exists for service ${name}`],
      [400, `Pricing version 5_0_0 already exists for service ${name}`],
      [422, "The action field must be one of archive, activate, disable, novation"],
      [422, "The body must be an object"],
      [422, "Unknown field: force"],
      [404, `Pricing version 9.9.9 not found for service ${name}`],
      [404, "NOT FOUND: Service with name Nowhere"],
    ]);
  });

  test("bounds each draft, and all of them together", async () => {
    const large = "x".repeat(2 * 1024 * 1024);
    const within = large.slice(0, -100);
    expect((await predict(ARCHIVE, [`${large}y`])).status).toBe(413);
    expect((await predict(ARCHIVE, [within, within, within, within, within])).status).toBe(413);
    const three = await predict(ARCHIVE, [within, within, within]);
    expect(three).toMatchObject({ status: 400, body: { error: expect.stringMatching(/^Pricing parsing error: /) } });
  });

  test("holds drafts against the gate", async () => {
    const path = `/organizations/${api.callers.organizationId}/gate`;
    const { key } = api.callers.owner;
    await api.call("PUT", path, { key, body: { rules: [{ rule: "noFeatureLost" }] } });
    const { body } = await predict(ARCHIVE, draftsOf({ ...LESS, version: "9.0.0", createdAt: "2025-06-01" }));
    expect(body.gate).toMatchObject({ passed: false, rules: [{ contracts: 1, passed: false }] });
    await api.call("PUT", path, { key, body: { rules: [] } });
  });
});
