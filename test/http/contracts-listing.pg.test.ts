import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { ADD_ONS_ONLY, contract, contractFor, type ContractBody, tasker, upload } from "../support/contracting.ts";

let api: TestApi;
let key: string;

/** Columns: userId, username, first name, last name, email, group, contracted services. */
type Text = string | undefined;
const PEOPLE: [string, string, Text?, Text?, Text?, Text?, object?][] = [
  ["u1", "zoe", "Zoe", "Álvarez", "zoe@example.org", "team"],
  ["u2", "Adam", "adam", "100%", "adam@example.org", "team"],
  ["u3", "adam", undefined, "under_score", undefined, "Team"],
  ["u4", "éric", "Éric", undefined, "e.ric@example.org"],
  [
    "u5",
    "_dot",
    "a.b",
    "(",
    undefined,
    undefined,
    {
      contractedServices: { extras: "1.0.0" },
      subscriptionPlans: {},
      subscriptionAddOns: { extras: { reporting: 1 } },
    },
  ],
  [
    "u6",
    "Zed",
    "Zed",
    "back\\slash",
    undefined,
    undefined,
    {
      contractedServices: { tasker: "2.0.0" },
      subscriptionPlans: { tasker: "basic" },
      subscriptionAddOns: { tasker: { ExtraTasks: 2 } },
    },
  ],
  ["u7", "Zed", "Zed", "[a-z]*", undefined, undefined, { contractedServices: { tasker: "1.0.0", extras: "1.0.0" } }],
];

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01" }), ADD_ONS_ONLY);
  for (const [userId, username, firstName, lastName, email, groupId, rest] of PEOPLE) {
    await contract(api, key, userId, {
      userContact: { userId, username, firstName, lastName, email },
      groupId,
      ...rest,
    });
  }
});
afterAll(() => api.close());

async function list(query: string, as = key, path = "/contracts") {
  const answer = await api.call<ContractBody[]>("GET", `${path}${query}`, { key: as });
  expect(answer).toMatchObject({ status: 200 });
  return {
    ids: answer.body.map((one) => one.userContact["userId"]),
    total: answer.headers.get("x-total-count"),
    body: answer.body,
    headers: answer.headers,
  };
}
const filtered = (filters: unknown) => list(`?filters=${encodeURIComponent(JSON.stringify(filters))}`);

test("a listing is a plain array of whole contracts by username in code-point order, ties by id, with the total in a header", async () => {
  const all = await list("");
  expect(all.ids).toEqual(["u2", "u6", "u7", "u5", "u3", "u1", "u4"]);
  expect(all.total).toBe("7");
  for (const one of all.body)
    expect(one).toEqual((await api.call("GET", `/contracts/${one.userContact["userId"]}`, { key })).body);
  const nested = await list("", api.callers.evaluator.key, `/organizations/${api.callers.organizationId}/contracts`);
  expect(nested.body).toEqual(all.body);
});

test("the header of the total is exposed to browsers of other origins", async () => {
  const answer = await api.call("GET", "/contracts", { key, headers: { origin: "https://app.example.org" } });
  expect(answer.headers.get("access-control-expose-headers")).toContain("X-Total-Count");
});

