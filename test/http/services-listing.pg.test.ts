import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, FAMILIES, type FamilyCalls, familyCalls, type ServiceAnswer } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";
import { processorMs } from "../support/processor-time.ts";

let api: TestApi;
/** Byte order: upper case before lower case, letters beyond ASCII last. */
const NAMES = ["100% sure", "A.B", "A_B", "Abc", "Back\\slash", "Zoom", "[x]", "a+b", "abcd", "zoom (pro)", "Éclair"];
beforeAll(async () => {
  api = await createTestApi();
  const to = familyCalls(api, "/services");
  for (const name of NAMES.toReversed()) await to.create({ name });
  await to.create({ name: "Disabled" });
  await to.call("DELETE", "/Disabled");
});
afterAll(() => api.close());

const list = async (to: FamilyCalls, query = "") => {
  const answer = await to.call<ServiceAnswer[]>("GET", query);
  expect(answer.status).toBe(200);
  return answer.body.map(({ name }) => name);
};

/** Counts the statements that `work` sends to the database. */
async function queriesDuring(work: () => Promise<unknown>): Promise<number> {
  const options = api.database.connection.client.options as { debug?: unknown };
  let count = 0;
  options.debug = () => {
    count += 1;
  };
  try {
    await work();
    return count;
  } finally {
    options.debug = false;
  }
}

describe.each(FAMILIES)("GET %s", (family) => {
  let to: FamilyCalls;
  beforeAll(() => {
    to = familyCalls(api, family);
  });

  test("only enabled services are listed, by name in byte order, as a bare array without paging headers", async () => {
    const answer = await to.call<ServiceAnswer[]>("GET", "");
    expect(answer.body.map(({ name }) => name)).toEqual(NAMES);
    expect(answer.headers.get("x-total-count")).toBeNull();
    expect(Object.keys(answer.body[0] ?? {})).toEqual(["name", "organizationId", "disabled", "activePricings", "id"]);
    expect(answer.body.every(({ disabled }) => disabled === false)).toBe(true);
  });

  test("disabled=true lists the disabled services instead", async () => {
    const answer = await to.call<ServiceAnswer[]>("GET", "?disabled=true");
    expect(answer.body.map(({ name, disabled }) => [name, disabled])).toEqual([["Disabled", true]]);
    expect(await list(to, "?disabled=true&name=x")).toEqual([]);
    expect(await list(to, "?disabled=1")).toEqual(NAMES);
  });

  const D = NAMES.toReversed();
  test.each<[string, readonly string[]]>([
    ["order=asc", NAMES],
    ["order=desc", D],
    ["order=DESC", NAMES],
    ["order=sideways", NAMES],
    ["limit=3", NAMES.slice(0, 3)],
    ["limit=3&page=2", NAMES.slice(3, 6)],
    ["limit=3&page=2&order=desc", D.slice(3, 6)],
    ["limit=3&page=99", []],
    ["limit=2&offset=4", NAMES.slice(4, 6)],
    ["limit=2&offset=4&page=3", NAMES.slice(4, 6)],
    ["limit=2&offset=0&page=2", NAMES.slice(2, 4)],
    ["offset=10", NAMES.slice(10)],
    ["limit=3abc", NAMES.slice(0, 3)],
    ["limit=3.9", NAMES.slice(0, 3)],
    ["limit=0", NAMES],
    ["limit=-1", NAMES],
    ["limit=abc", NAMES],
    ["limit=", NAMES],
    ["limit=1e9", NAMES.slice(0, 1)],
    ["limit=1000000000", NAMES],
    ["page=0", NAMES],
    ["page=-5", NAMES],
    ["page=abc", NAMES],
    ["offset=-3", NAMES],
    ["offset=abc", NAMES],
    ["page=9007199254740991&limit=1000", []],
    ["offset=9007199254740991", []],
    ["page=99999999999999999999999", []],
    ["offset=99999999999999999999999", []],
    ["limit=99999999999999999999999", NAMES],
    ["limit=-99999999999999999999999", NAMES],
    ["unknown=1&filters=x&sort=name", NAMES],
    ["name=", NAMES],
  ])("?%s is read as the contract says", async (query, names) => {
    expect(await list(to, `?${query}`)).toEqual(names);
  });

  test.each<[string, readonly string[]]>([
    ["zoom", ["Zoom", "zoom (pro)"]],
    ["ZOOM (", ["zoom (pro)"]],
    ["ÉCLAIR", ["Éclair"]],
    ["éclair", ["Éclair"]],
    [".", ["A.B"]],
    ["_", ["A_B"]],
    ["%", ["100% sure"]],
    ["\\", ["Back\\slash"]],
    ["(", ["zoom (pro)"]],
    ["[", ["[x]"]],
    ["+", ["a+b"]],
    [".*", []],
    ["^", []],
    ["a|b", []],
    ["(a+)+$", []],
    ["'; drop table services; --", []],
    ["x".repeat(10_000), []],
  ])("the name filter %j is literal text in any letter case", async (name, names) => {
    const spentMs = await processorMs(async () =>
      expect(await list(to, `?name=${encodeURIComponent(name)}`)).toEqual(names),
    );
    expect(spentMs).toBeLessThan(1000);
  });
});

