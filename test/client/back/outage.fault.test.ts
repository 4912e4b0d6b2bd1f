import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Faregate, type FaregateOptions } from "../../../src/client/client.ts";
import { createTestApi, type TestApi } from "../../support/api.ts";
import { consumed, contract, tasker, upload } from "../../support/contracting.ts";
import { freePort, type RunningServer, startEventServer, testKeyring } from "../../support/event-server.ts";
import { expectBalancesMatchLedger } from "../../support/invariants.ts";

/* Kills and restarts a real server process under a back end's client. */

let api: TestApi;
let server: RunningServer;
let port: string;
const start = () => startEventServer(api.database.url, { EVENTS_PORT: port });
const client = (options: Partial<FaregateOptions> = {}) =>
  new Faregate({ url: server.url, apiKey: api.callers.all.key, ...options });

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  const { key } = api.callers.all;
  await upload(api, key, tasker());
  for (const userId of ["ada", "bob", "eve", "eve2"]) await contract(api, key, userId);
  port = String(await freePort());
  server = await start();
});
afterAll(async () => {
  server.process.kill("SIGKILL");
  await api.close();
});

test("in an outage the last answers stay with their age, consumption is refused, and all is as before when it is over", async () => {
  // N8: what a client is made with holds for all that it does.
  const faregate = client({ lastKnownForMs: 60_000 });
  const closed = client({ whenUnreachable: "closed" });
  const open = client({ whenUnreachable: "open", lastKnownForMs: 60_000 });
  const strict = client();
  const consumption = { "tasker-maxTasks": 1 };
  const features = faregate.features;

  const before = await features.evaluate("ada", "tasker-board");
  const all = await features.evaluateAll("ada");
  await features.evaluate("bob", "tasker-board", { consumption });
  await features.evaluate("eve", "tasker-board");
  await features.evaluate("eve2", "tasker-board");
  await faregate.contracts.updateContact("eve", { phone: "1" });
  await open.features.evaluate("ada", "tasker-sla");

  server.process.kill("SIGKILL");
  await new Promise((gone) => server.process.once("exit", gone));

  // The last answer, with its age and no claim to be new.
  const stale = await features.evaluate("ada", "tasker-board");
  expect(stale).toEqual({ ...before, source: "last-known", stale: true, ageMs: expect.any(Number) });
  expect(stale.ageMs).toBeGreaterThan(0);
  const staleAll = await features.evaluateAll("ada");
  expect(staleAll).toMatchObject({ features: all.features, stale: true, source: "last-known" });
  expect(staleAll.isEnabled("tasker-board")).toBe(true);
  const { ageMs } = await features.evaluate("ada", "tasker-board");
  expect(ageMs).toBeGreaterThanOrEqual(stale.ageMs ?? 0);

  // While the outage is fresh, a hundred evaluations do not try to connect a hundred times.
  let attempts = 0;
  const refusing = createServer((socket) => {
    attempts += 1;
    socket.destroy();
  }).listen(Number(port), "127.0.0.1");
  await once(refusing, "listening");
  await Promise.all(Array.from({ length: 100 }, () => features.evaluate("ada", "tasker-board")));
  expect(attempts).toBeLessThan(10);
  await new Promise((closed) => refusing.close(closed));

  // N6: what is forgotten of one user is that user's alone.
  expect(await features.evaluate("eve2", "tasker-board")).toMatchObject({ eval: true, source: "last-known" });

  // N4: what was never asked, concerns others, was asked otherwise, is too old, or was forgotten with a change: no answer.
  const unreachable = { code: "NETWORK", status: undefined };
  await expect(features.evaluate("ada", "tasker-darkMode")).rejects.toMatchObject(unreachable);
  await expect(features.evaluate("ADA", "tasker-board")).rejects.toMatchObject(unreachable);
  await expect(features.evaluate("ada", "tasker-board", { server: true })).rejects.toMatchObject(unreachable);
  await expect(features.evaluate("ada", "tasker-board", { lastKnownForMs: 1 })).rejects.toMatchObject(unreachable);
  await expect(features.evaluate("eve", "tasker-board")).rejects.toMatchObject(unreachable);
  await expect(features.explainAll("ada")).rejects.toMatchObject(unreachable);
  await expect(strict.features.evaluate("ada", "tasker-board")).rejects.toMatchObject(unreachable);

  // Never for consumption, unless the caller says so; and then it says that nothing was counted, and how to make up for it.
  await expect(features.evaluate("bob", "tasker-board", { consumption })).rejects.toMatchObject(unreachable);
  await expect(open.features.evaluate("bob", "tasker-board", { consumption })).rejects.toMatchObject(unreachable);
  const uncounted = await features.evaluate("bob", "tasker-board", { consumption, acceptUncounted: true });
  expect(uncounted).toMatchObject({ eval: true, stale: true, counted: false, idempotencyKey: expect.any(String) });

  // Yes or no where nothing is known.
  const made = { limit: null, used: null, error: null, source: "fallback", stale: true, ageMs: null, counted: false };
  expect(await closed.features.evaluate("ada", "tasker-board")).toMatchObject({ ...made, eval: false });
  expect(await open.features.evaluate("ada", "tasker-board")).toMatchObject({ ...made, eval: true });
  expect(await open.features.evaluate("ada", "tasker-sla")).toMatchObject({ eval: true, source: "last-known" });
  const closedAll = await closed.features.evaluateAll("ada");
  const openAll = await open.features.evaluateAll("ada");
  expect([closedAll.features, closedAll.isEnabled("tasker-board")]).toEqual([{}, false]);
  expect([openAll.features, openAll.isEnabled("tasker-board")]).toEqual([{}, true]);
  const perCall = await strict.features.evaluate("ada", "tasker-board", { whenUnreachable: "closed" });
  expect(perCall).toMatchObject({ eval: false, source: "fallback" });

  server = await start();
  await expect.poll(() => features.evaluate("ada", "tasker-board")).toEqual(before);
  // Resending uncounted consumption with its key counts it once.
  const { idempotencyKey } = uncounted;
  if (idempotencyKey === null) throw new Error("no key");
  for (let n = 0; n < 2; n += 1) {
    expect(await features.evaluate("bob", "tasker-board", { consumption, idempotencyKey })).toMatchObject({
      counted: true,
      stale: false,
      used: { "tasker-maxTasks": 2 },
    });
  }
  expect(await consumed(api, api.callers.all.key, "bob")).toBe(2);
  await expectBalancesMatchLedger(api.database);
}, 60_000);

test("a service that comes back within the deadline is waited for, and what was sent meanwhile counts once", async () => {
  const faregate = client({ retries: 100, deadlineMs: 30_000 });
  const before = await consumed(api, api.callers.all.key, "ada");
  server.process.kill("SIGKILL");
  await new Promise((gone) => server.process.once("exit", gone));
  const waiting = faregate.features.evaluate("ada", "tasker-board", { consumption: { "tasker-maxTasks": 1 } });
  server = await start();
  expect(await waiting).toMatchObject({ counted: true, stale: false });
  expect(await consumed(api, api.callers.all.key, "ada")).toBe(before + 1);
}, 60_000);
