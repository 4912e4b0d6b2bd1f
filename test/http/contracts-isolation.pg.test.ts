import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type Method, type TestApi } from "../support/api.ts";
import {
  consume,
  consumed,
  contract,
  contractFor,
  type ContractBody,
  show,
  tasker,
  upload,
} from "../support/contracting.ts";

let api: TestApi;
let key: string;
let other: { id: string; key: string };

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  other = await api.newOrganization(api.callers.outsider, "Other");
  await upload(api, key, tasker());
  await upload(api, other.key, tasker());
  await contract(api, other.key, "foreign", { groupId: "foreigners" });
});
afterAll(() => api.close());

const novation = {
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "BASIC" },
  subscriptionAddOns: {},
};

/** Every row of the database about the other organization's contract. */
async function foreignState(): Promise<unknown> {
  const { client } = api.database.connection;
  return client`
    select to_jsonb(c) as contract,
      (select jsonb_agg(to_jsonb(u)) from usage_levels u where u.contract_id = c.id) as levels,
      (select jsonb_agg(to_jsonb(s)) from contract_services s where s.contract_id = c.id) as services,
      (select count(*) from usage_ledger l where l.contract_id = c.id) as ledger
    from contracts c where c.organization_id = ${other.id}`;
}

describe("somebody else's contract", () => {
  const ROUTES: [method: Method, path: string, body?: unknown][] = [
    ["GET", "/contracts/{userId}"],
    ["PUT", "/contracts/{userId}", novation],
    ["DELETE", "/contracts/{userId}"],
    ["PUT", "/contracts/{userId}/usageLevels", { tasker: { maxTasks: 1 } }],
    ["PUT", "/contracts/{userId}/usageLevels?reset=true", {}],
    ["PUT", "/contracts/{userId}/userContact", { username: "taken" }],
    ["PUT", "/contracts/{userId}/billingPeriod", { renewalDays: 3 }],
    ["POST", "/features/{userId}"],
    ["POST", "/features/{userId}?details=true&server=true"],
    ["POST", "/features/{userId}/pricing-token"],
    ["POST", "/features/{userId}/tasker-board", { "tasker-maxTasks": 1 }],
    ["POST", "/features/{userId}/tasker-board?revert=true"],
  ];
  test.each(ROUTES)("looks exactly like nobody's, and stays as it is: %s %s", async (method, path, body) => {
    const before = await foreignState();
    const ask = (userId: string, as: string, prefix = "") =>
      api.call(method, prefix + path.replace("{userId}", userId), { key: as, body });
    const asked = [["", key]] as [string, string][];
    if (method !== "POST" && path.endsWith("{userId}")) {
      asked.push([`/organizations/${api.callers.organizationId}`, api.callers.owner.key]);
      asked.push([`/organizations/${api.callers.organizationId}`, api.callers.platformAdmin.key]);
    }
    for (const [prefix, as] of asked) {
      const foreign = await ask("foreign", as, prefix);
      const nobody = await ask("nobody!", as, prefix);
      expect(foreign).toMatchObject({ status: 404, body: { error: "Contract with userId foreign not found" } });
      expect(JSON.stringify(foreign.body)).toBe(JSON.stringify(nobody.body).replace("nobody!", "foreign"));
      expect(nobody.status).toBe(404);
    }
    expect(await foreignState()).toEqual(before);
  });

  test("is not in a group novation, a billing update, a listing or a deletion of one's own", async () => {
    await contract(api, key, "own", { groupId: "foreigners" });
    const before = await foreignState();
    expect(
      (await api.call<unknown[]>("PUT", "/contracts?groupId=foreigners", { key, body: novation })).body,
    ).toHaveLength(1);
    expect(
      (
        await api.call<unknown[]>("PUT", "/contracts/billingPeriod?groupId=foreigners", {
          key,
          body: { renewalDays: 3 },
        })
      ).body,
    ).toHaveLength(1);
    expect(
      (await api.call<unknown[]>("PUT", "/contracts/billingPeriod", { key, body: { renewalDays: 4 } })).body,
    ).toHaveLength(1);
    expect((await api.call<unknown[]>("GET", `/contracts?organizationId=${other.id}`, { key })).body).toHaveLength(1);
    expect((await api.call("DELETE", "/contracts", { key })).status).toBe(204);
    expect(await foreignState()).toEqual(before);
  });

  test.each<[Method, string, unknown?]>([
    ["DELETE", "/contracts?organizationId="],
    ["PUT", "/contracts?groupId=foreigners&organizationId=", novation],
    ["PUT", "/contracts/billingPeriod?groupId=foreigners&organizationId=", { renewalDays: 3 }],
  ])(
    "is not changed with all others by an empty organizationId of a platform ADMIN: %s %s",
    async (method, path, body) => {
      const before = await foreignState();
      expect(await api.call(method, path, { key: api.callers.platformAdmin.key, body })).toMatchObject({
        status: 400,
        body: { error: "INVALID DATA: The organizationId query parameter is empty" },
      });
      expect(await foreignState()).toEqual(before);
    },
  );

  test("is not meant by an empty organizationId of a key, which acts inside its organization", async () => {
    const third = await api.newOrganization(api.callers.outsider, "Third");
    const before = await foreignState();
    expect((await api.call("DELETE", "/contracts?organizationId=", { key: third.key })).status).toBe(204);
    expect((await api.call("DELETE", "/services?organizationId=", { key: third.key })).status).toBe(200);
    expect(await foreignState()).toEqual(before);
  });

  test("with the same userId in two organizations counts apart", async () => {
    await contract(api, key, "foreign");
    await consume(api, key, "foreign", { "tasker-maxTasks": 3 });
    expect(await consumed(api, key, "foreign")).toBe(3);
    expect(await consumed(api, other.key, "foreign")).toBe(0);
  });
});

