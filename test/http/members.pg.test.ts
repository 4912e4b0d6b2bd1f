import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { schemaVersion } from "../../src/db/migrate.ts";
import { exportFolder, readManifest, writeManifest } from "../../src/entries/platform/organization-folder.ts";
import { exportOrganization, freezeOrganization, importOrganization } from "../../src/operations/moving.ts";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { contract, type ContractBody, show, upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Cases of contract members, by their numbers, and its rules. */

const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;

/** A pricing whose plans have 5 and 3 seats. */
const team = (version = "1.0.0", custom = "custom: { faregate: { seats: seats } }") => `
saasName: Desk
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-01-01"
currency: EUR
${custom}
features:
  invite:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['seats'] < pricingContext['usageLimits']['seats']
  mail:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['mails'] < pricingContext['usageLimits']['mails']
usageLimits:
  seats: { valueType: NUMERIC, defaultValue: 5, unit: seat, type: NON_RENEWABLE, trackable: true }
  mails: { valueType: NUMERIC, defaultValue: 100, unit: mail, type: RENEWABLE, period: { value: 1, unit: MONTH } }
plans:
  TEAM: { price: 10, features: null }
  SMALL: { price: 5, features: null, usageLimits: { seats: { value: 3 } } }
`;

let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  api.setNow(new Date(START));
  key = api.callers.all.key;
  await upload(api, key, team(), team("2.0.0", ""));
});
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

const subscription = (plan = "TEAM", version = "1.0.0") => ({
  contractedServices: { desk: version },
  subscriptionPlans: { desk: plan },
  subscriptionAddOns: {},
});
let users = 0;
async function subscribed(plan = "TEAM", version = "1.0.0"): Promise<string> {
  const userId = `firm-${(users += 1)}`;
  await contract(api, key, userId, { ...subscription(plan, version), billingPeriod: { renewalDays: 365 } });
  return userId;
}

interface Member {
  id: string;
  name: string | null;
  createdAt: string;
}
interface Page {
  data: (Member & { used: Record<string, number> })[];
  next: string | null;
  total: number;
}
const pathOf = (userId: string, member?: string) =>
  `/contracts/${encodeURIComponent(userId)}/members${member === undefined ? "" : `/${encodeURIComponent(member)}`}`;
const add = (userId: string, member: string, body: object = {}, given = key) =>
  api.call<Member & { error: string }>("PUT", pathOf(userId, member), { key: given, body });
const remove = (userId: string, member: string) => api.call("DELETE", pathOf(userId, member), { key });
const replace = (userId: string, data: unknown) =>
  api.call<{ added: number; error: string }>("PUT", pathOf(userId), { key, body: { data } });
const list = async (userId: string, query = "", given = key) =>
  (await api.call<Page>("GET", `${pathOf(userId)}${query}`, { key: given })).body;
const idsOf = async (userId: string, query = "") => (await list(userId, query)).data.map(({ id }) => id);
const seats = async (userId: string) => (await show(api, key, userId)).usageLevels["desk"]?.["seats"]?.consumed;
const novate = async (userId: string, plan: string, version = "1.0.0") => {
  const answer = await api.call("PUT", `/contracts/${userId}`, { key, body: subscription(plan, version) });
  expect(answer).toMatchObject({ status: 200 });
};
async function fill(userId: string, ...members: string[]): Promise<void> {
  for (const member of members) expect(await add(userId, member)).toMatchObject({ status: 201 });
}

