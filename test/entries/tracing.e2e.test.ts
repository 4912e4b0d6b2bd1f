import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, startEventServer, startRestServer } from "../support/event-server.ts";

/* Real processes export spans to a collector that speaks OpenTelemetry's protocol. */

interface Span {
  traceId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  attributes: { key: string; value: { stringValue?: string; intValue?: number } }[];
  status: { code: number };
}
interface Export {
  resourceSpans: { resource: { attributes: Span["attributes"] }; scopeSpans: { spans: Span[] }[] }[];
}

const received: { service: string | undefined; span: Span }[] = [];
const collector = createServer((request, response) => {
  let text = "";
  request.on("data", (chunk: Buffer) => (text += chunk.toString()));
  request.on("end", () => {
    expect(request.url).toBe("/v1/traces");
    for (const { resource, scopeSpans } of (JSON.parse(text) as Export).resourceSpans) {
      const service = resource.attributes.find(({ key }) => key === "service.name")?.value.stringValue;
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) received.push({ service, span });
    }
    response.setHeader("content-type", "application/json").end("{}");
  });
});
let database: TestDatabase;
let environment: Record<string, string>;

beforeAll(async () => {
  database = await createTestDatabase();
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const { port } = collector.address() as AddressInfo;
  environment = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, LOG_LEVEL: "debug" };
});
afterAll(async () => {
  collector.close();
  await database.drop();
});

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";

it("each request is a span of its caller's trace, with the route's pattern and no path, and the log names the trace", async () => {
  const server = await startRestServer(REST, database.url, environment);
  const asked = await fetch(`${server.url}/api/v1/features/somebody/tasker-board`, {
    method: "POST",
    headers: { traceparent: `00-${TRACE}-${CALLER}-01`, "x-request-id": "asked-by-the-test" },
  });
  expect(asked.status).toBe(401);
  await database.connection.client`alter table users rename column username to name_of_user`;
  const broken = await fetch(`${server.url}/api/v1/users/authenticate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ username: "admin", password: "a-password-nobody-has" }),
  });
  await database.connection.client`alter table users rename column name_of_user to username`;
  expect(broken.status).toBe(500);
  expect(await server.stop()).toBe(0);

  const evaluation = received.find(({ span }) => span.name === "POST /api/v1/features/:userId/:featureId");
  expect(evaluation?.service).toBe("faregate-rest");
  expect(evaluation?.span).toMatchObject({ traceId: TRACE, parentSpanId: CALLER, kind: 2, status: { code: 0 } });
  const attributes = Object.fromEntries(
    (evaluation?.span.attributes ?? []).map(({ key, value }) => [key, value.stringValue ?? value.intValue]),
  );
  expect(attributes).toEqual({
    "http.request.method": "POST",
    "http.route": "/api/v1/features/:userId/:featureId",
    "http.response.status_code": 401,
    "faregate.request_id": "asked-by-the-test",
  });
  const failed = received.find(({ span }) => span.name === "POST /api/v1/users/authenticate");
  expect(failed?.span).toMatchObject({ status: { code: 2 } });
  // Without a caller's trace, the log names the new one.
  expect(failed?.span.parentSpanId ?? "").toBe("");
  // The process is gone, and the rest of its output may still be on its way.
  const lineAbout = (text: string) =>
    server
      .output()
      .split("\n")
      .find((line) => line.includes(text));
  await expect.poll(() => lineAbout("unexpected error")).toContain(failed?.span.traceId);
  await expect.poll(() => lineAbout("asked-by-the-test")).toContain(TRACE);
  expect(JSON.stringify(received)).not.toContain("somebody");
});

it("the event server does the same under its own name, or the one it is given", async () => {
  const server = await startEventServer(database.url, { ...environment, OTEL_SERVICE_NAME: "pricing-events" });
  expect((await fetch(`${server.url}/api/v1/healthcheck`)).status).toBe(200);
  expect(await server.stop()).toBe(0);
  const spans = received.filter(({ service }) => service === "pricing-events");
  expect(spans.map(({ span }) => span.name)).toContain("GET /api/v1/healthcheck");
});

it("a collector that is away keeps no process from answering, nor from ending", async () => {
  const server = await startEventServer(database.url, {
    ...environment,
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
  });
  expect((await fetch(`${server.url}/api/v1/healthcheck`)).status).toBe(200);
  expect(await server.stop()).toBe(0);
});
