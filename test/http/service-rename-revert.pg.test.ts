import { afterAll, beforeAll, expect, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, tasker, upload } from "../support/contracting.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

it("what was consumed before a service was renamed can be reverted under its new name, and only in time", async () => {
  const { key } = api.callers.all;
  await upload(api, key, tasker());
  await contract(api, key, "ada");
  const consume = (service: string, amount: number) =>
    api.call("POST", `/features/ada/${service}-board`, { key, body: { [`${service}-maxTasks`]: amount } });
  const used = async (service: string) => (await show(api, key, "ada")).usageLevels[service]?.["maxTasks"]?.consumed;
  const start = api.resources.now();
  expect((await consume("tasker", 3)).status).toBe(200);
  api.setNow(new Date(start.getTime() + 60_000));
  expect((await consume("tasker", 4)).status).toBe(200);
  const renamed = await api.call("PUT", "/services/Tasker", { key, body: { name: "Task-Master" } });
  expect(renamed.status).toBe(200);
  expect((await consume("task-master", 5)).status).toBe(200);
  expect(await used("task-master")).toBe(12);
  api.setNow(new Date(start.getTime() + 121_000));
  const reverted = await api.call("POST", "/features/ada/task-master-board?revert=true", { key });
  expect(reverted.status).toBe(204);
  // The first consumption is older than two minutes.
  expect(await used("task-master")).toBe(3);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});