describe("the cases", () => {
  test("1: seats are taken one by one, and a smaller plan admits nobody new", async () => {
    const userId = await subscribed();
    await fill(userId, "a", "b", "c", "d", "e");
    expect(await add(userId, "f")).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: No seat is free: 5 of 5 are taken" },
    });
    await novate(userId, "SMALL");
    expect([await seats(userId), (await list(userId)).total]).toEqual([5, 5]);
    expect(await remove(userId, "e")).toMatchObject({ status: 204 });
    expect(await seats(userId)).toBe(4);
    expect(await add(userId, "f")).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: No seat is free: 4 of 3 are taken" },
    });
    expect(await replace(userId, [{ id: "a" }, { id: "f" }, { id: "g" }, { id: "h" }])).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: No seat is free: 3 of 3 are taken" },
    });
    expect(await idsOf(userId)).toEqual(["d", "c", "b", "a"]);
  });

  test("2: two lists of 10,000 that are sent at once leave one of them, whole", async () => {
    const userId = await subscribed("TEAM", "2.0.0");
    const of = (prefix: string) =>
      Array.from({ length: 10_000 }, (_, i) => ({ id: `${prefix}-${i}`, name: `Member ${i}, with a name` }));
    const answers = await Promise.all([replace(userId, of("a")), replace(userId, of("b"))]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const { total, data } = await list(userId);
    expect(total).toBe(10_000);
    const [prefix] = data[0]?.id.split("-") ?? [];
    expect((await list(userId, `?q=${prefix}-`)).total).toBe(10_000);
  });

  test("3: ids are any text, percent-encoded in paths", async () => {
    const userId = await subscribed();
    const ids = ["__proto__", "with some spaces", "👩🏽‍🚀", "a/b", "constructor"];
    await fill(userId, ...ids);
    expect((await idsOf(userId)).toSorted()).toEqual(ids.toSorted());
    for (const id of ids) {
      expect(await api.call("GET", pathOf(userId, id), { key })).toMatchObject({ status: 200, body: { id } });
      const found = await api.call<ContractBody[]>("GET", `/contracts?member=${encodeURIComponent(id)}`, { key });
      expect(found.body.map(({ userContact }) => userContact["userId"])).toEqual([userId]);
    }
    for (const id of ids) expect(await remove(userId, id)).toMatchObject({ status: 204 });
    expect(await seats(userId)).toBe(0);
  });

  test("4: another organization finds nobody", async () => {
    const userId = await subscribed();
    await fill(userId, "a");
    const other = await api.newOrganization(api.callers.owner, "Other");
    for (const [method, path] of [
      ["GET", pathOf(userId)],
      ["PUT", pathOf(userId)],
      ["GET", pathOf(userId, "a")],
      ["PUT", pathOf(userId, "a")],
      ["DELETE", pathOf(userId, "a")],
    ] as const) {
      const body = method === "PUT" ? { data: [] } : undefined;
      const sent = path.endsWith("/a") && method === "PUT" ? {} : body;
      expect(await api.call(method, path, { key: other.key, body: sent })).toMatchObject({
        status: 404,
        body: { error: `Contract with userId ${userId} not found` },
      });
    }
    expect((await api.call("GET", "/contracts?member=a", { key: other.key })).body).toEqual([]);
  });

  test("5: the list stays with the contract, and seats follow its levels", async () => {
    const userId = await subscribed();
    await fill(userId, "a", "b");
    await novate(userId, "TEAM", "2.0.0");
    expect([await seats(userId), (await list(userId)).total]).toEqual([2, 2]);
    await fill(userId, "c");
    expect(await seats(userId), "2.0.0 counts nobody").toBe(2);
    await novate(userId, "TEAM");
    expect(await seats(userId)).toBe(3);
    await api.call("PUT", `/contracts/${userId}`, {
      key,
      body: { contractedServices: {}, subscriptionPlans: {}, subscriptionAddOns: {} },
    });
    await fill(userId, "d", "e", "f");
    await novate(userId, "TEAM");
    expect([await seats(userId), (await list(userId)).total]).toEqual([6, 6]);
    const before = await api.call<ContractBody>("GET", `/contracts/${userId}?at=${new Date(START - 1).toISOString()}`, {
      key,
    });
    expect(before.status).toBe(404);
    expect(await api.call("DELETE", `/contracts/${userId}`, { key })).toMatchObject({ status: 204 });
    await contract(api, key, userId, subscription());
    expect((await list(userId)).total).toBe(0);
  });

  test("5: with at, as many seats are taken as then", async () => {
    const userId = await subscribed();
    const moments: [moment: number, taken: number][] = [];
    const taken = async (at?: number) => {
      const query = at === undefined ? "" : `?at=${new Date(at).toISOString()}`;
      const call = { key, body: {} };
      const shown = await api.call<ContractBody>("GET", `/contracts/${userId}${query}`, { key });
      const { body } = await api.call<{ eval: boolean; used: Record<string, number> }>(
        "POST",
        `/features/${userId}/desk-invite${query}`,
        call,
      );
      return [shown.body.usageLevels["desk"]?.["seats"]?.consumed, body.used["desk-seats"], body.eval];
    };
    const steps: (() => Promise<unknown>)[] = [
      () => fill(userId, "a", "b"),
      () =>
        replace(
          userId,
          ["a", "c", "d", "e", "f"].map((id) => ({ id })),
        ),
      () => remove(userId, "a"),
      () => novate(userId, "SMALL"),
    ];
    let now = START;
    for (const step of steps) {
      await step();
      moments.push([now, (await list(userId)).total]);
      expect((await taken())[0]).toBe(moments.at(-1)?.[1]);
      api.setNow(new Date((now += 60_000)));
    }
    const found = await Promise.all(moments.map(([moment]) => taken(moment)));
    expect(found).toEqual([
      [2, 2, true],
      [5, 5, false],
      [4, 4, true],
      [4, 4, false],
    ]);
    api.setNow(new Date(START));
  });

  test("5: members go along with a contract that moves, and are gone with its organization", async () => {
    const [from, target] = [
      await api.newOrganization(api.callers.owner, "From"),
      await api.newOrganization(api.callers.owner, "Target two"),
    ];
    await upload(api, from.key, team());
    await contract(api, from.key, "mover", subscription());
    expect(await add("mover", "a", {}, from.key)).toMatchObject({ status: 201 });
    expect(await move(from, target)).toMatchObject({ status: 200 });
    expect((await list("mover", "", target.key)).data).toMatchObject([{ id: "a" }]);
    expect(await add("mover", "b", {}, target.key)).toMatchObject({ status: 201 });
    expect(await api.call("DELETE", `/organizations/${target.id}`, { key: api.callers.owner.key })).toMatchObject({
      status: 204,
    });
  });

  test("5: an archived version with a fallback counts members in its successor", async () => {
    const own = await api.newOrganization(api.callers.owner, "Archiving");
    await upload(api, own.key, team(), team("2.0.0"));
    await contract(api, own.key, "firm", subscription());
    expect(await add("firm", "a", {}, own.key)).toMatchObject({ status: 201 });
    const archived = await api.call("PUT", "/services/desk/pricings/1.0.0?availability=archived", {
      key: own.key,
      body: { subscriptionPlan: "SMALL" },
    });
    expect(archived).toMatchObject({ status: 200 });
    const { contractedServices, usageLevels } = await show(api, own.key, "firm");
    expect([contractedServices["desk"], usageLevels["desk"]?.["seats"]?.consumed]).toEqual(["2.0.0", 1]);
    expect(await api.call("DELETE", "/services/desk", { key: own.key })).toMatchObject({ status: 204 });
    expect((await list("firm", "", own.key)).total).toBe(1);
  });
});