describe("end users are told apart by every character:", () => {
  const NAMES = [
    "Bob",
    "bob",
    "BOB",
    "b.ob",
    "b*",
    "b:ob",
    "b%",
    "b_b",
    " bob",
    "bob ",
    "ı",
    "İ",
    "caf\u00e9",
    "cafe\u0301",
    "a/b",
    "a b",
    "a%2Fb",
    "a+b",
    "a?b#c",
    "日本語",
    "👩‍🚀",
    "billingPeriod",
    "usageLevels",
    "evaluate",
    "__proto__",
    "constructor",
    "null",
    "undefined",
    "0",
    "'; drop table contracts; --",
    "\\",
    '"',
    "x".repeat(512),
  ];

  test("each has its own contract, balance, evaluation and token", async () => {
    for (const [i, userId] of NAMES.entries()) {
      const made = await contract(api, key, userId, { userContact: { userId, username: `n${i}` } });
      expect(made.userContact["userId"]).toBe(userId);
      expect(await consume(api, key, userId, { "tasker-maxTasks": i })).toMatchObject({
        status: 200,
        body: { eval: true },
      });
    }
    for (const [i, userId] of NAMES.entries()) {
      const shown = await show(api, key, userId);
      expect([shown.userContact["username"], shown.usageLevels["tasker"]?.["maxTasks"]?.consumed]).toEqual([
        `n${i}`,
        i,
      ]);
      const path = `/features/${encodeURIComponent(userId)}`;
      expect(await api.call("POST", path, { key })).toMatchObject({ status: 200 });
      const { body } = await api.call("POST", `${path}/pricing-token`, { key });
      expect(JSON.parse(atob(String(body["pricingToken"]).split(".")[1] ?? "")).sub).toBe(userId);
    }
  });

  test("an unencoded userId of a published client is the same", async () => {
    expect((await api.call<ContractBody>("GET", "/contracts/b:ob", { key })).body.userContact["userId"]).toBe("b:ob");
    expect((await api.call<ContractBody>("GET", "/contracts/a+b", { key })).body.userContact["userId"]).toBe("a+b");
    expect((await api.call<ContractBody>("GET", "/contracts/a%252Fb", { key })).body.userContact["userId"]).toBe(
      "a%2Fb",
    );
  });

  test("billingPeriod is reserved in PUT at the top level only, pricing-token is never a featureId", async () => {
    expect(
      await api.call("PUT", "/contracts/billingPeriod", { key: api.callers.platformAdmin.key, body: novation }),
    ).toMatchObject({
      status: 400,
      body: { error: "Missing groupId query parameter" },
    });
    const nested = `/organizations/${api.callers.organizationId}/contracts/billingPeriod`;
    expect(await api.call("PUT", nested, { key: api.callers.owner.key, body: novation })).toMatchObject({
      status: 200,
      body: { userContact: { userId: "billingPeriod" }, subscriptionPlans: { tasker: "BASIC" } },
    });
    expect((await api.call("DELETE", "/contracts/billingPeriod", { key })).status).toBe(204);
    const token = await api.call("POST", "/features/bob/pricing-token", { key, body: { "tasker-maxTasks": 1 } });
    expect(Object.keys(token.body)).toEqual(["pricingToken"]);
  });

  test.each(["/contracts/{x}", "/features/{x}", "/features/{x}/f", "/features/bob/{x}"])(
    "a path that is not percent-encoding is a 400: %s",
    async (path) => {
      const method = path.startsWith("/contracts") ? "GET" : "POST";
      expect(await api.call(method, path.replace("{x}", "%E0%A4%A"), { key })).toMatchObject({ status: 400 });
    },
  );
});

