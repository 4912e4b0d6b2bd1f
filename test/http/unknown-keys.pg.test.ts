import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

test("after a thousand unknown keys within a minute more are told to wait, while valid keys go on", async () => {
  const key = `org_${"0".repeat(64)}`;
  const guess = () => api.call("GET", "/services", { key });
  for (let i = 0; i < 1000; i += 1) expect((await guess()).status).toBe(401);
  const refused = await guess();
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await api.call("GET", "/services", { key: api.callers.all.key })).status).toBe(200);
  api.setNow(new Date(api.resources.now().getTime() + 60_000));
  expect((await guess()).status).toBe(401);
});