test("5: a disabled service leaves the list, and counts it when it is back", async () => {
  const own = await api.newOrganization(api.callers.owner, "Disabling");
  await upload(api, own.key, team());
  await contract(api, own.key, "firm", subscription());
  for (const member of ["a", "b"]) expect(await add("firm", member, {}, own.key)).toMatchObject({ status: 201 });
  expect(await api.call("DELETE", "/services/desk", { key: own.key })).toMatchObject({ status: 204 });
  expect((await show(api, own.key, "firm")).usageLevels).toEqual({});
  expect((await list("firm", "", own.key)).total).toBe(2);
  for (const member of ["c", "d", "e", "f"])
    expect(await add("firm", member, {}, own.key)).toMatchObject({ status: 201 });
  await upload(api, own.key, team());
  const back = await api.call("PUT", "/contracts/firm", { key: own.key, body: subscription() });
  expect(back).toMatchObject({ status: 200 });
  expect((await show(api, own.key, "firm")).usageLevels["desk"]?.["seats"]?.consumed).toBe(6);
  expect(await add("firm", "g", {}, own.key)).toMatchObject({
    status: 409,
    body: { error: "CONFLICT: No seat is free: 6 of 5 are taken" },
  });
});

test("5: an import into another instance has the list and its seats", async () => {
  const own = await api.newOrganization(api.callers.owner, "Exporting");
  await upload(api, own.key, team());
  await contract(api, own.key, "firm", subscription());
  for (const member of ["a", "b", "c", "d"])
    expect(await add("firm", member, {}, own.key)).toMatchObject({ status: 201 });
  const { db, client } = api.database.connection;
  const folder = mkdtempSync(join(tmpdir(), "faregate-members-"));
  const there = await createTestApi();
  try {
    there.setNow(new Date(START));
    const schema = await schemaVersion(client);
    await freezeOrganization(db, own.id, new Date(START));
    const given = { organizationId: own.id, now: new Date(START), schema };
    writeManifest(folder, await exportOrganization(db, exportFolder(folder), given));
    await importOrganization(there.resources, exportFolder(folder), {
      manifest: readManifest(folder),
      schema,
      takesAccounts: true,
    });
    const taken = async () => (await show(there, own.key, "firm")).usageLevels["desk"]?.["seats"]?.consumed;
    const put = (member: string) => there.call("PUT", pathOf("firm", member), { key: own.key, body: {} });
    const listed = await there.call<Page>("GET", pathOf("firm"), { key: own.key });
    expect([listed.body.data.map(({ id }) => id), await taken()]).toEqual([["d", "c", "b", "a"], 4]);
    expect(await put("e")).toMatchObject({ status: 201 });
    expect(await put("f")).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: No seat is free: 5 of 5 are taken" },
    });
    expect((await checkLedger(there.resources.db)).violations).toEqual([]);
  } finally {
    await there.close();
    rmSync(folder, { recursive: true });
  }
});