test.each([
  ["?username=ADA", ["u2", "u3"]],
  ["?userId=U7", ["u7"]],
  ["?userId=u&username=ZE", ["u6", "u7"]],
  ["?q=U7", ["u7"]],
  ["?q=%C3%89RIC", ["u4"]],
  ["?q=ZE&lastName=slash", ["u6"]],
  ["?q=nobody", []],
  ["?q=", ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
  ["?username=ZE", ["u6", "u7"]],
  ["?firstName=ÉRIC", ["u4"]],
  ["?firstName=a.b", ["u5"]],
  ["?lastName=%25", ["u2"]],
  ["?lastName=_", ["u3"]],
  ["?lastName=(", ["u5"]],
  ["?lastName=\\", ["u6"]],
  ["?lastName=[a-z]*", ["u7"]],
  ["?lastName=.*", []],
  ["?email=EXAMPLE.org", ["u2", "u1", "u4"]],
  ["?email=e.r", ["u4"]],
  ["?groupId=team", ["u2", "u1"]],
  ["?groupId=Team", ["u3"]],
  ["?groupId=tea", []],
  ["?username=adam&email=adam", ["u2"]],
  ["?nothing=known&constructor=x", ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
  ["?username=&groupId=", ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
])("%s finds %j, literally and without regard to letter case where it contains", async (query, ids) => {
  expect(await list(query)).toMatchObject({ ids, total: String(ids.length) });
});

test.each([
  ["?sort=firstName", ["u3", "u6", "u7", "u1", "u5", "u2", "u4"]],
  ["?sort=firstName&order=desc", ["u4", "u2", "u5", "u1", "u7", "u6", "u3"]],
  ["?sort=lastName&order=asc", ["u4", "u5", "u2", "u7", "u6", "u3", "u1"]],
  ["?sort=email", ["u3", "u5", "u6", "u7", "u2", "u4", "u1"]],
  ["?sort=&order=", ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
  ["?order=desc", ["u4", "u1", "u3", "u5", "u7", "u6", "u2"]],
])("%s orders by code point, what is missing first, ties by id", async (query, ids) => {
  expect((await list(query)).ids).toEqual(ids);
});

test.each([
  ["?limit=2", ["u2", "u6"]],
  ["?limit=2&page=2", ["u7", "u5"]],
  ["?limit=2&page=4", ["u4"]],
  ["?limit=2&page=9", []],
  ["?limit=2&offset=1&page=3", ["u6", "u7"]],
  ["?limit=2&offset=0&page=2", ["u7", "u5"]],
  ["?limit=3abc&page=1.9", ["u2", "u6", "u7"]],
  ["?limit=0&page=0&offset=x", ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
  ["?limit=&page=&offset=", ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
])("%s pages to %j and keeps the total", async (query, ids) => {
  expect(await list(query)).toMatchObject({ ids, total: "7" });
});

test.each([
  ["?page=-1", "Page must be greater than or equal to 1"],
  ["?offset=-1", "Offset must be greater than or equal to 0"],
  ["?limit=-1", "Limit must be greater that or equal to 1"],
  ["?sort=userId", "Invalid sort field. Please use one of the following: firstName, lastName, username, email"],
  ["?sort=__proto__", "Invalid sort field. Please use one of the following: firstName, lastName, username, email"],
  ["?state=none", "Invalid state. Please use one of the following: active, renewing, ending, expired"],
  ["?state=constructor", "Invalid state. Please use one of the following: active, renewing, ending, expired"],
  ["?order=up", "Invalid order value. Please use 'asc' or 'desc'"],
  [
    "?page=-1&offset=-2&limit=-3&sort=x&order=y",
    "Page must be greater than or equal to 1 | Offset must be greater than or equal to 0 | Limit must be greater that or equal to 1 | Invalid sort field. Please use one of the following: firstName, lastName, username, email | Invalid order value. Please use 'asc' or 'desc'",
  ],
])("%s is refused with 400", async (query, messages) => {
  expect(await api.call("GET", `/contracts${query}`, { key })).toMatchObject({
    status: 400,
    body: { error: `Errors where found during validation of query params: ${messages}` },
  });
});

const FILTERS: [filters: unknown, ids: string[]][] = [
  [{ services: ["EXTRAS"] }, ["u7", "u5"]],
  [{ services: ["extras", "nothing"] }, ["u7", "u5"]],
  [{ services: [] }, []],
  [{ services: ["task"] }, []],
  [{ services: [" extras"] }, []],
  [{ services: {} }, ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
  [{ services: { Tasker: ["2.0.0"] } }, ["u6"]],
  [{ services: { tasker: ["2.0.0"], extras: [] } }, ["u6", "u7", "u5"]],
  [{ services: { tasker: ["2"] } }, []],
  [{ plans: { tasker: ["BASIC", "gold"] } }, ["u6"]],
  [{ plans: { tasker: [] } }, ["u2", "u6", "u7", "u5", "u3", "u1", "u4"]],
  [{ plans: { tasker: ["B.*"] } }, []],
  [{ addOns: { tasker: ["EXTRATASKS"], Extras: ["reporting"] } }, ["u6", "u5"]],
  [{ services: ["tasker"], plans: { tasker: ["pro"] }, addOns: {} }, ["u2", "u7", "u3", "u1", "u4"]],
  [{ services: ["extras"], plans: { tasker: ["pro"] } }, ["u7"]],
  [{ services: { tasker: [] }, addOns: { extras: ["reporting"] } }, []],
];
test.each(FILTERS)("the filters %j in the query find %j", async (filters, ids) => {
  expect(await filtered(filters)).toMatchObject({ ids, total: String(ids.length) });
});

test.each(["not json", '{"services":5}', '{"plans":["PRO"]}', '{"addOns":{"tasker":"x"}}', "[1]"])(
  "filters that are not of that shape are refused with 400: %s",
  async (text) => {
    const answer = await api.call("GET", `/contracts?filters=${encodeURIComponent(text)}`, { key });
    expect(answer).toMatchObject({ status: 400, body: { error: expect.stringMatching(/^INVALID DATA: /) } });
  },
);

describe("with contracts in every state and some near a limit,", () => {
  const DAY = 86_400_000;
  let mixed: { id: string; key: string };
  const overview = async (query = "") =>
    (
      await api.call<{ contracts: Record<string, number>; near: { total: number } }>(
        "GET",
        `/organizations/${mixed.id}/overview${query}`,
        { key: api.callers.outsider.key },
      )
    ).body;
  beforeAll(async () => {
    mixed = await api.newOrganization(api.callers.outsider, "Mixed");
    await upload(api, mixed.key, tasker());
    const people: [string, object, number?][] = [
      ["ada", { renewalDays: 30 }, 16],
      ["bob", { renewalDays: 8 }],
      ["eve", { renewalDays: 4 }, 20],
      ["joe", { renewalDays: 1 }, 15],
      ["kim", { renewalDays: 1, autoRenew: true }, 19],
    ];
    for (const [userId, billingPeriod, used] of people) {
      await contract(api, mixed.key, userId, { billingPeriod });
      const amounts = { tasker: { maxTasks: used ?? 0 } };
      await api.call("PUT", `/contracts/${userId}/usageLevels`, { key: mixed.key, body: amounts });
    }
    api.setNow(new Date(api.resources.now().getTime() + 2 * DAY));
  });
  afterAll(async () => {
    api.setNow(new Date(api.resources.now().getTime() - 2 * DAY));
    await api.call("DELETE", `/organizations/${mixed.id}`, { key: api.callers.outsider.key });
  });

  test.each([
    ["active", ["ada"]],
    ["ending", ["bob", "eve"]],
    ["expired", ["joe"]],
    ["renewing", ["kim"]],
  ])("those in the state %s are the ones that the overview counts: %j", async (state, ids) => {
    expect(await list(`?state=${state}`, mixed.key)).toMatchObject({ ids, total: String(ids.length) });
    expect((await overview()).contracts[state]).toBe(ids.length);
  });

  test.each([
    ["0.8", ["ada", "eve", "kim"]],
    ["0.75", ["ada", "eve", "joe", "kim"]],
    ["1", ["eve"]],
  ])("those who have used %s of a limit are the ones that the overview counts: %j", async (share, ids) => {
    expect(await list(`?near=${share}`, mixed.key)).toMatchObject({ ids, total: String(ids.length) });
    expect((await overview(`?near=${share}`)).near.total).toBe(ids.length);
  });

  test("both are combined with each other, with other filters, order and pages, also inside an organization", async () => {
    expect(await list("?near=0.8&state=ending", mixed.key)).toMatchObject({ ids: ["eve"], total: "1" });
    expect(await list("?near=0.8&username=a", mixed.key)).toMatchObject({ ids: ["ada"], total: "1" });
    expect(await list("?near=0.8&order=desc&limit=1&page=2", mixed.key)).toMatchObject({ ids: ["eve"], total: "3" });
    const filters = encodeURIComponent(JSON.stringify({ plans: { tasker: ["gold"] } }));
    expect(await list(`?near=0.8&filters=${filters}`, mixed.key)).toMatchObject({ ids: [], total: "0" });
    expect(await list("?state=&limit=1", mixed.key)).toMatchObject({ ids: ["ada"], total: "5" });
    const nested = await list("?near=0.8&limit=2", api.callers.outsider.key, `/organizations/${mixed.id}/contracts`);
    expect(nested).toMatchObject({ ids: ["ada", "eve"], total: "3" });
  });

  test("where nothing has a limit nobody is near one", async () => {
    const empty = await api.newOrganization(api.callers.outsider, "Empty");
    expect(await list("?near=0.1", empty.key)).toMatchObject({ ids: [], total: "0" });
  });

  test.each(["", "0", "1.1", "most", "-0.5", "1e-1"])("near=%s is refused with 400", async (near) => {
    expect(await api.call("GET", `/contracts?near=${near}`, { key: mixed.key })).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: near must be a number above 0 and up to 1" },
    });
  });

  test("across organizations limits are not looked at, and states are", async () => {
    expect(await api.call("GET", "/contracts?near=0.8", { key: api.callers.platformAdmin.key })).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: near requires an organization" },
    });
    expect((await list("?state=renewing", api.callers.platformAdmin.key)).ids).toEqual(["kim"]);
  });
});

describe("a GET with a body, over a real connection,", () => {
  let port: number;
  let server: ReturnType<typeof serve>;
  beforeAll(async () => {
    port = await new Promise<number>((resolve) => {
      server = serve({ fetch: api.app.fetch, port: 0, hostname: "127.0.0.1" }, (info: AddressInfo) =>
        resolve(info.port),
      );
    });
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const get = (path: string, body: string, headers: Record<string, string> = {}) =>
    new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
      const asked = request(
        {
          port,
          host: "127.0.0.1",
          path: `/api/v1${path}`,
          method: "GET",
          headers: { "x-api-key": key, "content-type": "application/json", ...headers },
        },
        async (response) => {
          let text = "";
          for await (const chunk of response.setEncoding("utf8")) text += chunk;
          resolve({ status: response.statusCode, body: text });
        },
      );
      asked.on("error", reject);
      asked.end(body);
    });
  const idsOf = (text: string) => (JSON.parse(text) as ContractBody[]).map((one) => one.userContact["userId"]);

  test.each(FILTERS)("honours the filters %j", async (filters, ids) => {
    const text = JSON.stringify({ filters });
    const answer = await get("/contracts", text, { "content-length": String(Buffer.byteLength(text)) });
    expect(answer.status).toBe(200);
    expect(idsOf(answer.body)).toEqual(ids);
  });

  test("also in chunks, also inside an organization, and combined with the query", async () => {
    const text = JSON.stringify({ filters: { plans: { tasker: ["pro"] } } });
    const headers = { "transfer-encoding": "chunked", "x-api-key": api.callers.evaluator.key };
    const answer = await get(`/organizations/${api.callers.organizationId}/contracts?username=adam`, text, headers);
    expect(idsOf(answer.body)).toEqual(["u2", "u3"]);
  });

  test("takes an empty body and refuses malformed JSON with 400", async () => {
    expect((await get("/contracts", "")).status).toBe(200);
    const answer = await get("/contracts", "{", { "content-length": "1" });
    expect(answer).toEqual({ status: 400, body: '{"error":"INVALID DATA: Malformed JSON body"}' });
  });
});

describe("with 230 contracts,", () => {
  let many: { id: string; key: string };
  let queries = 0;
  beforeAll(async () => {
    many = await api.newOrganization(api.callers.outsider, "Many");
    await upload(api, many.key, tasker());
    const { db } = api.resources;
    await db.execute(sql`
      insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      select 'b' || lpad(to_hex(n), 23, '0'), ${many.id}, 'm' || n, 'member ' || lpad(n::text, 3, '0'), now(), now() from generate_series(1, 230) n`);
    await db.execute(sql`
      insert into contract_services (contract_id, service_id, pricing_id, position, plan)
      select c.id, s.id, p.id, 0, 'PRO' from contracts c
      join services s on s.organization_id = c.organization_id join pricings p on p.service_id = s.id
      where c.organization_id = ${many.id}`);
  });

  test("a page holds at most 100, and the next one starts where it ended", async () => {
    const first = await list("?limit=200", many.key);
    expect(first.ids).toEqual(Array.from({ length: 100 }, (_, i) => `m${i + 1}`));
    expect(first.total).toBe("230");
    const second = await list("?limit=200&page=2", many.key);
    expect(second.ids[0]).toBe("m101");
    expect((await list("?limit=200&page=3", many.key)).ids).toHaveLength(30);
  });

  test("a listing takes the same number of queries whatever it finds", async () => {
    const { client } = api.database.connection;
    const counted = async (query: string) => {
      queries = 0;
      const options = client.options as { debug?: unknown };
      options.debug = () => {
        queries += 1;
      };
      const found = await list(query, many.key).finally(() => {
        options.debug = false;
      });
      return { found: found.ids.length, queries };
    };
    const one = await counted("?limit=1");
    const hundred = await counted("?limit=100");
    expect([one.found, hundred.found]).toEqual([1, 100]);
    expect(hundred.queries).toBe(one.queries);
    expect(hundred.queries).toBeGreaterThan(2);
    expect(hundred.queries).toBeLessThanOrEqual(7);
  });

  test("a platform ADMIN sees those of every organization, or of the one that is named", async () => {
    const admin = api.callers.platformAdmin.key;
    expect((await list("", admin)).total).toBe("237");
    expect((await list(`?organizationId=${many.id}`, admin)).total).toBe("230");
    expect((await list(`?organizationId=${many.id}`)).total).toBe("7");
  });

  test("creating one more shows it in its place", async () => {
    expect((await api.call("POST", "/contracts", { key: many.key, body: contractFor("a new one") })).status).toBe(201);
    expect((await list("?limit=1", many.key)).ids).toEqual(["a new one"]);
  });
});
