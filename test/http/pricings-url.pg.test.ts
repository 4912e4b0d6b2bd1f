import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDownload } from "../../src/entries/platform/download.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { eventsDuring, expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, FAMILIES, type FamilyCalls, familyCalls } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

let api: TestApi;
let server: Server;
let origin: string;
/** Files of the remote host by path, and the number of requests. */
const remote = new Map<string, { status: number; text: string }>();
let asked = 0;

beforeAll(async () => {
  server = createServer((request, response) => {
    asked += 1;
    const found = remote.get(request.url ?? "");
    response.writeHead(found?.status ?? 404).end(found?.text ?? "");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  api = await createTestApi({ resources: { download: createDownload({ allowedHosts: ["127.0.0.1"] }) } });
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
  server.closeAllConnections();
  server.close();
});

/** Serves a text at the remote host and returns its address. */
function publish(path: string, text: string, status = 200): string {
  remote.set(path, { status, text });
  return `${origin}${path}`;
}

describe.each(FAMILIES)("%s by URL", (family) => {
  let to: FamilyCalls;
  const mine = (name: string) => `${name}${FAMILIES.indexOf(family)}`;
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  test.each(["JSON", "form", "multipart"])(
    "the address may come as %s; the locator is the address, without id",
    async (kind) => {
      const name = mine(`From${kind}`);
      const url = publish(`/${name}.yml`, pricingText({ name }));
      const form = new FormData();
      form.append("pricing", url);
      const { result, events } = await eventsDuring(api.database, () =>
        kind === "JSON"
          ? to.call("POST", "", { pricing: url })
          : kind === "form"
            ? to.call("POST", "", new URLSearchParams({ pricing: url }).toString(), {
                "content-type": "application/x-www-form-urlencoded",
              })
            : to.call("POST", "", form),
      );
      expect(result).toMatchObject({ status: 201, body: { name } });
      expect(result.body["activePricings"]).toEqual({ "1.0.0": { url } });
      expect(events).toEqual([{ code: "PRICING_CREATED", details: { serviceName: name, pricingVersion: "1.0.0" } }]);
    },
  );

  test("the payload is that of a file, without yamlPath and with url as the last key", async () => {
    const name = mine("Payload");
    const url = publish("/Payload.YML?x=Y", pricingText({ name }));
    await to.call("POST", "", { pricing: url });
    await to.add({ name, version: "2" });
    const [byUrl, byFile] = (await to.call<Record<string, unknown>[]>("GET", `/${name}/pricings`)).body;
    expect(Object.keys(byUrl ?? {})).toEqual([...Object.keys(byFile ?? {}).filter((key) => key !== "yamlPath"), "url"]);
    expect({ ...byUrl, version: "2", url: null }).toEqual({ ...byFile, url: null, yamlPath: undefined });
    expect(byUrl).toMatchObject({ _organizationId: api.callers.organizationId, url });
    expect((await to.call("GET", `/${name}/pricings/1.0.0`)).body).toEqual(byUrl);
  });

  test("public-url of it answers 404 with its sentence", async () => {
    const name = mine("NoPath");
    await to.call("POST", "", { pricing: publish(`/${name}`, pricingText({ name })) });
    expect(await to.call("GET", `/${name}/pricings/1.0.0/public-url`)).toMatchObject({
      status: 404,
      body: { error: `Pricing version 1.0.0 for service ${name} does not have a persisted yamlPath` },
    });
  });

  test("what was fetched is never fetched again, and stays as it was when the remote file changes or goes", async () => {
    const name = mine("Snapshot");
    const url = publish(`/${name}`, pricingText({ name }));
    await to.call("POST", "", { pricing: url });
    await contract(api, name, { [name]: { version: "1.0.0", plan: "PRO" } });
    const read = () =>
      Promise.all([
        to.call("GET", `/${name}`),
        to.call("GET", `/${name}/pricings`),
        to.call("GET", `/${name}/pricings/1.0.0`),
        api.call("POST", `/features/${name}?details=true`, { key: api.callers.all.key }),
      ]);
    const before = (await read()).map(({ body }) => JSON.stringify(body));
    const times = asked;
    publish(`/${name}`, pricingText({ name, plans: `\n  PRO: { price: 1, unit: u, features: null }`, addOns: " {}" }));
    api.setNow(new Date("2025-06-15T13:00:00.000Z"));
    expect((await read()).map(({ body }) => JSON.stringify(body))).toEqual(before);
    remote.delete(`/${name}`);
    expect((await read()).map(({ body }) => JSON.stringify(body))).toEqual(before);
    expect(asked).toBe(times);
    api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  });

  test("a further version by URL is added, archived, re-activated and deleted like one of a file", async () => {
    const name = mine("Further");
    await to.create({ name });
    const url = publish(`/${name}`, pricingText({ name, version: "2.0.0" }));
    expect(await to.call("POST", `/${name}/pricings`, { pricing: url })).toMatchObject({
      status: 201,
      body: { activePricings: { "2.0.0": { url } } },
    });
    expect(await to.archive(name, "2.0.0", { subscriptionPlan: "FREE" })).toMatchObject({
      body: { archivedPricings: { "2.0.0": { url } } },
    });
    expect(await to.call("POST", `/${name}/pricings`, { pricing: url })).toMatchObject({
      status: 400,
      body: { error: `Pricing version 2.0.0 already exists for service ${name}` },
    });
    expect((await to.call("DELETE", `/${name}/pricings/2.0.0`)).status).toBe(204);
  });

  test("re-enabling by URL keeps every archived version and records PRICING_CREATED", async () => {
    const name = mine("ReEnabled");
    await to.create({ name });
    await to.call("DELETE", `/${name}`);
    const url = publish(`/${name}`, pricingText({ name, version: "2.0.0" }));
    const { result, events } = await eventsDuring(api.database, () => to.call("POST", "", { pricing: url }));
    expect(result).toMatchObject({ status: 201, body: { archivedPricings: { "1.0.0": {} } } });
    expect(events).toEqual([{ code: "PRICING_CREATED", details: { serviceName: name, pricingVersion: "2.0.0" } }]);
  });

  test("a file beside the address wins, and nothing is fetched", async () => {
    const name = mine("Wins");
    const form = yamlUpload(pricingText({ name }));
    form.append("pricing", `${origin}/never`);
    const times = asked;
    expect((await to.call("POST", "", form)).status).toBe(201);
    expect(asked).toBe(times);
  });

  test.each<[string, () => string, string | RegExp]>([
    [
      "an unreachable status",
      () => publish("/gone", "", 410),
      /^Failed to fetch pricing from URL: .*\/gone, status: 410$/,
    ],
    ["a refused connection", () => "http://127.0.0.1:1/", "Failed to fetch pricing from URL: http://127.0.0.1:1/"],
    ["http: elsewhere", () => "http://example.org/", 'Protocol "http:" not supported. Expected "https:"'],
    ["data:", () => `data:text/yaml,${encodeURIComponent(pricingText())}`, /^Protocol "data:" not supported/],
    ["ftp:", () => "ftp://example.org/x.yml", /^Protocol "ftp:" not supported/],
    ["file:", () => "file:///etc/passwd", /^Protocol "file:" not supported/],
    ["a private address", () => "https://10.0.0.1/x.yml", /^Invalid URL: /],
    ["the metadata address", () => "https://169.254.169.254/latest/meta-data", /^Invalid URL: /],
    ["a host of this machine", () => "https://localhost/x.yml", /^Invalid URL: /],
    ["content that is no pricing", () => publish("/none", "]"), /^Pricing parsing error: /],
    ["a file over 2 MB", () => publish("/big", `#${"x".repeat(2 * 1024 * 1024)}`), /more than 2097152 bytes$/],
  ])("%s is refused with 400 on both endpoints, stores nothing and records nothing", async (_, address, error) => {
    const pricing = address();
    for (const path of ["", "/Acme/pricings"]) {
      const { result, events } = await eventsDuring(api.database, () => to.call("POST", path, { pricing }));
      expect(result).toMatchObject({
        status: 400,
        body: { error: typeof error === "string" ? error : (expect.stringMatching(error) as unknown) },
      });
      expect(events).toEqual([]);
    }
    expect((await to.call("GET", "/Acme")).status).toBe(404);
  });

  test("an illegal key is refused with 400 on both endpoints, on the second one after an unknown service", async () => {
    const name = mine("Keys");
    const plans = `\n  "a.b": { price: 0, unit: u, features: null }`;
    const pricing = publish(`/${name}`, pricingText({ name, version: "2.0.0", plans, addOns: " {}" }));
    const refused = { status: 400, body: { error: expect.stringMatching(/^Invalid key in plans: "a\.b"\./) } };
    expect(await to.call("POST", "", { pricing })).toMatchObject(refused);
    expect(await to.call("POST", `/${name}/pricings`, { pricing })).toMatchObject({ status: 404 });
    await to.create({ name });
    const { result, events } = await eventsDuring(api.database, () =>
      to.call("POST", `/${name}/pricings`, { pricing }),
    );
    expect(result).toMatchObject(refused);
    expect(events).toEqual([]);
  });
});

test("where a runtime cannot fetch safely, an address is refused in one sentence and files work", async () => {
  const own = await createTestApi();
  try {
    const to = familyCalls(own, "/services");
    expect(await to.call("POST", "", { pricing: "https://example.org/p.yml" })).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining("only as files") as unknown },
    });
    expect((await to.create()).status).toBe(201);
  } finally {
    await own.close();
  }
});
