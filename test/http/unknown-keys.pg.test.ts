import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { hashApiKey } from "../../src/operations/credentials.ts";
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

test("a key of more than 256 characters is refused as unknown without being hashed", async () => {
  const sign = vi.spyOn(crypto.subtle, "sign");
  try {
    const refusal = { usr: "INVALID DATA: Invalid API Key", org: "Invalid Organization API Key" };
    for (const [prefix, error] of Object.entries(refusal)) {
      const key = `${prefix}_${"0".repeat(253)}`;
      expect(await api.call("GET", "/services", { key })).toMatchObject({ status: 401, body: { error } });
      expect(sign).toHaveBeenCalledTimes(0);
    }
    expect((await api.call("GET", "/services", { key: `org_${"0".repeat(252)}` })).status).toBe(401);
    expect(sign).toHaveBeenCalledTimes(1);
  } finally {
    sign.mockRestore();
  }
});

test("any number of unknown keys evicts no hash of a key that exists, and none of them is kept", async () => {
  const { keyring } = api.resources;
  const { key } = api.callers.all;
  expect((await api.call("GET", "/services", { key })).status).toBe(200);
  const unknown = Array.from({ length: 20_000 }, (_, i) => `org_${String(i).padStart(64, "0")}`);
  await Promise.all(unknown.map((text) => hashApiKey(keyring, text)));
  expect(hashApiKey(keyring, key)).toMatch(/^[0-9a-f]{64}$/);
  expect(hashApiKey(keyring, unknown.at(-1) ?? "")).toBeInstanceOf(Promise);
});
