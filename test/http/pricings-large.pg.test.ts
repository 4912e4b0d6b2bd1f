import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { repeatedByPlans } from "../support/hostile-pricings.ts";
import { yamlUpload } from "../support/uploads.ts";

/** Each version takes 1.2 MB with the values of every plan. */
const VERSIONS = ["1.0.0", "2.0.0", "3.0.0"];

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

test("a list of large pricings is answered whole and in order, piece by piece", async () => {
  const { key } = api.callers.all;
  for (const [index, version] of VERSIONS.entries()) {
    const body = yamlUpload(repeatedByPlans({ length: 60_000, plans: 20, version }));
    const path = index === 0 ? "/services" : "/services/Hostile/pricings";
    expect(await api.call("POST", path, { key, body })).toMatchObject({ status: 201 });
  }
  const { status, headers, body } = await api.call<object[]>("GET", "/services/Hostile/pricings", { key });
  expect(status).toBe(200);
  expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  const alone = await Promise.all(
    VERSIONS.map(async (version) => (await api.call("GET", `/services/Hostile/pricings/${version}`, { key })).body),
  );
  expect(body).toEqual(alone);

  const answer = await api.app.request("/api/v1/services/Hostile/pricings", { headers: { "x-api-key": key } });
  let pieces = 0;
  for await (const _ of answer.body ?? []) pieces += 1;
  expect(pieces).toBeGreaterThanOrEqual(VERSIONS.length);
});

test("a list of no pricings is empty", async () => {
  const { key } = api.callers.all;
  const { status, body } = await api.call("GET", "/services/Hostile/pricings?pricingStatus=archived", { key });
  expect({ status, body }).toEqual({ status: 200, body: [] });
});