const move = (from: TestOrganization, target: TestOrganization) =>
  api.call("PUT", `/organizations/${from.id}/services/desk`, {
    key: api.callers.owner.key,
    body: { organizationId: target.id },
  });

const ID_RULE = "a string of 1 to 128 characters, and not . or ..";

describe("the list", () => {
  test("a member is created, replaced, shown and removed", async () => {
    const userId = await subscribed();
    const created = await add(userId, "grace", { name: "Grace" });
    expect(created).toMatchObject({
      status: 201,
      body: { id: "grace", name: "Grace", createdAt: new Date(START).toISOString() },
    });
    expect(await add(userId, "grace", { name: "Grace" })).toMatchObject({ status: 200, body: created.body });
    expect(await add(userId, "grace", { name: "Grace Hopper" })).toMatchObject({
      status: 200,
      body: { name: "Grace Hopper" },
    });
    expect((await api.call("GET", pathOf(userId, "grace"), { key })).body).toEqual({
      id: "grace",
      name: "Grace Hopper",
      used: {},
      createdAt: new Date(START).toISOString(),
    });
    expect(await remove(userId, "grace")).toMatchObject({ status: 204 });
    for (const method of ["GET", "DELETE"] as const) {
      expect(await api.call(method, pathOf(userId, "grace"), { key })).toMatchObject({
        status: 404,
        body: { error: `Member grace of ${userId} not found` },
      });
    }
  });

  test("replacing counts what differs", async () => {
    const userId = await subscribed();
    const first = [{ id: "a", name: "A" }, { id: "b" }, { id: "c" }];
    expect(await replace(userId, first)).toMatchObject({ body: { added: 3, removed: 0, changed: 0 } });
    expect(await replace(userId, first)).toMatchObject({ body: { added: 0, removed: 0, changed: 0 } });
    expect(await replace(userId, [{ id: "b", name: "B" }, { id: "a" }, { id: "d" }])).toMatchObject({
      body: { added: 1, removed: 1, changed: 2 },
    });
    expect(await seats(userId)).toBe(3);
    expect(await replace(userId, [])).toMatchObject({ body: { added: 0, removed: 3, changed: 0 } });
    expect(await seats(userId)).toBe(0);
  });

  test("pages are cut by age, and texts are found in ids and names", async () => {
    const userId = await subscribed();
    await replace(userId, [{ id: "a", name: "Ada" }, { id: "b", name: "Bob" }, { id: "c" }, { id: "adam" }]);
    const first = await list(userId, "?limit=3");
    expect([first.data.map(({ id }) => id), first.total]).toEqual([["adam", "c", "b"], 4]);
    expect(await list(userId, `?limit=3&before=${first.next}`)).toMatchObject({
      data: [{ id: "a" }],
      next: null,
      total: 4,
    });
    expect(await idsOf(userId, "?q=AD")).toEqual(["adam", "a"]);
    for (const [query, error] of [
      ["?limit=0", "INVALID DATA: Limit must be between 1 and 100"],
      ["?before=a", "INVALID DATA: before must be the next of another page"],
    ] as const) {
      expect(await api.call("GET", `${pathOf(userId)}${query}`, { key })).toMatchObject({
        status: 400,
        body: { error },
      });
    }
  });

  test.each<[string, unknown, string]>([
    ["/members", [], "The body must be an object"],
    ["/members", {}, "The data field is required"],
    ["/members", { data: "a" }, "The data field must be a list of at most 10000 members"],
    ["/members", { data: ["a"] }, "The data.0 field must be an object"],
    ["/members", { data: [{ id: "a" }, { id: "" }] }, `The data.1.id field must be ${ID_RULE}`],
    ["/members", { data: [{ id: ".." }] }, `The data.0.id field must be ${ID_RULE}`],
    ["/members", { data: [{ id: "a", name: 5 }] }, "The data.0.name field must be a string of up to 255 characters"],
    ["/members", { data: [{ id: "a", x: 1 }] }, "Unknown field: data.0.x"],
    ["/members", { data: [{ id: "a" }, { id: "a" }] }, "The data field must not name a member twice"],
    ["/members", { data: [], x: 1 }, "Unknown field: x"],
    ["/members/a", { name: 5 }, "The name field must be a string of up to 255 characters"],
    ["/members/a", { names: "A" }, "Unknown field: names"],
    [`/members/${"x".repeat(129)}`, {}, "The memberId must be 1 to 128 characters long, and not . or .."],
  ])("PUT %s with %j is refused", async (path, body, error) => {
    const userId = await subscribed();
    expect(await api.call("PUT", `/contracts/${userId}${path}`, { key, body: body as object })).toMatchObject({
      status: 422,
      body: { error },
    });
  });

  test("each change raises an event per member, and moves the seats by one each", async () => {
    const userId = await subscribed();
    const events = await allEventsDuring(api, async () => {
      await add(userId, "a", { name: "Ada" });
      await add(userId, "a", { name: "Ada L." });
      await replace(userId, [{ id: "b" }]);
    });
    expect(events).toMatchObject([
      { code: "MEMBER_ADDED", details: { userId, memberId: "a", name: "Ada" } },
      { code: "MEMBER_REMOVED", details: { userId, memberId: "a", name: "Ada L." } },
      { code: "MEMBER_ADDED", details: { userId, memberId: "b", name: null } },
    ]);
    const { body } = await api.call<{ data: object[] }>("GET", `/contracts/${userId}/usage?by=movement&limit=seats`, {
      key,
    });
    expect(body.data).toMatchObject([
      { kind: "adjust", amount: 1, operation: "b" },
      { kind: "adjust", amount: -1, operation: "a" },
      { kind: "adjust", amount: 1, operation: "a" },
    ]);
  });

  test("a threshold of seats is raised", async () => {
    const userId = await subscribed();
    const events = await allEventsDuring(api, () =>
      replace(
        userId,
        [..."abcd"].map((id) => ({ id })),
      ),
    );
    expect(events.at(-1)).toMatchObject({
      code: "USAGE_THRESHOLD_REACHED",
      details: { limitName: "seats", threshold: 80 },
    });
  });
});

