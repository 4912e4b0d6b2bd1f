import { afterAll, beforeAll, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { runOn } from "./run-on.ts";
import { RUNTIMES } from "./runtimes.ts";

/* The meters of models and tools (`faregate/ai`, `faregate/mcp`) on each runtime, against a server process. */

let api: TestApi;
let server: RunningServer;
beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  await upload(api, api.callers.all.key, tasker());
  server = await startEventServer(api.database.url);
});
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await server.stop();
  await api.close();
});

test.each([...RUNTIMES])(
  "%s meters whole, abandoned and ended answers, and denies a tool where nothing is left",
  async (runtime) => {
    const { key } = api.callers.all;
    const userId = runtime.replace(" ", "-").toLowerCase();
    await contract(api, key, userId);
    const input = { url: server.url, apiKey: key, userId };
    // The AI SDK names the machine to its gateway.
    const { leftBetween, ...told } = (await runOn(runtime, "meter-cases.ts", input, ["hostname"])) as {
      leftBetween: number;
    };
    expect(told).toEqual({
      text: "a b c ",
      afterWhole: 5,
      isCut: true,
      reason: "LIMIT_REACHED",
      atEnd: 20,
      openHolds: 0,
      denied: expect.objectContaining({ error: "LIMIT_REACHED", remaining: { "tasker-maxTasks": 0 } }),
    });
    // At least the prompt and what was read, at most what was held.
    expect(leftBetween).toBeGreaterThanOrEqual(3);
    expect(leftBetween).toBeLessThanOrEqual(6);
  },
  120_000,
);
