import { afterAll, beforeAll, expect, it } from "vitest";
import { createHealth, type ProcessHealth } from "../../src/entries/process/health.ts";
import { createApp, createHealthApp } from "../../src/http/app.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

const TOKEN = "token-of-the-tests-16+";
const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };

let api: TestApi;
let health: ProcessHealth;
const open = (opened: (health: ProcessHealth) => void = () => {}) =>
  createTestApi({
    health: ({ connection }, { callCounter }) => {
      const made = createHealth({ METRICS_TOKEN: TOKEN, DRAIN_DELAY: 0 }, connection, callCounter);
      opened(made);
      return made;
    },
  });
beforeAll(async () => {
  api = await open((made) => (health = made));
});
afterAll(() => api.close());

const ask = async (path: string, headers: Record<string, string> = {}, of = api) => {
  const response = await of.app.request(path, { headers });
  return { status: response.status, headers: response.headers, text: await response.text() };
};

it("a process that works is alive and ready, and neither answer is kept by anybody", async () => {
  for (const [path, text] of [
    ["/live", '{"status":"alive"}'],
    ["/ready", '{"status":"ready"}'],
  ] as const) {
    const answer = await ask(path);
    expect(answer).toMatchObject({ status: 200, text });
    expect(answer.headers.get("cache-control")).toBe("no-store");
  }
});

it("without its database a process is alive and not ready", async () => {
  const cut = await open();
  await cut.resources.callCounter.flush();
  await cut.resources.keyUses.flush();
  await cut.database.connection.close(0);
  try {
    expect((await ask("/live", {}, cut)).status).toBe(200);
    const answer = await ask("/ready", {}, cut);
    expect(answer).toMatchObject({ status: 503, text: '{"status":"not ready","reason":"database"}' });
    expect(answer.headers.get("retry-after")).toBe("1");
    expect((await ask("/metrics", AUTHORIZED, cut)).text).toContain("\nfaregate_database_up 0\n");
  } finally {
    await cut.close();
  }
});

it("with a schema older than the code a process is not ready, and is once it is migrated", async () => {
  const { client } = api.database.connection;
  const other = createHealth({ DRAIN_DELAY: 0 }, api.database.connection, api.resources.callCounter);
  const [last] = await client`
    update drizzle.__drizzle_migrations set created_at = created_at - 1
    where id = (select max(id) from drizzle.__drizzle_migrations) returning id`;
  expect(await other.notReady()).toBe("schema");
  await client`update drizzle.__drizzle_migrations set created_at = created_at + 1 where id = ${last?.["id"]}`;
  await new Promise((resolve) => setTimeout(resolve, 260));
  expect(await other.notReady()).toBeUndefined();
});

it("a process that is about to end, or does not follow events, is not ready", async () => {
  health.watch({ notReady: () => "events" });
  expect(await ask("/ready")).toMatchObject({ status: 503, text: '{"status":"not ready","reason":"events"}' });
  expect((await ask("/live")).status).toBe(200);
  health.watch({});
  const other = createHealth({ DRAIN_DELAY: 0 }, api.database.connection, api.resources.callCounter);
  await other.drain();
  expect(await other.notReady()).toBe("draining");
});

