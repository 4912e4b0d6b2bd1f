import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { RUNTIMES, type RuntimeName, startAsker } from "./askers.ts";
import { startSpender } from "./spenders.ts";

/* Local evaluation on Node, Bun and Deno: answers follow changes that another process makes, and leases count exactly. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");

let api: TestApi;
let server: RunningServer;

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  await upload(api, api.callers.all.key, SAMPLE);
  server = await startEventServer(api.database.url);
});
afterAll(async () => {
  await server.stop();
  await api.close();
});

const NAMES = Object.keys(RUNTIMES) as RuntimeName[];

test.each(NAMES)(
  "%s answers from memory, and with each change",
  async (runtime) => {
    const key = api.callers.all.key;
    await contract(api, key, runtime);
    const asker = startAsker(runtime, server.url, key, runtime);
    await asker.expectAfter(Date.now(), true);
    for (const plan of ["FREE", "PRO"]) {
      const { status } = await api.call("PUT", `/contracts/${runtime}`, {
        key,
        body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: plan }, subscriptionAddOns: {} },
      });
      expect(status).toBe(200);
      await asker.expectAfter(Date.now(), plan === "PRO");
    }
    await asker.stop();
  },
  90_000,
);

test.each(NAMES)(
  "%s spends from a lease, and returns what is left of it",
  async (runtime) => {
    const key = api.callers.all.key;
    const userId = `${runtime}-spending`;
    await contract(api, key, userId);
    const folder = mkdtempSync(join(tmpdir(), "faregate-spender-"));
    const spender = startSpender({
      url: server.url,
      key,
      featureId: "tasker-board",
      limitId: "tasker-maxTasks",
      journal: join(folder, "journal"),
      runtime,
    });
    const answers = await Promise.all(Array.from({ length: 20 }, () => spender.spend(userId, 1)));
    expect(answers.filter((answer) => answer.eval)).toHaveLength(20);
    expect(answers.filter(({ source }) => source === "lease")).toHaveLength(19);
    expect(await spender.end()).toBe(true);
    rmSync(folder, { recursive: true });
    const { usageLevels } = await show(api, key, userId);
    expect(usageLevels["tasker"]?.["maxTasks"]).toMatchObject({ consumed: 20 });
    expect(usageLevels["tasker"]?.["maxTasks"]).not.toHaveProperty("held");
  },
  90_000,
);
