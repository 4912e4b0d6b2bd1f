import { afterAll, beforeAll, expect, it } from "vitest";
import { openPricings, until } from "../events/raw-client.ts";
import { HANDSHAKE } from "../events/in-process.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { contractUsers } from "../support/seed.ts";
import { restOn } from "./runtimes.ts";
import { PRICING } from "./world.ts";

/* Two REST processes and two event servers over one Postgres, on Node and on Bun, must behave like one server. */

let database: TestDatabase;
let rest: RunningServer[];
let events: RunningServer[];
let all: RunningServer[];
let key: string;
let userKey: string;
let organizationId: string;

beforeAll(async () => {
  database = await createTestDatabase();
  key = await contractUsers(database.connection, {
    pricing: PRICING("Tasker").replaceAll("value: 100 }", "value: 100000 }"),
    service: "tasker",
    plan: "PRO",
    userIds: ["ada", "grace"],
  });
  const [onNode, onBun] = await Promise.all([restOn("Node 20"), restOn("Bun")]);
  rest = await Promise.all([startRestServer(onNode, database.url), startRestServer(onBun, database.url)]);
  events = await Promise.all([startEventServer(database.url), startEventServer(database.url, {}, "Bun")]);
  all = [...rest, ...events];
  const credentials = { username: "admin", password: "password" };
  userKey = String((await ask(rest[0], "POST", "/users/authenticate", { body: credentials })).body["apiKey"]);
  const organizations = await ask(rest[0], "GET", "/organizations", { key: userKey });
  const found = (organizations.body["data"] as { id: string; apiKeys: { key: string }[] }[]).find(({ apiKeys }) =>
    apiKeys.some((each) => each.key === key),
  );
  organizationId = found?.id ?? "";
}, 90_000);
afterAll(async () => {
  expect(await Promise.all(all.map((server) => server.stop()))).toEqual([0, 0, 0, 0]);
  await expectBalancesMatchLedger(database);
  await database.drop();
});

async function ask(
  server: RunningServer | undefined,
  method: string,
  path: string,
  given: { key?: string; body?: unknown } = {},
): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await fetch(`${server?.url}/api/v1${path}`, {
    method,
    headers: {
      ...(given.key === undefined ? {} : { "x-api-key": given.key }),
      ...(given.body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>) };
}

/** Sends `count` requests round-robin over all four processes. */
const each = <T>(count: number, ask: (server: RunningServer) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count / all.length }, () => all.map(ask)).flat());

/** Waits until all four agree; fails after one second. */
async function allWithinOneSecond(agrees: (server: RunningServer) => Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + 1000;
  await Promise.all(
    all.map(async (server) => {
      while (!(await agrees(server))) {
        if (performance.now() > deadline) throw new Error(`${server.url} does not know of ${what} after a second`);
      }
    }),
  );
}

const evaluate = (server: RunningServer, user: string, apiKey = key) =>
  ask(server, "POST", `/features/${user}/tasker-board`, { key: apiKey });

it("consumption is exact across all processes", async () => {
  const consume = (server: RunningServer) =>
    ask(server, "POST", "/features/ada/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
  const answers = await each(400, consume);
  const balances = answers.map(({ body }) => (body["used"] as Record<string, number>)["tasker-maxTasks"]);
  expect(new Set(balances).size).toBe(400);
  for (const server of all) {
    expect((await evaluate(server, "ada")).body["used"]).toEqual({ "tasker-maxTasks": 400 });
  }
});

it("all processes apply one process's contract change within a second, however often they had read it", async () => {
  for (const server of all) for (let i = 0; i < 3; i += 1) await evaluate(server, "grace");
  const limitAt = async (server: RunningServer) =>
    ((await evaluate(server, "grace")).body["limit"] as Record<string, number>)["tasker-maxTasks"];
  for (const [turn, by] of all.entries()) {
    const plan = turn % 2 === 0 ? "FREE" : "PRO";
    const body = {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: plan },
      subscriptionAddOns: {},
    };
    expect((await ask(by, "PUT", "/contracts/grace", { key, body })).status).toBe(200);
    const limit = plan === "FREE" ? 5 : 100_000;
    // The process that made the change applies it at once.
    expect(await limitAt(by)).toBe(limit);
    await allWithinOneSecond(async (server) => (await limitAt(server)) === limit, `the plan ${plan}`);
  }
});

it("all processes refuse a revoked key within a second", async () => {
  const path = `/organizations/${organizationId}/api-keys`;
  for (const by of rest) {
    const made = await ask(by, "POST", path, { key: userKey, body: { scope: "EVALUATION" } });
    const fresh = (made.body["apiKeys"] as { id: string; key: string }[]).at(-1);
    const apiKey = fresh?.key ?? "";
    for (const server of all) {
      for (let i = 0; i < 3; i += 1) expect((await evaluate(server, "ada", apiKey)).status).toBe(200);
    }
    expect((await ask(by, "DELETE", `${path}/${fresh?.id}`, { key: userKey })).status).toBeLessThan(300);
    expect((await evaluate(by, "ada", apiKey)).status).toBe(401);
    await allWithinOneSecond(
      async (server) => (await evaluate(server, "ada", apiKey)).status === 401,
      "the revocation",
    );
    // The key stays refused.
    for (const server of all) expect((await evaluate(server, "ada", apiKey)).status).toBe(401);
  }
});

it("a cache entry written through one process is readable through the other", async () => {
  const body = { key: "greeting", value: { text: "hello" }, expirationInSeconds: 60 };
  expect((await ask(rest[0], "POST", "/cache/set", { key: userKey, body })).status).toBe(200);
  for (const server of all) {
    expect((await ask(server, "GET", "/cache/get?key=greeting", { key: userKey })).body).toEqual({ text: "hello" });
  }
});

it("an event reaches every event server's clients once and in the same order, whichever process caused it", async () => {
  const clients = await Promise.all(events.map((server) => openPricings(server.url.replace("http", "ws") + HANDSHAKE)));
  const COUNT = 12;
  await Promise.all(
    Array.from({ length: COUNT }, async (_, i) => {
      const body = new FormData();
      body.append("pricing", new Blob([PRICING("Tasker", `2.${i}.0`)]), "pricing.yml");
      const headers = { "x-api-key": key };
      const url = `${all[i % 4]?.url}/api/v1/services/Tasker/pricings`;
      expect((await fetch(url, { method: "POST", headers, body })).status).toBe(201);
    }),
  );
  const received = () => clients.map(({ frames }) => frames.filter((frame) => frame.includes("PRICING_CREATED")));
  await until(() => received().every((frames) => frames.length >= COUNT), "the events");
  await new Promise((resolve) => setTimeout(resolve, 300));
  const [first, second] = received();
  expect(first).toHaveLength(COUNT);
  expect(new Set(first).size).toBe(COUNT);
  expect(second).toEqual(first);
  for (const client of clients) client.close();
});

it("call counts are summed over all processes", async () => {
  const sum = async () => {
    const week = (await ask(rest[0], "GET", "/analytics/evaluations", { key: userKey })).body["data"] as number[];
    return week.at(-1) ?? 0;
  };
  // Each process flushes its counts within a second.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const before = await sum();
  await each(40, (server) => evaluate(server, "ada"));
  await expect.poll(sum, { timeout: 5000 }).toBe(before + 40);
});