it("the metrics count requests by pattern, verdicts, and say nothing of whom they were about", async () => {
  const { key } = api.callers.all;
  await upload(api, key, tasker());
  await contract(api, key, "ada-lovelace");
  const consume = (amount: number) =>
    api.call("POST", "/features/ada-lovelace/tasker-board", { key, body: { "tasker-maxTasks": amount } });
  for (const amount of [20, 1, 1]) expect((await consume(amount)).status).toBe(200);
  await api.call("POST", "/features/ada-lovelace/tasker-board?revert=true", { key });
  await api.call("GET", "/contracts/nobody-known", { key });
  await ask("/no/such/path");
  const { status, headers, text } = await ask("/metrics", AUTHORIZED);
  expect(status).toBe(200);
  expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  for (const line of [
    'faregate_http_requests_total{method="POST",route="/api/v1/features/:userId/:featureId",status="200"} 3',
    'faregate_http_request_duration_seconds_count{method="POST",route="/api/v1/features/:userId/:featureId"} 4',
    'faregate_http_requests_total{method="GET",route="/api/v1/contracts/:userId",status="404"} 1',
    'faregate_consumptions_total{verdict="granted"} 1',
    'faregate_consumptions_total{verdict="denied"} 2',
    "faregate_reverts_total 1",
    "faregate_database_up 1",
    "faregate_ready 1",
  ]) {
    expect(text.split("\n")).toContain(line);
  }
  expect(text).not.toMatch(/ada-lovelace|nobody-known|such\/path|(usr|org)_/);
});

it("every line of the metrics is one of the text format, buckets grow, and each name is described once", async () => {
  await api.call("GET", "/services", { key: api.callers.all.key });
  const { text } = await ask("/metrics", AUTHORIZED);
  const lines = text.trimEnd().split("\n");
  const sample = /^[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? -?\d+(\.\d+)?(e-?\d+)?$/;
  for (const line of lines)
    expect(line).toMatch(line.startsWith("#") ? /^# (HELP [a-z_]+ .+|TYPE [a-z_]+ [a-z]+)$/ : sample);
  const described = lines.filter((line) => line.startsWith("# TYPE")).map((line) => line.split(" ")[2]);
  expect(new Set(described).size).toBe(described.length);
  const buckets = lines
    .filter(
      (line) =>
        line.startsWith("faregate_http_request_duration_seconds_bucket") &&
        line.includes('"GET",route="/api/v1/services"'),
    )
    .map((line) => Number(line.split(" ")[1]));
  expect(buckets.length).toBe(13);
  expect(buckets).toEqual(buckets.toSorted((a, b) => a - b));
});

it("a process that answers nothing but its health says so below its sub-path", async () => {
  const only = createHealthApp("/space", health);
  for (const path of ["/ready", "/space/live"]) expect((await only.request(path)).status).toBe(200);
  expect((await only.request("/metrics")).status).toBe(401);
  expect((await only.request("/api/v1/healthcheck")).status).toBe(404);
});

it("nobody reads the metrics without the token, and without a token there are none", async () => {
  for (const headers of [{}, { authorization: "Bearer no" }, { authorization: `Basic ${TOKEN}` }]) {
    const answer = await ask("/metrics", headers);
    expect(answer.status).toBe(401);
    expect(answer.text).not.toContain("faregate_");
  }
  const closed = createApp({
    open: () => api.resources,
    settings: { allowedOrigins: [], baseUrlPath: "" },
    health: createHealth({ DRAIN_DELAY: 0 }, api.database.connection, api.resources.callCounter),
  });
  expect((await closed.request("/metrics", { headers: AUTHORIZED })).status).toBe(403);
});

it("a failure is logged with the request, who asked, and the trace it belongs to", async () => {
  const { key, id } = api.callers.all;
  const trace = "0af7651916cd43dd8448eb211c80319c";
  await api.database.connection.client`alter table services rename to gone`;
  const answer = await api.call("GET", "/services", {
    key,
    headers: { "x-request-id": "broken", traceparent: `00-${trace}-b7ad6b7169203331-01` },
  });
  expect(answer.status).toBe(500);
  const about = {
    request: "broken",
    trace,
    method: "GET",
    key: id,
    user: undefined,
    organization: api.callers.organizationId,
  };
  expect(api.logged).toContainEqual(expect.objectContaining({ level: "error", message: "unexpected error", about }));
  expect(api.logged).toContainEqual(
    expect.objectContaining({
      level: "warn",
      message: "request",
      detail: { route: "/api/v1/services", status: 500, milliseconds: expect.any(Number) },
    }),
  );
});
