import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring } from "../support/invariants.ts";
import { FAMILIES, type FamilyCalls, familyCalls, type UploadAnswer } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

/* Texts and expectations of versions. Source: contract files-and-migration §3. */

const sample = (name: string) => readFileSync(new URL(`../../src/samples/${name}`, import.meta.url), "utf8");
const PRICING = sample("tasker.yml");
/** Windows line ends, which a form must not change. */
const EXPECTATIONS = sample("tasker.expectations.yml").replaceAll("\n", "\r\n");
const ONE_MET = "expectations:\n  - { plan: PRO, features: { board: true } }\n";
const UNMET = "expectations:\n  - { name: nothing for PRO, plan: PRO, features: { board: false } }\n";
const ADDRESS = "https://example.com/tasker.yml";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

let api: TestApi;
let fetched = "";
beforeAll(async () => {
  api = await createTestApi({ resources: { download: () => Promise.resolve(fetched) } });
});
afterAll(() => api.close());

function textOf(name: string, version = "1.0.0"): string {
  return PRICING.replace("saasName: Tasker", `saasName: ${name}`).replace(/^version: .*/m, `version: "${version}"`);
}
function form(pricing: string, expectations?: string): FormData {
  const body = yamlUpload(pricing);
  if (expectations !== undefined) body.append("expectations", new Blob([expectations]), "expectations.yml");
  return body;
}
const auditEntries = async () => {
  const [row] = await api.database.connection.client<{ total: number }[]>`
    select count(*)::int as total from audit_log where action = 'pricing.expectations'`;
  return row?.total;
};

