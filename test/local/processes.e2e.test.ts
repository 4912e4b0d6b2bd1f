import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";
import { freePort, METRICS_TOKEN, type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { metricsOf, startWorkers, sumByWorker } from "../support/workers.ts";
import { startAsker } from "./askers.ts";
import { createTenant, LOCAL_CHANGES, observe, type Site } from "./changes.ts";
import { startSpender } from "./spenders.ts";

/*
 * Local evaluation between real processes: changes are made by another process than the one that the back end follows,
 * while either of them is stopped or killed. No answer that is known to be true after a change lacks it. Usage that a back
 * end leased and did not report is counted. Source: contract tokens-and-leases §10, cases 31 and 33.
 */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");

let api: TestApi;
let server: RunningServer;
let port: number;
let key: string;
let userKey: string;

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
  userKey = (await api.newUser("admin")).key;
  port = await freePort();
  server = await startEventServer(api.database.url, { EVENTS_PORT: String(port) });
});
afterAll(async () => {
  await server.stop();
  await api.close();
});

/** Moves a user to a plan. Returns a moment after the commit. */
async function move(userId: string, plan: "FREE" | "PRO"): Promise<number> {
  const { status } = await api.call("PUT", `/contracts/${userId}`, {
    key,
    body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: plan }, subscriptionAddOns: {} },
  });
  expect(status).toBe(200);
  return Date.now();
}
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("a back end that was frozen does not take old beats for new ones", async () => {
  await contract(api, key, "frozen");
  const asker = startAsker("Node", server.url, api.callers.evaluation.key, "frozen");
  await asker.expectAfter(Date.now(), true);
  for (const plan of ["FREE", "PRO"] as const) {
    asker.process.kill("SIGSTOP");
    await pause(1500);
    const committedAt = await move("frozen", plan);
    await pause(1500);
    asker.process.kill("SIGCONT");
    await asker.expectAfter(committedAt, plan === "PRO");
  }
  await asker.stop();
}, 120_000);

test("while the server is frozen, answers age and say so; then they are right again", async () => {
  await contract(api, key, "waiting");
  const asker = startAsker("Node", server.url, api.callers.evaluation.key, "waiting");
  await asker.expectAfter(Date.now(), true);
  server.process.kill("SIGSTOP");
  let committedAt: number;
  try {
    committedAt = await move("waiting", "FREE");
    await expect
      .poll(() => asker.told.at(-1), { timeout: 30_000 })
      .toMatchObject({ eval: true, stale: true, state: "disconnected" });
  } finally {
    server.process.kill("SIGCONT");
  }
  await asker.expectAfter(committedAt, false);
  expect(asker.told.at(-1)?.stale).toBe(false);
  await asker.stop();
}, 120_000);

test("a server that is killed and started again leaves nothing unnoticed", async () => {
  await contract(api, key, "bereft");
  const asker = startAsker("Node", server.url, api.callers.evaluation.key, "bereft");
  await asker.expectAfter(Date.now(), true);
  server.process.kill("SIGKILL");
  const committedAt = await move("bereft", "FREE");
  server = await startEventServer(api.database.url, { EVENTS_PORT: String(port) });
  await asker.expectAfter(committedAt, false);
  await asker.stop();
}, 120_000);

describe.each([
  ["another process", 1],
  ["one of two workers behind one port", 2],
])("changes that %s makes", (_, workers) => {
  let other: RunningServer;
  let site: Site;
  beforeAll(async () => {
    other = await (workers === 1 ? startEventServer : startWorkers)(api.database.url, { METRICS_TOKEN });
    site = { changing: other.url, followed: workers === 1 ? server.url : other.url, userKey };
  }, 60_000);
  afterAll(async () => {
    if (workers > 1) {
      const writes = sumByWorker(await metricsOf(other.url), "faregate_http_requests_total", 'status="201"');
      expect([...writes.keys()], "workers that made changes").toEqual([1, 2]);
      const streams = sumByWorker(await metricsOf(other.url), "faregate_http_requests_total", "/events/stream");
      expect([...streams.keys()], "workers that were followed").toEqual([1, 2]);
    }
    await other.stop();
  });

  test.each(LOCAL_CHANGES)(
    "$name: no answer lacks it that says that it is known to be true since",
    async ({ prepare }) => {
      const tenant = await createTenant(site);
      try {
        const { outdated } = await observe(tenant, await prepare(tenant, 1), 30_000);
        expect(outdated).toEqual([]);
      } finally {
        await tenant.local.close();
      }
    },
  );
});

test("33: a back end that is killed with 100 granted and 37 spent has consumed 100 after the end of its lease", async () => {
  await contract(api, key, "spending", { subscriptionPlans: { tasker: "BUSINESS" } });
  const folder = mkdtempSync(join(tmpdir(), "faregate-spender-"));
  const spender = startSpender({
    url: server.url,
    key: api.callers.evaluation.key,
    featureId: "tasker-board",
    limitId: "tasker-maxTasks",
    journal: join(folder, "journal"),
  });
  const answers = await Promise.all([10, 10, 27].map((amount) => spender.spend("spending", amount)));
  expect(answers.map(({ source }) => source)).toEqual(["service", "lease", "lease"]);
  await spender.kill();
  rmSync(folder, { recursive: true });
  const balance = async () => {
    const { usageLevels } = await show(api, key, "spending");
    const level: { consumed: number; held?: number } | undefined = usageLevels["tasker"]?.["maxTasks"];
    const { consumed = 0, held = 0 } = level ?? {};
    return { usage: consumed + held, held };
  };
  expect(await balance()).toMatchObject({ usage: 110 });
  await expect.poll(balance, { timeout: 30_000 }).toEqual({ usage: 110, held: 0 });
}, 120_000);
