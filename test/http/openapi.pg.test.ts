import { afterAll, beforeAll, expect, test } from "vitest";
import { OPERATIONS } from "../../src/wire/operations.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

/** `GET /users/{}`: router and document name parameters differently. */
const shape = (method: string, path: string) => `${method} ${path.replace(/\{\w+\}|:\w+/g, "{}")}`;

test("every route is documented, and every documented call has a route", () => {
  const assets = /^\/docs\/|\.js$/;
  const routed = api.app.routes
    .filter((route) => route.method !== "ALL" && !route.path.startsWith("/static/"))
    .filter((route) => !assets.test(route.path.replace("/api/v1", "")))
    .map((route) => shape(route.method, route.path));
  const documented = OPERATIONS.map(({ base = "/api/v1", method, path }) =>
    shape(method, base === "/" ? path : `${base}${path}`),
  );
  expect([...new Set(documented)].sort()).toEqual([...new Set(routed)].sort());
});

test("the document is OpenAPI 3.1, or 3.0 where that is asked for, and needs no key", async () => {
  for (const [query, version] of [
    ["", "3.1.0"],
    ["?version=3.1", "3.1.0"],
    ["?version=3.0", "3.0.3"],
  ]) {
    const answer = await api.call<{ openapi: string; paths: object }>("GET", `/openapi.json${query}`);
    expect(answer.status).toBe(200);
    expect(answer.body.openapi).toBe(version);
    expect(Object.keys(answer.body.paths)).toContain("/features/{userId}/{featureId}");
  }
  const refused = await api.call("GET", "/openapi.json?version=2.0");
  expect(refused).toMatchObject({ status: 400, body: { error: "INVALID DATA: version must be one of 3.1, 3.0" } });
});

test.each(["3.1", "3.0"])("the document is valid by the official schema of OpenAPI %s", async (version) => {
  const { Validator } = await import("@seriousme/openapi-schema-validator");
  const { body } = await api.call<Record<string, unknown>>("GET", `/openapi.json?version=${version}`);
  const verdict = await new Validator().validate(body);
  expect(verdict.errors).toBeUndefined();
  expect(verdict.valid).toBe(true);
});
