import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cpuMsOf, megabytesOf } from "../bench/processes.ts";
import { pricingOf } from "../bench/side-by-side.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, type RunningServer, startRestServer } from "../support/event-server.ts";
import { heavyPricing } from "../support/heavy-pricings.ts";
import { contractUsers } from "../support/seed.ts";
import { yamlUpload } from "../support/uploads.ts";

/* The REST process as `npm run build:server` builds it, which containers run. */

let database: TestDatabase;
let server: RunningServer;
let key: string;
let atStart: { cpuMs: number; megabytes: number };
/** Processor times of starts of Node alone, in milliseconds, ascending. */
let bareMs: number[];

beforeAll(async () => {
  database = await createTestDatabase();
  const pricing = pricingOf("Meter", 3, true);
  key = await contractUsers(database.connection, { pricing, service: "meter", plan: "ALL", userIds: ["ada"] });
  server = await startRestServer(REST, database.url);
  const { pid } = server.process;
  atStart = { cpuMs: cpuMsOf(pid), megabytes: megabytesOf(pid) };
  const script = "const { user, system } = process.cpuUsage(); (user + system) / 1000";
  bareMs = Array.from({ length: 5 }, () => Number(execFileSync(process.execPath, ["-p", script]))).sort(
    (a, b) => a - b,
  );
}, 120_000);
afterAll(async () => {
  await server.stop();
  await database.drop();
});

const post = (path: string, body: FormData | string) =>
  fetch(`${server.url}/api/v1${path}`, {
    method: "POST",
    headers: { "x-api-key": key, ...(typeof body === "string" ? { "content-type": "application/json" } : {}) },
    body,
  });

describe("the built server", () => {
  it("starts in the processor time of twenty starts of Node alone, and in 110 MB", () => {
    // The sources take that of 40 and 152 MB; the built server takes that of 6 to 8 and 87 MB.
    expect(atStart.cpuMs).toBeLessThan(20 * (bareMs[2] ?? 0));
    expect(atStart.megabytes).toBeLessThan(110);
  });

  it("evaluates, counts, and serves the files of the reference page", async () => {
    const answer = await post("/features/ada/meter-call", '{"meter-calls":2}');
    expect(await answer.json()).toMatchObject({ eval: true, used: { "meter-calls": 2 } });
    expect((await fetch(`${server.url}/api/v1/docs/swagger-ui.css`)).status).toBe(200);
  });

  it("answers agents", async () => {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "listServices", arguments: {} } };
    const answer = await fetch(`${server.url}/mcp`, {
      method: "POST",
      headers: {
        "x-api-key": key,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify(message),
    });
    expect(JSON.stringify(await answer.json())).toContain("Meter");
  });

  it("compares a large draft in a thread", async () => {
    // Its length sends it to a thread. Its comparison is short, so that no machine reaches the limit of time.
    const heavy = { name: "Heavy", features: 20, limits: 4, plans: 2, addOns: 1, padding: "x".repeat(3_000) };
    expect((await post("/services", yamlUpload(heavyPricing(heavy)))).status).toBe(201);
    const draft = yamlUpload(heavyPricing({ ...heavy, version: "2.0.0", extra: 3 }));
    const diff = await post("/services/Heavy/diff", draft);
    expect(diff.status).toBe(200);
    expect(await diff.json()).toMatchObject({ class: "widening" });
  });
});
