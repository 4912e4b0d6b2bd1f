import { afterAll, beforeAll, expect, it } from "vitest";
import { openPricings, until } from "../events/raw-client.ts";
import { HANDSHAKE } from "../events/in-process.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { type Ask, type Many, signInAsOwner, testAsOneServer } from "../support/one-server.ts";
import { contractUsers } from "../support/seed.ts";
import { builtRestOn, restOn } from "./runtimes.ts";
import { PRICING } from "./world.ts";

/* Two REST processes and two event servers over one Postgres, on Node and on Bun, must behave like one server. */

let database: TestDatabase;
let events: RunningServer[];
let all: [RunningServer, ...RunningServer[]];
let key: string;
let many: Many;

beforeAll(async () => {
  database = await createTestDatabase();
  key = await contractUsers(database.connection, {
    pricing: PRICING("Tasker").replaceAll("value: 100 }", "value: 100000 }"),
    service: "tasker",
    plan: "PRO",
    userIds: ["ada", "grace"],
  });
  const [onNode, onBun] = await Promise.all([builtRestOn("Node 20"), restOn("Bun")]);
  const rest = await Promise.all([startRestServer(onNode, database.url), startRestServer(onBun, database.url)]);
  events = await Promise.all([startEventServer(database.url), startEventServer(database.url, {}, "Bun")]);
  all = [...rest, ...events];
  const processes = all.map((server) => ({ name: server.url, ask: askAt(server) }));
  many = { all: processes, key, ...(await signInAsOwner(askAt(all[0]), key)) };
}, 90_000);
afterAll(async () => {
  expect(await Promise.all(all.map((server) => server.stop()))).toEqual([0, 0, 0, 0]);
  await expectBalancesMatchLedger(database);
  await database.drop();
});

const askAt =
  (server: RunningServer): Ask =>
  async (method, path, given = {}) => {
    const answer = await fetch(`${server.url}/api/v1${path}`, {
      method,
      headers: {
        ...(given.key === undefined ? {} : { "x-api-key": given.key }),
        ...(given.body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>) };
  };

testAsOneServer(() => many);

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