test("a limit above 1000 lists a thousand", async () => {
  const own = await api.newOrganization(api.callers.owner, "Thousand");
  const [sample] = await api.database.connection.client`
    select source, model, model_hash, declared_at from pricings limit 1`;
  const { client } = api.database.connection;
  await client`
    insert into services (id, organization_id, name, name_key)
    select lpad(to_hex(n), 24, '0'), ${own.id}, 'Bulk ' || n, 'bulk ' || n from generate_series(1, 1001) n`;
  await client`
    insert into pricings (id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
    select id, id, '1', '1', 'active', ${sample?.["source"]}, p.model, p.model_hash, p.declared_at
    from services, (select model, model_hash, declared_at from pricings limit 1) p where organization_id = ${own.id}`;
  const listed = await api.call<ServiceAnswer[]>("GET", "/services?limit=5000", { key: own.key });
  expect(listed.body).toHaveLength(1000);
  expect(Object.keys(listed.body[999]?.activePricings ?? {})).toEqual(["1"]);
  const pruned = await api.call("DELETE", "/services", { key: own.key });
  expect(pruned.body).toEqual({ message: "Pruned 1001 services" });
});

test("listing costs the same number of statements for one service as for all, and for one version as for many", async () => {
  const key = api.callers.all.key;
  const get = (path: string) => () => api.call("GET", path, { key });
  await get("/services")();
  const forOne = await queriesDuring(get("/services?limit=1"));
  expect(await queriesDuring(get("/services?limit=1000"))).toBe(forOne);
  expect(forOne).toBeLessThanOrEqual(3);
  const versionsOfOne = await queriesDuring(get("/services/Abc/pricings"));
  for (let i = 2; i < 12; i += 1) await familyCalls(api, "/services").add({ name: "Abc", version: `${i}` });
  expect(await queriesDuring(get("/services/Abc/pricings"))).toBe(versionsOfOne);
  expect(await queriesDuring(get("/services?limit=1000"))).toBe(forOne);
});

test("archiving costs the same number of statements for one contract as for thirty", async () => {
  const to = familyCalls(api, "/services");
  const counts: number[] = [];
  for (const contracts of [1, 30]) {
    const name = `Cost ${contracts}`;
    await to.create({ name });
    await to.add({ name, version: "2" });
    for (let i = 0; i < contracts; i += 1) {
      await contract(api, `${name}-${i}`, { [name]: { version: "1.0.0", plan: "FREE" } });
    }
    counts.push(await queriesDuring(() => to.archive(name, "1.0.0", { subscriptionPlan: "FREE" })));
  }
  expect(counts[1]).toBe(counts[0]);
});