describe("a NUL character is refused with 400, never with an internal error:", () => {
  const NUL = "a\u0000b";
  const withContact = (field: string) =>
    contractFor("nul", { userContact: { userId: "nul", username: "n", [field]: NUL } });
  const CALLS: [method: Method, path: string, body?: unknown][] = [
    ["GET", "/contracts/a%00b"],
    ["PUT", "/contracts/a%00b", novation],
    ["DELETE", "/contracts/a%00b"],
    ["PUT", "/contracts/a%00b/userContact", {}],
    ["POST", "/features/a%00b"],
    ["POST", "/features/a%00b/tasker-board", { "tasker-maxTasks": 1 }],
    ["POST", "/features/a%00b/pricing-token"],
    ["POST", "/features/a%00b/tasker-board/leases", { for: "PT1M", amounts: { "tasker-maxTasks": 1 } }],
    ["GET", "/contracts?username=a%00b"],
    ["GET", "/contracts?groupId=a%00b"],
    ["GET", "/contracts?filters=%7B%22services%22%3A%5B%22a%5Cu0000b%22%5D%7D"],
    ["GET", "/contracts?filters=%7B%22addOns%22%3A%7B%22tasker%22%3A%5B%22a%5Cu0000b%22%5D%7D%7D"],
    ["GET", "/features?serviceName=a%00b"],
    ["PUT", "/contracts?groupId=a%00b", novation],
    ["PUT", "/contracts/billingPeriod?groupId=a%00b", {}],
    ["POST", "/contracts", withContact("userId")],
    ["POST", "/contracts", withContact("username")],
    ["POST", "/contracts", withContact("firstName")],
    ["POST", "/contracts", contractFor("nul", { groupId: NUL })],
    ["POST", "/contracts", contractFor("nul", { contractedServices: { [NUL]: "1" } })],
    ["POST", "/contracts", contractFor("nul", { contractedServices: { tasker: NUL } })],
    ["POST", "/contracts", contractFor("nul", { subscriptionPlans: { tasker: NUL } })],
    ["POST", "/contracts", contractFor("nul", { subscriptionAddOns: { tasker: { [NUL]: 1 } } })],
    ["PUT", "/contracts/bob/userContact", { phone: NUL }],
  ];
  test.each(CALLS)("%s %s %j", async (method, path, body) => {
    const answer = await api.call(method, path, { key, body });
    expect(answer.status).toBe(400);
    expect(answer.body).toEqual({ error: expect.any(String) });
  });

  test("and in a feature id, an amount's name or a limit's name it is simply unknown", async () => {
    expect(await api.call("POST", "/features/bob/a%00b", { key })).toMatchObject({
      status: 200,
      body: { error: { code: "FLAG_NOT_FOUND" } },
    });
    const revert = await api.call("POST", "/features/bob/a%00b?revert=true", { key });
    expect(revert.status).toBe(404);
    expect((await consume(api, key, "bob", { "tasker-maxTasks": 1, [NUL]: 1 })).status).toBe(200);
    const unknown = await api.call("PUT", "/contracts/bob/usageLevels?usageLimit=a%00b", { key });
    expect(unknown.status).toBe(404);
    const amounts = await api.call("PUT", "/contracts/bob/usageLevels", { key, body: { tasker: { [NUL]: 1 } } });
    expect(amounts.status).toBe(200);
  });
});
