import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type Method, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

const ODD: unknown[] = [
  [],
  [null],
  {},
  null,
  5,
  true,
  "\u0000",
  "\ud800",
  "x".repeat(10_000),
  -1,
  1e308,
  { $gt: "" },
  { toString: 1 },
  ["USER"],
  "<script>",
  "'; drop table users; --",
  "${1+1}",
];
/** Names that no route reads and that must not reach a prototype. */
const PROTOTYPE_FIELDS = ["__proto__", "constructor"];
/** Each route with the fields that it reads. */
const ROUTES: [Method, string, string[]][] = [
  ["POST", "/users", ["username", "password", "role"]],
  ["POST", "/users/authenticate", ["username", "password"]],
  ["PUT", "/users/outsider", ["username", "password", "role"]],
  ["PUT", "/users/outsider/role", ["role"]],
  ["POST", "/organizations", ["name", "owner", "default"]],
  ["PUT", "/organizations/{org}", ["name", "owner", "default"]],
  ["POST", "/organizations/{org}/members", ["username", "role"]],
  ["PUT", "/organizations/{org}/members/manager", ["role"]],
  ["POST", "/organizations/{org}/api-keys", ["scope", "name", "expiresAt"]],
];

test.each(ROUTES)("no body makes %s %s fail with 5xx or pollute a prototype", async (method, template, fields) => {
  const path = template.replace("{org}", api.callers.organizationId);
  const valid: Record<string, unknown> = { username: "outsider", role: "USER", name: "Acme", owner: "owner" };
  const bodies: string[] = ["", "{", "[]", "[[]]", "null", '"text"', "5", `${"[".repeat(5000)}${"]".repeat(5000)}`];
  for (const field of [...fields, ...PROTOTYPE_FIELDS]) {
    for (const odd of ODD) {
      bodies.push(JSON.stringify({ ...valid, [field]: odd }));
    }
  }
  for (const body of bodies) {
    const answer = await api.call<{ error?: unknown } | undefined>(method, path, {
      key: api.callers.platformAdmin.key,
      body,
    });
    expect({ body: body.slice(0, 100), status: answer.status < 500 || answer.status }).toEqual({
      body: body.slice(0, 100),
      status: true,
    });
    if (answer.status >= 400) expect(typeof answer.body?.error).toBe("string");
  }
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

test.each(["q", "limit", "offset"])("no value of the query parameter %s makes a listing fail", async (name) => {
  for (const path of ["/users", "/organizations"]) {
    for (const value of [
      "%00",
      "%ED%A0%80",
      "%F0%9F%98%80",
      "'",
      "\\",
      "%",
      "1e400",
      "9".repeat(400),
      "-0",
      "0x10",
      "a".repeat(8000),
    ]) {
      const answer = await api.call("GET", `${path}?${name}=${value}`, { key: api.callers.platformAdmin.key });
      expect({ path, value, status: answer.status < 500 }).toEqual({ path, value, status: true });
    }
  }
});
