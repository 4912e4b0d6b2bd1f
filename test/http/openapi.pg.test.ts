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

test("the document is OpenAPI 3.1 and needs no key", async () => {
  const answer = await api.call<{ openapi: string; paths: object }>("GET", "/openapi.json");
  expect(answer.status).toBe(200);
  expect(answer.body.openapi).toBe("3.1.0");
  expect(Object.keys(answer.body.paths)).toContain("/features/{userId}/{featureId}");
});

test("the document is valid by the official OpenAPI 3.1 schema", async () => {
  const { Validator } = await import("@seriousme/openapi-schema-validator");
  const { body } = await api.call<Record<string, unknown>>("GET", "/openapi.json");
  const verdict = await new Validator().validate(body);
  expect(verdict.errors).toBeUndefined();
  expect(verdict.valid).toBe(true);
});