describe("seats", () => {
  const refused = { status: 422, body: { error: "desk-seats counts members" } };

  test("no amount of a call moves them", async () => {
    const userId = await subscribed();
    const post = (path: string, body: object) => api.call("POST", path, { key, body });
    const feature = `/features/${userId}/desk-invite`;
    const amount = { "desk-seats": 1 };
    expect(await post(feature, amount)).toMatchObject(refused);
    expect(await post(`${feature}?dryRun=true`, amount)).toMatchObject(refused);
    expect(await post(`${feature}?hold=PT5M`, amount)).toMatchObject(refused);
    expect(await post(`${feature}/leases`, { for: "PT30S", amounts: amount })).toMatchObject(refused);
    const put = (query: string, body: object) =>
      api.call("PUT", `/contracts/${userId}/usageLevels${query}`, { key, body });
    expect(await put("", { desk: { seats: 1 } })).toMatchObject(refused);
    expect(await put("?usageLimit=seats", {})).toMatchObject(refused);
    const batch = await post("/usage", [{ key: userId, userId, featureId: "desk-invite", amounts: amount }]);
    expect(batch).toMatchObject({
      status: 200,
      body: { items: [{ verdict: "refused", reason: "INVALID_EXPECTED_CONSUMPTION", error: refused.body.error }] },
    });
    await fill(userId, "a");
    expect(await put("?reset=true&renewableOnly=false", {})).toMatchObject({ status: 200 });
    expect(await seats(userId)).toBe(1);
  });

  test("an expression reads them", async () => {
    const userId = await subscribed("SMALL");
    const ask = async () => (await api.call("POST", `/features/${userId}/desk-invite`, { key })).body;
    await fill(userId, "a", "b");
    expect(await ask()).toMatchObject({ eval: true, used: { "desk-seats": 2 } });
    await fill(userId, "c");
    expect(await ask()).toMatchObject({ eval: false, used: { "desk-seats": 3 } });
  });

  test("overrides and blocks add seats", async () => {
    const userId = await subscribed("SMALL");
    await fill(userId, "a", "b", "c");
    expect(await add(userId, "d")).toMatchObject({ status: 409 });
    const given = await api.call("POST", `/contracts/${userId}/blocks`, {
      key,
      body: {
        service: "desk",
        limit: "seats",
        amount: 1,
        reason: "A guest",
        expiresAt: new Date(START + DAY).toISOString(),
      },
    });
    expect(given).toMatchObject({ status: 201 });
    await fill(userId, "d");
    expect(await add(userId, "e")).toMatchObject({ body: { error: "CONFLICT: No seat is free: 4 of 4 are taken" } });
  });

  test("a limit that begins to count members starts at their number", async () => {
    const userId = await subscribed("TEAM", "2.0.0");
    await fill(userId, "a", "b");
    const body = { "desk-seats": 3 };
    expect((await api.call("POST", `/features/${userId}/desk-invite`, { key, body })).body).toMatchObject({
      eval: true,
    });
    const hold = await api.call("POST", `/features/${userId}/desk-invite?hold=PT5M`, {
      key,
      body: { "desk-seats": 1 },
    });
    expect(hold.body).toMatchObject({ eval: true });
    await novate(userId, "TEAM");
    expect(await seats(userId)).toBe(2);
    await api.call("POST", `/features/${userId}/desk-invite?revert=true`, { key });
    expect(await seats(userId)).toBe(2);
    const holds = await api.call("GET", `/contracts/${userId}/holds?state=released`, { key });
    expect(holds.body).toMatchObject({ data: [{ state: "released" }] });
  });
});

