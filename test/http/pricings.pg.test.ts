import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, FAMILIES, type FamilyCalls, familyCalls } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

const ID = expect.stringMatching(/^[0-9a-f]{24}$/);
const noService = (name: string) => ({ status: 404, body: { error: `NOT FOUND: Service with name ${name}` } });
const noVersion = (version: string, name: string) => ({
  status: 404,
  body: { error: `Pricing version ${version} not found for service ${name}` },
});

describe.each(FAMILIES)("%s/{serviceName}/pricings", (family) => {
  let to: FamilyCalls;
  const mine = (name: string) => `${name} ${FAMILIES.indexOf(family)}`;
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  describe("POST adds a version", () => {
    test("the answer is the whole service with both versions active, and one PRICING_CREATED is recorded", async () => {
      const name = mine("Adds");
      const made = await to.create({ name });
      const { result, events } = await eventsDuring(api.database, () => to.add({ name, version: "2.0.0" }));
      expect(result.status).toBe(201);
      expect(result.body).toEqual({
        ...made.body,
        activePricings: { "1.0.0": made.body.activePricings["1.0.0"], "2.0.0": { id: ID } },
      });
      expect(events).toEqual([{ code: "PRICING_CREATED", details: { serviceName: name, pricingVersion: "2.0.0" } }]);
    });

    // Rows in the order of the checks; each row also has every later fault that it can have.
    const NAME = "Checked";
    const odd = { plans: `\n  "a b": { price: 0, unit: u, features: null }`, addOns: " {}" };
    test.each<[string, string, () => unknown, number, string]>([
      ["no file or address", NAME, () => ({}), 400, "No file or URL provided"],
      ["unreadable content", NAME, () => yamlUpload("]"), 400, "Pricing parsing error: "],
      [
        "a file of another service, even of an unknown one",
        "Unknown",
        () => yamlUpload(pricingText({ name: "Other", ...odd })),
        400,
        "Invalid request: The service name in the pricing file (Other) does not match the service name in the URL (Unknown)",
      ],
      [
        "a file whose name differs in letter case",
        NAME,
        () => yamlUpload(pricingText({ name: NAME.toUpperCase(), ...odd })),
        400,
        "Invalid request: The service name in the pricing file (CHECKED) does not match the service name in the URL (Checked)",
      ],
      [
        "an unknown service",
        "Unknown",
        () => yamlUpload(pricingText({ name: "Unknown", ...odd })),
        404,
        "NOT FOUND: Service with name Unknown",
      ],
      [
        "a version that is active",
        NAME,
        () => yamlUpload(pricingText({ name: NAME, ...odd })),
        400,
        "Pricing version 1.0.0 already exists for service Checked",
      ],
      [
        "the same version with underscores",
        NAME,
        () => yamlUpload(pricingText({ name: NAME, version: "1_0_0", ...odd })),
        400,
        "Pricing version 1_0_0 already exists for service Checked",
      ],
      [
        "a version that is archived",
        NAME,
        () => yamlUpload(pricingText({ name: NAME, version: "0.9", ...odd })),
        400,
        "Pricing version 0.9 already exists for service Checked",
      ],
      [
        "an illegal key",
        NAME,
        () => yamlUpload(pricingText({ name: NAME, version: "7", ...odd })),
        400,
        'Invalid key in plans: "a b". Keys must not contain "." or other invalid characters.',
      ],
    ])("%s is refused, and nothing is recorded", async (_, name, body, status, error) => {
      if ((await to.call("GET", `/${NAME}`)).status === 404) {
        await to.create({ name: NAME, version: "0.9" });
        await to.add({ name: NAME });
        await to.archive(NAME, "0.9", { subscriptionPlan: "FREE" });
      }
      const before = await to.call("GET", `/${NAME}`);
      const { result, events } = await eventsDuring(api.database, () => to.call("POST", `/${name}/pricings`, body()));
      expect(result).toMatchObject({ status, body: { error: expect.stringContaining(error) } });
      expect(events).toEqual([]);
      expect((await to.call("GET", `/${NAME}`)).body).toEqual(before.body);
    });

    test("after a rename, files must carry the new name and find the service in any letter case", async () => {
      await to.create({ name: mine("Before") });
      await to.call("PUT", `/${mine("Before")}`, { name: mine("After") });
      expect(await to.add({ name: mine("Before"), version: "2" })).toMatchObject(noService(mine("Before")));
      expect(await to.add({ name: mine("AFTER"), version: "2" })).toMatchObject({
        status: 201,
        body: { name: mine("After"), activePricings: { "2": { id: ID } } },
      });
    });

    test("contracts are not touched", async () => {
      const name = mine("Untouched");
      await to.create({ name });
      await contract(api, name, { [name]: { version: "1.0.0", plan: "FREE" } });
      const before = await api.call("GET", `/contracts/${name}`, { key: api.callers.all.key });
      await to.add({ name, version: "2.0.0", createdAt: "2025-05-01" });
      expect((await api.call("GET", `/contracts/${name}`, { key: api.callers.all.key })).body).toEqual(before.body);
    });
  });

  describe("versions", () => {
    test.each(["2025", "2.0.0", "2024-1-15", "v1_beta", "0197709f-5f90-7000-8000-000000000001", "1.0.0+a"])(
      "%s is stored and printed verbatim everywhere",
      async (version) => {
        const name = mine(`Verbatim ${version}`);
        await to.create({ name, version: "0" });
        const added = await to.add({ name, version, createdAt: "2025-04-01" });
        expect(Object.keys(added.body.activePricings)).toContain(version);
        const at = (spelling: string) => `/${encodeURIComponent(name)}/pricings/${encodeURIComponent(spelling)}`;
        const path = at(version);
        expect(await to.call("GET", path)).toMatchObject({ status: 200, body: { version } });
        expect(await to.call("PUT", `${path}?availability=active`)).toMatchObject({
          body: { activePricings: { [version]: { id: ID } } },
        });
        expect(await to.call("PUT", `/${encodeURIComponent(name)}`, {})).toMatchObject({
          body: { activePricings: { [version]: { id: ID } } },
        });
        const { result, events } = await eventsDuring(api.database, () =>
          to.call("PUT", `${at(version.replaceAll(".", "_"))}?availability=archived`, { subscriptionPlan: "FREE" }),
        );
        expect(result).toMatchObject({ status: 200, body: { archivedPricings: { [version]: { id: ID } } } });
        expect(events).toEqual([{ code: "PRICING_ARCHIVED", details: { serviceName: name, pricingVersion: version } }]);
      },
    );
  });

  describe("GET list", () => {
    test.each([
      ["", ["1", "10", "9"]],
      ["?pricingStatus=", ["1", "10", "9"]],
      ["?pricingStatus=active", ["1", "10", "9"]],
      ["?pricingStatus=archived", ["3", "2"]],
    ])("%j lists the versions of that status, oldest upload first", async (query, versions) => {
      const name = mine("Lists");
      if ((await to.call("GET", `/${name}`)).status === 404) {
        await to.create({ name, version: "1" });
        for (const version of ["3", "2", "10", "9"]) await to.add({ name, version });
        for (const version of ["2", "3"]) await to.archive(name, version, { subscriptionPlan: "FREE" });
      }
      const answer = await to.call<{ version: string }[]>("GET", `/${name}/pricings${query}`);
      expect(answer.status).toBe(200);
      expect(answer.body.map((one) => one.version)).toEqual(versions);
    });

    test("no archived version makes an empty list", async () => {
      const name = mine("No archive");
      await to.create({ name });
      expect(await to.call("GET", `/${name}/pricings?pricingStatus=archived`)).toMatchObject({ status: 200, body: [] });
    });

    test("an unknown status is refused, an unknown service not found", async () => {
      expect(await to.call("GET", "/nobody/pricings?pricingStatus=retired")).toMatchObject({
        status: 400,
        body: { error: "Invalid pricing status" },
      });
      expect(await to.call("GET", "/NoBody/pricings")).toMatchObject(noService("NoBody"));
    });
  });

  describe("GET of one", () => {
    test("the worked example of the format comes back exactly, keys in their order", async () => {
      const example = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
      const name = mine("Tasker");
      await to.call("POST", "", yamlUpload(example.replace("saasName: Tasker", `saasName: ${name}`)));
      const { body } = await to.call("GET", `/${name}/pricings/1.0.0`);
      expect(Object.keys(body)).toEqual([
        "_organizationId",
        "yamlPath",
        "version",
        "currency",
        "createdAt",
        "features",
        "usageLimits",
        "plans",
        "addOns",
      ]);
      expect(body).toMatchObject({
        _organizationId: api.callers.organizationId,
        yamlPath: `/static/pricings/${api.callers.organizationId}-tasker-${FAMILIES.indexOf(family)}-1.0.0.yaml`,
        createdAt: "2025-03-01T00:00:00.000Z",
      });
      expect(Object.keys(body["plans"] as object)).toEqual(["FREE", "PRO", "BUSINESS"]);
      for (const absent of ["id", "_id", "_serviceName", "saasName", "syntaxVersion", "tags", "billing", "variables"]) {
        expect(body).not.toHaveProperty(absent);
      }
    });

    test("an archived version is shown too, under either spelling of its dots", async () => {
      const name = mine("Shows archived");
      await to.create({ name });
      await to.add({ name, version: "2.0.0" });
      await to.archive(name, "1.0.0", { subscriptionPlan: "FREE" });
      expect(await to.call("GET", `/${name}/pricings/1.0.0`)).toMatchObject({ status: 200 });
      expect(await to.call("GET", `/${name.toUpperCase()}/pricings/1_0_0`)).toMatchObject({
        status: 200,
        body: { version: "1.0.0" },
      });
    });

    test.each(["", "/public-url"])(
      "an unknown service or version answers 404 with its own sentence%s",
      async (tail) => {
        const name = mine("Known");
        await to.create({ name });
        expect(await to.call("GET", `/NoBody/pricings/1${tail}`)).toMatchObject(noService("NoBody"));
        expect(await to.call("GET", `/${name}/pricings/9_9${tail}`)).toMatchObject(noVersion("9_9", name));
        expect(await to.call("GET", `/${name}/pricings/1.0.${tail}`)).toMatchObject(noVersion("1.0.", name));
      },
    );
  });

  describe("GET public-url", () => {
    test("path and url lead to exactly the uploaded text, without a key", async () => {
      const name = mine("Public  & text");
      const text = `\uFEFF${pricingText({ name, version: "1.2.0" })}# Grüße, ☕\r\n`;
      await to.call("POST", "", yamlUpload(text));
      const { status, body } = await to.call("GET", `/${encodeURIComponent(name)}/pricings/1.2.0/public-url`);
      const path = `/static/pricings/${api.callers.organizationId}-public-text-${FAMILIES.indexOf(family)}-1.2.0.yaml`;
      expect({ status, body }).toEqual({ status: 200, body: { path, url: `http://localhost${path}` } });
      const response = await api.app.request(path);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toMatch(/^text\/yaml/);
      expect(new Uint8Array(await response.arrayBuffer())).toEqual(new TextEncoder().encode(text));
    });

    test("two names that normalise alike do not share a text", async () => {
      const texts = ["Alike/one", "alike one", "Alike?one"].map((name) => pricingText({ name: mine(name) }));
      const paths = new Set<string>();
      for (const [i, name] of ["Alike/one", "alike one", "Alike?one"].entries()) {
        await to.call("POST", "", yamlUpload(texts[i] ?? ""));
        const { body } = await to.call<{ path: string }>(
          "GET",
          `/${encodeURIComponent(mine(name))}/pricings/1.0.0/public-url`,
        );
        paths.add(body.path);
        expect((await api.call("GET", body.path)).body).toBe(texts[i]);
      }
      expect(paths.size).toBe(3);
    });

    test("the text is gone with its pricing, deleted or pruned", async () => {
      const name = mine("Text goes");
      await to.create({ name });
      await to.add({ name, version: "2.0.0" });
      const { body } = await to.call<{ path: string }>("GET", `/${name}/pricings/1.0.0/public-url`);
      await to.archive(name, "1.0.0", { subscriptionPlan: "FREE" });
      expect(await api.call("GET", body.path)).toMatchObject({ status: 200 });
      await to.call("DELETE", `/${name}/pricings/1.0.0`);
      expect(await api.call("GET", body.path)).toMatchObject({ status: 404 });
    });

    test("a guessed path outside of what was uploaded answers 404", async () => {
      for (const path of ["x.yaml", "..%2f..%2fetc%2fpasswd", "%00", "x".repeat(3000)]) {
        const { status } = await api.call("GET", `/static/pricings/${path}`);
        expect([400, 404]).toContain(status);
      }
    });
  });

  describe("DELETE of one", () => {
    const refused = (version: string, name: string) => ({
      status: 404,
      body: {
        error: `Invalid request: No archived version ${version} found for service ${name}. Remember that a pricing must be archived before it can be deleted.`,
      },
    });

    test("an archived version goes with 204 and no event, and may be uploaded again", async () => {
      const name = mine("Deletes");
      await to.create({ name });
      await to.add({ name, version: "2.0.0" });
      await to.archive(name, "1.0.0", { subscriptionPlan: "FREE" });
      const { result, events } = await eventsDuring(api.database, () =>
        to.call("DELETE", `/${name.toLowerCase()}/pricings/1_0_0`),
      );
      expect(result).toMatchObject({ status: 204, body: undefined });
      expect(events).toEqual([]);
      expect(await to.call("GET", `/${name}/pricings/1.0.0`)).toMatchObject(noVersion("1.0.0", name));
      expect((await to.call("GET", `/${name}`)).body).toMatchObject({ archivedPricings: {} });
      expect(await to.add({ name })).toMatchObject({ status: 201 });
    });

    test.each(["1.0.0", "9.9.9"])("version %s, active or unknown, answers the documented 404", async (version) => {
      const name = mine(`Keeps ${version}`);
      await to.create({ name });
      expect(await to.call("DELETE", `/${name}/pricings/${version}`)).toMatchObject(refused(version, name));
      expect(await to.call("GET", `/${name}/pricings/1.0.0`)).toMatchObject({ status: 200 });
    });

    test("an unknown service answers 404", async () => {
      expect(await to.call("DELETE", "/NoBody/pricings/1")).toMatchObject(noService("NoBody"));
    });
  });
});

test("public-url uses the configured address and believes no Host header", async () => {
  const own = await createTestApi({ settings: { publicUrl: "https://prices.example.org/space" } });
  try {
    await own.call("POST", "/services", { key: own.callers.all.key, body: yamlUpload(pricingText()) });
    const answer = await own.call("GET", "/services/Acme/pricings/1.0.0/public-url", {
      key: own.callers.evaluation.key,
      headers: { host: "evil.example", "x-forwarded-host": "evil.example" },
    });
    const path = `/static/pricings/${own.callers.organizationId}-acme-1.0.0.yaml`;
    expect(answer).toMatchObject({ status: 200, body: { path, url: `https://prices.example.org/space${path}` } });
  } finally {
    await own.close();
  }
});

test("paths without a rule answer 403 with details, HEAD answers like GET", async () => {
  const { key } = api.callers.all;
  expect(await api.call("PATCH", "/services", { key })).toMatchObject({
    status: 403,
    body: {
      error: "You do not have permission to access this resource",
      details: "No permission rule found for PATCH /services",
    },
  });
  const head = await api.call("HEAD", "/services", { key });
  expect(head).toMatchObject({ status: 200, body: undefined });
});