describe.each(FAMILIES)("versions below %s", (family) => {
  let to: FamilyCalls;
  let name: string;
  let at: string;
  beforeAll(async () => {
    to = familyCalls(api, family);
    name = `Files ${FAMILIES.indexOf(family)}`;
    at = `/${encodeURIComponent(name)}`;
    await to.call("POST", "", form(textOf(name), EXPECTATIONS));
    await to.call("POST", `${at}/pricings`, form(textOf(name, "2.0.0")));
  });

  test("are listed in the order of upload, with the hashes of their texts", async () => {
    const { status, body } = await to.call<unknown>("GET", `${at}/versions`);
    const version = {
      pricingVersion: "1.0.0",
      state: "active",
      saasName: name,
      createdAt: expect.any(String),
      uploadedAt: "2025-06-15T10:00:00.000Z",
      url: null,
      sha256: sha256(textOf(name)),
      expectations: sha256(EXPECTATIONS),
    };
    const second = { pricingVersion: "2.0.0", sha256: sha256(textOf(name, "2.0.0")), expectations: null };
    expect({ status, body }).toEqual({ status: 200, body: [version, { ...version, ...second }] });
    expect((await to.call("GET", "/nowhere/versions")).body).toEqual({
      error: "NOT FOUND: Service with name nowhere",
    });
  });

  test("answer with the exact texts, and with 304 to their ETag", async () => {
    for (const [file, text] of [
      ["source", textOf(name)],
      ["expectations", EXPECTATIONS],
    ] as const) {
      const path = `${at}/pricings/1_0_0/${file}`;
      const answer = await to.call<string>("GET", path);
      expect(answer).toMatchObject({ status: 200, body: text });
      expect(answer.headers.get("content-type")).toBe("text/yaml; charset=utf-8");
      const etag = answer.headers.get("etag") ?? "";
      expect(etag).toBe(`"${sha256(text)}"`);
      const again = await to.call("GET", path, undefined, { "if-none-match": etag });
      expect(again).toMatchObject({ status: 304, body: undefined });
    }
  });

  test("without expectations, unknown versions and unknown services are 404 with their sentences", async () => {
    const errors = [];
    for (const path of [`${at}/pricings/2.0.0`, `${at}/pricings/9.9.9`, "/nowhere/pricings/1.0.0"]) {
      const { status, body } = await to.call("GET", `${path}/expectations`);
      errors.push([status, body["error"]]);
    }
    expect(errors).toEqual([
      [404, `Pricing version 2.0.0 of service ${name} has no expectations`],
      [404, `Pricing version 9.9.9 not found for service ${name}`],
      [404, "NOT FOUND: Service with name nowhere"],
    ]);
  });

  test("take expectations that they meet, once, without an event", async () => {
    const path = `${at}/pricings/2.0.0/expectations`;
    const before = (await auditEntries()) ?? 0;
    const { result, events } = await eventsDuring(api.database, async () => [
      await to.call("PUT", path, { expectations: ONE_MET }),
      await to.call("PUT", path, { expectations: ONE_MET }),
      await to.call("GET", path),
      await to.call("PUT", path, { expectations: null }),
      await to.call("GET", path),
    ]);
    expect(events).toEqual([]);
    const met = { status: 200, body: { met: 1, coverage: expect.objectContaining({ covered: expect.any(Number) }) } };
    expect(result).toMatchObject([
      met,
      met,
      { status: 200, body: ONE_MET },
      { status: 200, body: { met: 0, coverage: null } },
      { status: 404 },
    ]);
    expect(await auditEntries()).toBe(before + 2);
  });

  test.each([
    [[], 422, "The body must be an object"],
    [{ expectations: ONE_MET, force: true }, 422, "Unknown field: force"],
    [{}, 422, "The expectations field is required"],
    [{ expectations: 7 }, 422, "The expectations field must be a text or null"],
    [{ expectations: "x".repeat(256 * 1024 + 1) }, 413, "File too large"],
    [{ expectations: "expectations: 7" }, 400, expect.stringMatching(/^Expectations parsing error: /)],
    [{ expectations: UNMET }, 400, expect.stringMatching(/^Invalid request: 1 of 1 expectations are not met\./)],
  ])("refuse expectations %#", async (body, status, error) => {
    const answer = await to.call("PUT", `${at}/pricings/1.0.0/expectations`, body);
    expect(answer).toMatchObject({ status, body: { error } });
    expect((await to.call<string>("GET", `${at}/pricings/1.0.0/expectations`)).body).toBe(EXPECTATIONS);
  });

  test("check the body before they look for the version", async () => {
    const path = "/nowhere/pricings/1.0.0/expectations";
    expect((await to.call("PUT", path, {})).status).toBe(422);
    expect((await to.call("PUT", path, { expectations: "x".repeat(300_000) })).status).toBe(413);
    expect((await to.call("PUT", path, { expectations: null })).status).toBe(404);
  });

  test("lose their expectations with themselves", async () => {
    const gone = form(textOf(name, "0.1.0"), ONE_MET);
    expect((await to.call("POST", `${at}/pricings`, gone)).status).toBe(201);
    await to.call("PUT", `${at}/pricings/0.1.0?availability=archived`, { subscriptionPlan: "PRO" });
    expect((await to.call("GET", `${at}/pricings/0.1.0/expectations`)).status).toBe(200);
    expect((await to.call("DELETE", `${at}/pricings/0.1.0`)).status).toBe(204);
    await to.call("POST", `${at}/pricings`, form(textOf(name, "0.1.0")));
    expect((await to.call("GET", `${at}/pricings/0.1.0/expectations`)).status).toBe(404);
  });
});

test("a pricing given by URL is served as its snapshot", async () => {
  const to = familyCalls(api, "/services");
  fetched = textOf("Fetched");
  const made = await to.call<UploadAnswer>("POST", "", { pricing: ADDRESS });
  expect(made.body.activePricings).toEqual({ "1.0.0": { url: ADDRESS } });
  fetched = "changed since";
  const answer = await to.call<string>("GET", "/Fetched/pricings/1.0.0/source");
  expect(answer).toMatchObject({ status: 200, body: textOf("Fetched") });
  const listed = await to.call<{ url: string }[]>("GET", "/Fetched/versions");
  expect(listed.body[0]?.url).toBe(ADDRESS);
});

test("a renamed service lists the name that stands in the files", async () => {
  const to = familyCalls(api, "/services");
  await to.call("POST", "", form(textOf("Before")));
  await to.call("PUT", "/Before", { name: "After" });
  const { body } = await to.call<object[]>("GET", "/After/versions");
  expect(body).toMatchObject([{ saasName: "Before" }]);
});

test("a key of any scope reads its organization", async () => {
  const { all, management, evaluation, organizationId, owner } = api.callers;
  for (const { key } of [all, management, evaluation]) {
    const { status, body } = await api.call("GET", "/organization", { key });
    expect({ status, body }).toEqual({ status: 200, body: { id: organizationId, name: "Acme" } });
  }
  expect((await api.call("GET", "/organization", { key: owner.key })).status).toBe(403);
});