describe("who spends", () => {
  test("must be a member where the contract has members", async () => {
    const userId = await subscribed();
    const body = { "desk-mails": 1 };
    const ask = (query: string, sent?: object) =>
      api.call("POST", `/features/${userId}/desk-mail${query}`, { key, body: sent });
    expect(await ask("?spender=nobody/run-1", body)).toMatchObject({ status: 200, body: { eval: true } });
    await fill(userId, "grace", "a/b");
    const refused = { status: 404, body: { error: `Member nobody of ${userId} not found` } };
    expect(await ask("?spender=nobody/run-1", body)).toMatchObject(refused);
    expect(await ask("?member=nobody", body)).toMatchObject(refused);
    expect(await ask("?spender=nobody")).toMatchObject(refused);
    expect(await ask("?spender=nobody&hold=PT5M", body)).toMatchObject(refused);
    expect(await api.call("POST", `/features/${userId}?spender=nobody`, { key })).toMatchObject(refused);
    const post = (path: string, sent: object = {}) => api.call("POST", path, { key, body: sent });
    expect(await post(`/features/${userId}/pricing-token?spender=nobody`)).toMatchObject(refused);
    expect(await post(`/features/${userId}/desk-mail/unlock?spender=nobody`)).toMatchObject(refused);
    const lease = { for: "PT30S", amounts: body };
    expect(await post(`/features/${userId}/desk-mail/leases?spender=nobody`, lease)).toMatchObject(refused);
    const item = { key: "stranger", userId, featureId: "desk-mail", amounts: body, spender: "nobody/run-1" };
    expect((await post("/usage", [item])).body).toMatchObject({
      items: [{ verdict: "unknown", reason: "MEMBER_NOT_FOUND", error: refused.body.error }],
    });
    const context = { targetingKey: userId, spender: "nobody" };
    const failure = { errorCode: "INVALID_CONTEXT", errorDetails: refused.body.error };
    for (const [path, body] of [
      ["flags/desk-mail", { key: "desk-mail", ...failure }],
      ["flags/desk-mail?server=true", { key: "desk-mail", ...failure }],
      ["flags/desk-none", { key: "desk-none", ...failure }],
      ["flags", failure],
    ] as const) {
      const answer = await post(`/ofrep/v1/evaluate/${path}`, { context });
      expect(answer.body).toEqual(body);
      expect(answer.status).toBe(404);
      expect(answer.headers.get("link")).toContain("errors#not-found");
      expect(answer.headers.get("etag")).toBeNull();
    }
    const known = ["?spender=grace/run-1", "?member=grace", "?spender=a%252Fb", ""];
    const answers = await Promise.all([...known, "?spender=nobody"].map((query) => ask(query, body)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 404]);
  });

  test("is in the history, and holds on, after it was removed", async () => {
    const userId = await subscribed();
    await fill(userId, "grace", "alan");
    const body = { "desk-mails": 3 };
    const path = `/features/${userId}/desk-mail?spender=grace`;
    const taken = await api.call<{ hold: { id: string } }>("POST", `${path}&hold=PT5M`, { key, body });
    expect(await api.call("POST", path, { key, body })).toMatchObject({ body: { eval: true } });
    expect(await remove(userId, "grace")).toMatchObject({ status: 204 });
    expect(await api.call("POST", path, { key, body })).toMatchObject({ status: 404 });
    const holds = () => api.call<{ data: { id: string }[] }>("GET", `/contracts/${userId}/holds`, { key });
    expect((await holds()).body.data.map(({ id }) => id)).toEqual([taken.body.hold.id]);
    const settled = await api.call("POST", `/holds/${taken.body.hold.id}`, { key, body: { "desk-mails": 2 } });
    expect(settled).toMatchObject({ status: 200, body: { eval: true, used: { "desk-mails": 5 } } });
    const { body: usage } = await api.call<{ data: object[] }>(
      "GET",
      `/contracts/${userId}/usage?by=spender&depth=1&limit=mails`,
      { key },
    );
    expect(usage.data).toMatchObject([{ spender: "grace", counted: 5 }]);
  });

  test("the list shows what each used in the running periods", async () => {
    const userId = await subscribed();
    await fill(userId, "grace", "a/b", "alan");
    const use = (spender: string, mails: number) =>
      api.call("POST", `/features/${userId}/desk-mail?spender=${encodeURIComponent(spender)}`, {
        key,
        body: { "desk-mails": mails },
      });
    await use("grace", 3);
    await use("grace/run-1", 4);
    await use("a%2Fb/run-1", 2);
    const used = async () => (await list(userId)).data.map((member) => [member.id, member.used]);
    expect(await used()).toEqual([
      ["alan", {}],
      ["a/b", { "desk-mails": 2 }],
      ["grace", { "desk-mails": 7 }],
    ]);
    expect((await api.call("GET", pathOf(userId, "grace"), { key })).body).toMatchObject({ used: { "desk-mails": 7 } });
    api.setNow(new Date(START + 1));
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    expect((await used()).map(([, amounts]) => amounts)).toEqual([{}, {}, {}]);
  });
});
