import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { ASKERS, startAsker } from "./askers.ts";

/* Local evaluation on Node, Bun and Deno: answers follow changes that another process makes. */

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

test.each(Object.keys(ASKERS) as (keyof typeof ASKERS)[])(
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
