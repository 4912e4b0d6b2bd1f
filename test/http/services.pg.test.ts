import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { FAMILIES, type FamilyCalls, familyCalls, type ServiceAnswer, serviceOf } from "../support/service-calls.ts";
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
const notFound = (name: string) => ({ status: 404, body: { error: `NOT FOUND: Service with name ${name}` } });
const created = (serviceName: string, pricingVersion: string) => ({
  code: "PRICING_CREATED",
  details: { serviceName, pricingVersion },
});

describe.each(FAMILIES)("%s", (family) => {
  let to: FamilyCalls;
  // Names are unique per family of routes, because both families share the organization.
  const mine = (name: string) => `${name} ${FAMILIES.indexOf(family)}`;
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  describe("POST creates", () => {
    test("a file makes a service with the keys of the contract and its warnings, and one PRICING_CREATED", async () => {
      const name = mine("Microsoft 365 - For Business.x");
      const { result, events } = await eventsDuring(api.database, () => to.create({ name, version: "2024-1-15" }));
      expect(result.status).toBe(201);
      expect(result.headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(result.headers.get("location")).toBeNull();
      expect(result.body).toEqual({
        name,
        organizationId: api.callers.organizationId,
        disabled: false,
        activePricings: { "2024-1-15": { id: ID } },
        id: ID,
        warnings: expect.any(Array),
      });
      const keys = Object.keys(serviceOf(result.body));
      expect(keys).toEqual(["name", "organizationId", "disabled", "activePricings", "id"]);
      expect(events).toEqual([created(name, "2024-1-15")]);
    });

    test("a JSON pricing is accepted as YAML, whatever the file is called", async () => {
      const form = new FormData();
      const { name, ...rest } = { name: mine("As JSON"), version: "1" };
      const pricing = {
        saasName: name,
        syntaxVersion: "3.0",
        createdAt: "2025-01-01",
        currency: "EUR",
        ...rest,
        features: { only: { valueType: "BOOLEAN", defaultValue: true, type: "DOMAIN" } },
        plans: { FREE: { price: 0, unit: "user", features: null } },
      };
      form.append("pricing", new Blob([JSON.stringify(pricing)], { type: "image/png" }), "picture.png");
      expect(await to.call("POST", "", form)).toMatchObject({ status: 201, body: { name } });
    });

    test("other fields beside the file are ignored", async () => {
      const form = yamlUpload(pricingText({ name: mine("Ignores others") }));
      form.append("name", "Something else");
      form.append("description", "text");
      form.append("pricing", "https://pricings.example.org/ignored.yml");
      const answer = await to.call("POST", "", form);
      expect(answer).toMatchObject({ status: 201, body: { name: mine("Ignores others") } });
      expect(answer.body).not.toHaveProperty("description");
      expect(answer.body).toMatchObject({ activePricings: { "1.0.0": { id: ID } } });
    });

    const NOTHING = "No file or URL provided";
    const UNREADABLE = "Pricing parsing error: The file does not contain valid YAML content.";
    test.each<[string, () => unknown, string]>([
      ["nothing at all", () => undefined, NOTHING],
      ["an empty object", () => ({}), NOTHING],
      ["an empty pricing", () => ({ pricing: "" }), NOTHING],
      ["a null pricing", () => ({ pricing: null }), NOTHING],
      ["a list", () => ["https://x"], NOTHING],
      ["a form without the field", () => new FormData(), NOTHING],
      ["a number as address", () => ({ pricing: 7 }), "Invalid URL"],
      ["an object as address", () => ({ pricing: { url: "https://x" } }), "Invalid URL"],
      ["a very long address", () => ({ pricing: `https://example.org/${"x".repeat(2048)}` }), "Invalid URL"],
      ["a relative address", () => ({ pricing: "pricings/acme.yml" }), "Invalid URL"],
      ["a path on the server's disk", () => ({ pricing: "public/../../etc/passwd" }), "Invalid URL"],
      ["an empty file", () => yamlUpload(""), UNREADABLE],
      ["a file that is not UTF-8", () => binaryUpload([0x66, 0xff, 0xfe, 0x0a]), UNREADABLE],
      ["a file in UTF-16", () => binaryUpload(Buffer.from(`\uFEFF${pricingText()}`, "utf16le")), "Pricing parsing error: The file is encoded in UTF-16. Save it as UTF-8."], // prettier-ignore
      ["a file in Latin-1", () => binaryUpload(Buffer.from("saasName: Café\n", "latin1")), "Pricing parsing error: The file is not encoded in UTF-8, but probably in Latin-1. Save it as UTF-8."], // prettier-ignore
      ["a compressed file", () => binaryUpload(gzipSync(pricingText())), "Pricing parsing error: The file is compressed with gzip. Unpack it first."], // prettier-ignore
    ])("%s is refused with 400 and its sentence", async (_, body, error) => {
      const { result, events } = await eventsDuring(api.database, () => to.call("POST", "", body()));
      expect(result).toMatchObject({ status: 400, body: { error } });
      expect(events).toEqual([]);
    });

    test.each([
      ["not YAML", "a: [", /^Pricing parsing error: /],
      ["a pricing without a currency", pricingText().replace(/^currency.*$/m, ""), /^Pricing parsing error: /],
      ["a formula that would be code", pricingText({ plans: "\n  PRO: { price: '#x; process.exit()', unit: u, features: null }" }), /^Pricing parsing error: /], // prettier-ignore
      ["an alias bomb", `a: &a [x,x,x,x,x,x,x,x,x,x]\n${"bcdefghij".split("").map((k, i) => `${k}: &${k} [${`*${"abcdefghij"[i]},`.repeat(9)}*${"abcdefghij"[i]}]`).join("\n")}\n`, /^Pricing parsing error: /], // prettier-ignore
      ["a nesting without end", `a: ${"[".repeat(10_000)}`, /^Pricing parsing error: /],
    ])("%s is refused with 400 and where the problem is", async (_, text, error) => {
      const before = process.cpuUsage();
      const answer = await to.call("POST", "", yamlUpload(text));
      expect(answer).toMatchObject({ status: 400, body: { error: expect.stringMatching(error) } });
      expect(process.cpuUsage(before).user / 1000).toBeLessThan(2000);
      expect(answer.body).toMatchObject({
        problems: expect.arrayContaining([expect.objectContaining({ line: expect.any(Number) })]),
      });
    });

    test.each([
      ["features", { features: `\n  "bad.key": { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }`, usageLimits: " {}", plans: `\n  FREE: { price: 0, unit: u, features: null }`, addOns: " {}" }], // prettier-ignore
      ["usageLimits", { usageLimits: `\n  "bad.key": { valueType: NUMERIC, defaultValue: 1, unit: u, type: NON_RENEWABLE }`, addOns: " {}" }], // prettier-ignore
      ["plans", { plans: `\n  "bad.key": { price: 0, unit: u, features: null }`, addOns: " {}" }],
      ["addOns", { addOns: `\n  "bad.key": { price: 0, unit: u, features: { export: { value: true } } }` }],
    ])("an illegal key in %s is refused with its own sentence, without the parser's prefix", async (map, parts) => {
      const name = mine(`Illegal key in ${map}`);
      expect(await to.create({ name, ...parts })).toMatchObject({
        status: 400,
        body: { error: `Invalid key in ${map}: "bad.key". Keys must not contain "." or other invalid characters.` },
      });
      expect(await to.call("GET", `/${name}`)).toMatchObject(notFound(name));
    });

    test("all illegal keys are named at once, each with its place, what is allowed and a legal key", async () => {
      const features = `
  24/7support: { valueType: BOOLEAN, defaultValue: true, type: SUPPORT }
  99.9UptimeSLA: { valueType: BOOLEAN, defaultValue: true, type: GUARANTEE }`;
      const answer = await to.create({ name: mine("Illegal keys"), features, usageLimits: " {}", plans: `\n  Pro+: { price: 0, unit: u, features: null }`, addOns: " {}" }); // prettier-ignore
      const rule = 'Keys must not contain "." or other invalid characters.';
      const allowed = 'Allowed are A-Z, a-z, 0-9, "_" and "-"';
      const place = { line: expect.any(Number), column: 3 };
      expect(answer).toMatchObject({
        status: 400,
        body: {
          error: `Invalid key in features: "24/7support". ${rule}`,
          problems: [
            { message: `Invalid key in features: "24/7support". ${rule} ${allowed}, such as "support247".`, path: "features.24/7support", ...place },
            { message: `Invalid key in features: "99.9UptimeSLA". ${rule} ${allowed}, such as "uptimeSLA99_9".`, path: "features.99.9UptimeSLA", ...place },
            { message: `Invalid key in plans: "Pro+". ${rule} ${allowed}, such as "Pro_Plus".`, path: "plans.Pro+", ...place },
          ],
        },
      }); // prettier-ignore
    });

    test("a name that is taken is refused in any letter case, and nothing of the upload is stored", async () => {
      const name = mine("Taken");
      await to.create({ name });
      const again = name.toUpperCase();
      const { result, events } = await eventsDuring(api.database, () => to.create({ name: again, version: "9.9" }));
      expect(result).toMatchObject({
        status: 400,
        body: { error: `Invalid request: Service ${again} already exists` },
      });
      expect(events).toEqual([]);
      const shown = await to.call<ServiceAnswer>("GET", `/${name}`);
      expect(Object.keys(shown.body.activePricings)).toEqual(["1.0.0"]);
    });

    test("a refused upload leaves the published text of the existing version as it is", async () => {
      const name = mine("Published");
      await to.create({ name });
      await to.call("POST", "", yamlUpload(`${pricingText({ name })}# another text\n`));
      const { body } = await to.call<{ path: string }>("GET", `/${name}/pricings/1.0.0/public-url`);
      expect(await api.call("GET", body.path)).toMatchObject({ status: 200, body: pricingText({ name }) });
    });

    test("the same name in another organization is another service", async () => {
      const name = mine("Shared name");
      const first = await to.create({ name });
      const other = await api.newOrganization(api.callers.outsider);
      const second = await api.call("POST", "/services", { key: other.key, body: yamlUpload(pricingText({ name })) });
      expect(second).toMatchObject({ status: 201, body: { organizationId: other.id } });
      expect(second.body.id).not.toBe(first.body.id);
    });
  });

  describe("GET of one", () => {
    test.each(["as it is", "in upper case", "in lower case"])("a service is found by its name %s", async (spelling) => {
      const name = mine(`Find ${spelling}`);
      const made = await to.create({ name });
      const asked =
        spelling === "in upper case" ? name.toUpperCase() : spelling === "in lower case" ? name.toLowerCase() : name;
      expect(await to.call("GET", `/${encodeURIComponent(asked)}`)).toMatchObject({
        status: 200,
        body: serviceOf(made.body),
      });
    });

    test.each(["Zoo", "Zoom.", "Z..m", ".*", "Zoom|x", "[", "(", "\\", "%", "_oom", "Zoom ", "[object Object]"])(
      "%j does not find Zoom: the whole name is compared, literally",
      async (asked) => {
        if (!(await to.call("GET", `/${mine("Zoom")}`)).body.id) await to.create({ name: mine("Zoom") });
        const spelled = asked.startsWith("Zoom") || asked.startsWith("Z..m") ? mine(asked) : asked;
        expect(await to.call("GET", `/${encodeURIComponent(spelled)}`)).toMatchObject(notFound(spelled));
      },
    );

    test("letters beyond ASCII are found in either case, and one trailing slash means nothing", async () => {
      const name = mine("Ärzte Übersicht Ñ");
      const made = await to.create({ name });
      const path = `/${encodeURIComponent(name.toLowerCase())}`;
      expect(await to.call("GET", `${path}/`)).toMatchObject({ status: 200, body: { id: made.body.id } });
      const listed = await to.call<ServiceAnswer[]>("GET", `?name=${encodeURIComponent("ÜBERSICHT ñ")}`);
      expect(listed.body.map((one) => one.id)).toContain(made.body.id);
    });

    test("a disabled service is not found", async () => {
      const name = mine("Gone");
      await to.create({ name });
      await to.call("DELETE", `/${name}`);
      expect(await to.call("GET", `/${name}`)).toMatchObject(notFound(name));
    });
  });

  describe("DELETE of one", () => {
    test("disabling answers 204 without a body and records one SERVICE_DISABLED with the stored name", async () => {
      const name = mine("To disable");
      await to.create({ name });
      const { result, events } = await eventsDuring(api.database, () =>
        to.call("DELETE", `/${name.toUpperCase()}`, "", { "content-type": "application/json" }),
      );
      expect(result).toMatchObject({ status: 204, body: undefined });
      expect(events).toEqual([{ code: "SERVICE_DISABLED", details: { serviceName: name } }]);
    });

    test.each(["unknown", "already disabled"])(
      "a service that is %s answers 404 and records nothing",
      async (state) => {
        const name = mine(`Not there, ${state}`);
        if (state !== "unknown") {
          await to.create({ name });
          await to.call("DELETE", `/${name}`);
        }
        const { result, events } = await eventsDuring(api.database, () => to.call("DELETE", `/${name}`));
        expect(result).toMatchObject(notFound(name));
        expect(events).toEqual([]);
      },
    );

    test("a name that contains another disables only itself", async () => {
      const name = mine("Zed pro");
      const longer = `${name} max`;
      await to.create({ name });
      await to.create({ name: longer });
      await to.call("DELETE", `/${name}`);
      expect(await to.call("GET", `/${longer}`)).toMatchObject({ status: 200 });
    });

    test("a disabled service vanishes from list, show, pricings, add and availability, and cannot be changed", async () => {
      const name = mine("Vanishing");
      await to.create({ name });
      await to.call("DELETE", `/${name}`);
      const listed = await to.call<ServiceAnswer[]>("GET", "?limit=1000");
      expect(listed.body.map((one) => one.name)).not.toContain(name);
      for (const [method, path] of [
        ["GET", `/${name}/pricings`],
        ["GET", `/${name}/pricings?pricingStatus=archived`],
        ["GET", `/${name}/pricings/1.0.0`],
        ["GET", `/${name}/pricings/1.0.0/public-url`],
        ["PUT", `/${name}/pricings/1.0.0?availability=active`],
        ["PUT", `/${name}`],
        ["DELETE", `/${name}/pricings/1.0.0`],
      ] as const) {
        expect(await to.call(method, path)).toMatchObject(notFound(name));
      }
      expect(await to.add({ name, version: "2" })).toMatchObject(notFound(name));
    });

    test("its name stays reserved: a rename to it is a conflict", async () => {
      const name = mine("Reserved");
      await to.create({ name });
      await to.call("DELETE", `/${name}`);
      await to.create({ name: mine("Wants it") });
      expect(await to.call("PUT", `/${mine("Wants it")}`, { name })).toMatchObject({
        status: 409,
        body: { error: `CONFLICT: Service name ${name} already exists` },
      });
    });
  });

  describe("POST re-enables", () => {
    test("a disabled service comes back under its id and spelling, with only the new version active", async () => {
      const name = mine("Phoenix");
      const first = await to.create({ name, version: "1.0.0" });
      await to.add({ name, version: "2.0.0" });
      await to.call("DELETE", `/${name}`);
      const { result, events } = await eventsDuring(api.database, () =>
        to.create({ name: name.toUpperCase(), version: "3.0.0" }),
      );
      expect(result).toMatchObject({ status: 201, body: { id: first.body.id, name, disabled: false } });
      expect(Object.keys(serviceOf(result.body))).toEqual([
        "name",
        "organizationId",
        "disabled",
        "activePricings",
        "archivedPricings",
        "id",
      ]);
      expect(result.body.activePricings).toEqual({ "3.0.0": { id: ID } });
      expect(Object.keys(result.body.archivedPricings ?? {})).toEqual(["1.0.0", "2.0.0"]);
      expect(events).toEqual([created(name, "3.0.0")]);
    });

    test("the same version sets the old one aside under its label and the moment, again and again", async () => {
      const name = mine("Sets aside");
      const moment = api.resources.now().getTime();
      await to.create({ name, version: "1.0" });
      for (const round of [1, 2, 3]) {
        await to.call("DELETE", `/${name}`);
        const answer = await to.create({ name, version: "1.0" });
        expect(answer.status).toBe(201);
        expect(Object.keys(answer.body.archivedPricings ?? {})).toEqual(
          Array.from({ length: round }, (_, i) => `1.0.${moment + i}`),
        );
      }
      const aside = `1.0.${moment}`;
      expect(await to.call("GET", `/${name}/pricings/${aside}`)).toMatchObject({
        status: 200,
        body: { version: aside, currency: "EUR" },
      });
      expect(await to.call("GET", `/${name}/pricings/${aside.replaceAll(".", "_")}`)).toMatchObject({ status: 200 });
      expect(await to.call("DELETE", `/${name}/pricings/${aside}`)).toMatchObject({ status: 204 });
    });

    test("a re-enabled service whose only version is the same shows both", async () => {
      const name = mine("Same spelling");
      await to.create({ name, version: "v1_beta" });
      await to.call("DELETE", `/${name}`);
      const answer = await to.create({ name, version: "v1.beta" });
      expect(Object.keys(answer.body.activePricings)).toEqual(["v1.beta"]);
      expect(Object.keys(answer.body.archivedPricings ?? {})).toEqual([
        expect.stringMatching(/^v1_beta\.\d{13}$/) as unknown,
      ]);
    });
  });

  describe("PUT renames", () => {
    const NAME_LENGTH = "The name must be between 1 and 255 characters long";
    const ID_LENGTH = "The organizationId must be 24 characters long";
    test.each<[unknown, string]>([
      [{ name: null }, "The name field must be a string"],
      [{ name: 7 }, "The name field must be a string"],
      [{ name: ["x"] }, "The name field must be a string"],
      [{ name: "" }, NAME_LENGTH],
      [{ name: "x".repeat(256) }, NAME_LENGTH],
      [{ organizationId: null }, "The organizationId field must be a string"],
      [{ organizationId: 7 }, "The organizationId field must be a string"],
      [{ organizationId: "" }, ID_LENGTH],
      [{ organizationId: "abc" }, ID_LENGTH],
      [{ organizationId: "a".repeat(25) }, ID_LENGTH],
      [{ name: 7, organizationId: 7 }, "The name field must be a string"],
    ])("%j answers 422 before the service is looked up", async (body, error) => {
      expect(await to.call("PUT", "/nobody", body)).toMatchObject({ status: 422, body: { error } });
    });

    test.each<[string, unknown]>([
      ["{}", {}],
      ["its own name", { name: "Unchanging" }],
      ["a blank name", { name: "   " }],
      ["unknown fields", { activePricings: {}, description: "x", disabled: true, id: "y" }],
    ])("%s leaves the service as it is, with 200 and no event", async (_, body) => {
      const name = mine("Unchanging");
      const before = await to.call("GET", `/${name}`);
      if (before.status === 404) await to.create({ name });
      const sent = JSON.parse(JSON.stringify(body).replace('"Unchanging"', JSON.stringify(name))) as unknown;
      const { result, events } = await eventsDuring(api.database, () => to.call("PUT", `/${name}`, sent));
      expect(result).toMatchObject({ status: 200 });
      expect(result.body).toEqual((await to.call("GET", `/${name}`)).body);
      expect(events).toEqual([]);
    });

    test("a new name is trimmed, takes everything along, and is at once the only one", async () => {
      const name = mine("Old name");
      const next = mine("New name");
      const made = await to.create({ name });
      await to.add({ name, version: "2.0.0" });
      const before = await to.call<{ path: string }>("GET", `/${name}/pricings/1.0.0/public-url`);
      const { result, events } = await eventsDuring(api.database, () =>
        to.call("PUT", `/${name.toUpperCase()}`, { name: `  ${next}  ` }),
      );
      expect(result).toMatchObject({ status: 200, body: { id: made.body.id, name: next } });
      expect(events).toEqual([]);
      expect(await to.call("GET", `/${name}`)).toMatchObject(notFound(name));
      const pricings = await to.call<{ version: string; yamlPath: string }[]>("GET", `/${next}/pricings`);
      expect(pricings.body.map((one) => one.version)).toEqual(["1.0.0", "2.0.0"]);
      expect(pricings.body[0]?.yamlPath).toBe(before.body.path);
      expect(await api.call("GET", before.body.path)).toMatchObject({ status: 200 });
    });

    test.each([".", "..", " .. "])(
      "the name %j, which no path can carry, answers 400 and changes nothing",
      async (next) => {
        const name = mine(`Dots ${next.length}`);
        await to.create({ name });
        expect(await to.call("PUT", `/${name}`, { name: next })).toMatchObject({
          status: 400,
          body: { error: "INVALID DATA: The name of a service must not be . or .." },
        });
        expect(await to.call("GET", `/${name}`)).toMatchObject({ status: 200, body: { name } });
      },
    );

    test("another letter case of its own name is no conflict", async () => {
      const name = mine("case");
      await to.create({ name });
      expect(await to.call("PUT", `/${name}`, { name: name.toUpperCase() })).toMatchObject({
        status: 200,
        body: { name: name.toUpperCase() },
      });
    });

    test("a part of an existing name is free", async () => {
      await to.create({ name: mine("Whole phrase") });
      const name = mine("Part");
      await to.create({ name });
      expect(await to.call("PUT", `/${name}`, { name: "Whole phr" + family.length })).toMatchObject({ status: 200 });
    });

    test("a name of another service is a conflict in any letter case, and nothing changes", async () => {
      const [name, other] = [mine("Would be"), mine("Is already")];
      await to.create({ name });
      await to.create({ name: other });
      expect(await to.call("PUT", `/${name}`, { name: other.toUpperCase() })).toMatchObject({
        status: 409,
        body: { error: `CONFLICT: Service name ${other.toUpperCase()} already exists` },
      });
      expect(await to.call("GET", `/${name}`)).toMatchObject({ status: 200, body: { name } });
    });

    test("an unknown service answers 404 with the name as received", async () => {
      expect(await to.call("PUT", "/NoBody%20here", { name: "x" })).toMatchObject(notFound("NoBody here"));
    });
  });
});

function binaryUpload(bytes: Iterable<number>): FormData {
  const form = new FormData();
  form.append("pricing", new Blob([new Uint8Array(bytes)]), "pricing.yml");
  return form;
}