describe("organizations", () => {
  test("a platform ADMIN lists the services of all of them, or of the one named", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Other");
    await api.call("POST", "/services", { key: other.key, body: yamlUpload(pricingText({ name: "Of other" })) });
    const { key } = api.callers.platformAdmin;
    const all = await api.call<ServiceAnswer[]>("GET", "/services?limit=1000", { key });
    expect(new Set(all.body.map(({ organizationId }) => organizationId))).toEqual(
      new Set([other.id, api.callers.organizationId]),
    );
    const one = await api.call<ServiceAnswer[]>("GET", `/services?organizationId=${other.id}`, { key });
    expect(one.body.map(({ name }) => name)).toEqual(["Of other"]);
  });

  test("somebody else's service looks exactly like none, whatever is asked of it", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Stranger");
    const before = await api.call("GET", "/services/Zoom", { key: api.callers.all.key });
    for (const [method, path, body] of [
      ["GET", "", undefined],
      ["PUT", "", { name: "Stolen" }],
      ["DELETE", "", undefined],
      ["GET", "/pricings", undefined],
      ["POST", "/pricings", yamlUpload(pricingText({ name: "Zoom", version: "6" }))],
      ["GET", "/pricings/1.0.0", undefined],
      ["GET", "/pricings/1.0.0/public-url", undefined],
      ["PUT", "/pricings/1.0.0?availability=active", undefined],
      ["DELETE", "/pricings/1.0.0", undefined],
    ] as const) {
      const foreign = await api.call(method, `/services/Zoom${path}`, { key: other.key, body });
      expect(foreign).toMatchObject({ status: 404, body: { error: "NOT FOUND: Service with name Zoom" } });
      const named = `/services/Zoom${path}${path.includes("?") ? "&" : "?"}organizationId=${api.callers.organizationId}`;
      expect((await api.call(method, named, { key: other.key, body })).status).toBe(404);
      const nested = `/organizations/${api.callers.organizationId}/services/Zoom${path}`;
      expect((await api.call(method, nested, { key: api.callers.outsider.key, body })).status).toBe(403);
    }
    expect((await api.call("GET", "/services/Zoom", { key: api.callers.all.key })).body).toEqual(before.body);
  });
});

test("a write is visible to the next read, whoever reads and however the name is spelled", async () => {
  const inside = familyCalls(api, FAMILIES[1]);
  const reader = (path: string) => api.call("GET", path, { key: api.callers.evaluation.key });
  const spellings = ["Fresh One", "fresh one", "FRESH ONE", "fReSh OnE"];
  const everywhere = async (status: number) => {
    for (const name of spellings) expect((await reader(`/services/${name}`)).status).toBe(status);
  };
  await everywhere(404);
  await inside.create({ name: "Fresh One" });
  await everywhere(200);
  await inside.add({ name: "Fresh One", version: "2.0.0" });
  for (const name of spellings) {
    expect((await reader(`/services/${name}/pricings`)).body).toHaveLength(2);
    expect((await reader(`/services/${name}/pricings/2_0_0`)).status).toBe(200);
  }
  await contract(api, "fresh", { "fresh one": { version: "1.0.0", plan: "PRO" } });
  const evaluate = async () => (await api.call("POST", "/features/fresh", { key: api.callers.all.key })).body;
  expect(await evaluate()).toMatchObject({ "fresh one-export": true });
  await inside.archive("FRESH ONE", "1.0.0", { subscriptionPlan: "FREE" });
  expect(await evaluate()).toMatchObject({ "fresh one-export": false });
  expect((await reader("/services/fresh one/pricings?pricingStatus=archived")).body).toHaveLength(1);
  await inside.call("DELETE", "/fresh one/pricings/1.0.0");
  for (const name of spellings) expect((await reader(`/services/${name}/pricings/1.0.0`)).status).toBe(404);
  await inside.call("PUT", "/fresh one", { name: "Renamed One" });
  await everywhere(404);
  expect(Object.keys(await evaluate())).toEqual(["renamed one-board", "renamed one-export"]);
  await inside.call("DELETE", "/renamed one");
  expect((await reader("/services/renamed one")).status).toBe(404);
  expect(await evaluate()).toEqual({});
});
