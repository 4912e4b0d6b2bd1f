import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findRule } from "../../src/core/access/find-rule.ts";
import { createTestApi, type Method, type TestApi } from "../support/api.ts";
import { insertUsers } from "../support/builders.ts";

let api: TestApi;
let defaultOrganizationId: string;

beforeAll(async () => {
  api = await createTestApi();
  await insertUsers(api.resources, ["victim"]);
  const { owner, organizationAdmin, manager, evaluator } = api.callers;
  const own = await api.call<{ data: { id: string; default: boolean }[] }>("GET", "/organizations", { key: owner.key });
  defaultOrganizationId = own.body.data.find((one) => one.default)?.id ?? "";
  for (const [{ username }, role] of [
    [organizationAdmin, "ADMIN"],
    [manager, "MANAGER"],
    [evaluator, "EVALUATOR"],
  ] as const) {
    await api.call("POST", `/organizations/${defaultOrganizationId}/members`, {
      key: owner.key,
      body: { username, role },
    });
  }
});
afterAll(() => api.close());

test("every route of the application has a rule in the permission table, or is public and outside of it", () => {
  const routes = api.app.routes.filter((route) => route.method !== "ALL");
  expect(routes.length).toBeGreaterThan(15);
  const outside = new Set<string>();
  for (const { method, path } of routes) {
    const asked = path.replaceAll(/:[^/]+/g, "x").replaceAll("*", "x");
    if (findRule(method, asked, "/") !== undefined) continue;
    if (!asked.startsWith("/api/v1/")) outside.add(path);
    else expect(findRule(method, asked.slice("/api/v1".length)), `${method} ${path}`).toBeDefined();
  }
  for (const path of outside)
    expect(["/static/pricings/:file", "/api/v1", "/live", "/ready", "/metrics"]).toContain(path);
});

/*
 * Contract users-organizations §7.4, row by row. Columns: nobody, platform ADMIN, OWNER, organization ADMIN, MANAGER,
 * EVALUATOR, another USER, keys ALL, MANAGEMENT, EVALUATION. `y` is allowed: the call then fails or not for reasons of its
 * own. Requests are chosen to pass every permission check and to change nothing.
 */
const MATRIX = `
POST /users/authenticate                                          y y y y y y y y y y
POST /users                                                       y y y y y y y y y y
GET /users?q=owne                                                 K y y y y y y U U U
GET /users                                                        K y P P P P P U U U
GET /users/me                                                     K y y y y y y U U U
GET /users/{username}                                             K y y y y y y U U U
PUT /users/{username}                                             K y P P P P P U U U
PUT /users/{username}/api-key                                     K y P P P P P U U U
PUT /users/{username}/role                                        K y P P P P P U U U
POST /sessions                                                    y y y y y y y y y y
GET /sessions                                                     K y y y y y y U U U
DELETE /sessions                                                  K y y y y y y U U U
DELETE /sessions/current                                          K y y y y y y U U U
GET /auth/methods                                                 y y y y y y y y y y
GET /auth/oidc/start                                              y y y y y y y y y y
GET /auth/oidc/callback                                           y y y y y y y y y y
GET /auth/oidc/link                                               K y y y y y y U U U
POST /auth/oidc/backchannel-logout                                y y y y y y y y y y
DELETE /sessions/{id}                                             K y y y y y y U U U
GET /organizations                                                K y y y y y y U U U
POST /organizations                                               K y P P P P P U U U
GET /organizations/{org}                                          K y y y y y P U U U
PUT /organizations/{org}                                          K y y y y P P U U U
PUT /organizations/{org} owner                                    K y y P P P P U U U
PUT /organizations/{org} default                                  K y y P P P P U U U
DELETE /organizations/{default}                                   K y y W W W W U U U
POST /organizations/{org}/members                                 K y y y y H H U U U
POST /organizations/{org}/members ADMIN                           K y y P P H H U U U
PUT /organizations/{org}/members/evaluator                        K y y y y H M U U U
DELETE /organizations/{org}/members/{username}                    K y y y y P M U U U
POST /organizations/{org}/api-keys                                K y y y y H H U U U
DELETE /organizations/{org}/api-keys/{apiKeyId}                   K y y y y H H U U U
DELETE /organizations/{org}/api-keys/{allKeyId}                   K - - - P H H U U U
GET /organizations/{org}/services                                 K y y y y y M U U U
POST /organizations/{org}/services                                K y y y y L M U U U
POST /organizations/{org}/services/lint                           K y y y y L M U U U
DELETE /organizations/{org}/services                              K y y y L L M U U U
GET /organizations/{org}/services/{serviceName}                   K y y y y y M U U U
PUT /organizations/{org}/services/{serviceName}                   K y y y y L M U U U
DELETE /organizations/{org}/services/{serviceName}                K y y y L L M U U U
GET /organizations/{org}/services/{serviceName}/pricings          K y y y y y M U U U
POST /organizations/{org}/services/{serviceName}/pricings         K y y y y L M U U U
GET /organizations/{org}/services/{serviceName}/pricings/{version}    K y y y y y M U U U
GET /organizations/{org}/services/{serviceName}/pricings/{version}/public-url  K y y y y y M U U U
GET /organizations/{org}/services/{serviceName}/versions  K y y y y y M U U U
GET /organizations/{org}/services/{serviceName}/pricings/{version}/source  K y y y y y M U U U
GET /organizations/{org}/services/{serviceName}/pricings/{version}/expectations  K y y y y y M U U U
PUT /organizations/{org}/services/{serviceName}/pricings/{version}/expectations  K y y y y L M U U U
PUT /organizations/{org}/services/{serviceName}/pricings/{version}    K y y y y L M U U U
DELETE /organizations/{org}/services/{serviceName}/pricings/{version} K y y y L L M U U U
GET /organizations/{org}/services/{serviceName}/diff              K y y y y y M U U U
POST /organizations/{org}/services/{serviceName}/diff             K y y y y L M U U U
POST /organizations/{org}/services/{serviceName}/impact           K y y y y L M U U U
POST /organizations/{org}/services/{serviceName}/replay           K y y y y L M U U U
POST /organizations/{org}/services/{serviceName}/novations        K y y y y L M U U U
GET /organizations/{org}/services/{serviceName}/decisions         K y y y y y M U U U
GET /organizations/{org}/gate                                     K y y y y y M U U U
GET /organizations/{org}/overview                                 K y y y y y M U U U
GET /organizations/{org}/trends                                   K y y y y y M U U U
GET /organizations/{org}/denials                                  K y y y y y M U U U
PUT /organizations/{org}/gate                                     K y y y L L M U U U
GET /organizations/{org}/usage-alerts                             K y y y y y M U U U
GET /organizations/{org}/local-evaluation                         K y y y y y M U U U
PUT /organizations/{org}/usage-alerts                             K y y y y L M U U U
GET /organizations/{org}/contracts                                K y y y y y M S S S
GET /organizations/{org}/contracts/{userId}                       K y y y y y M S S S
POST /organizations/{org}/contracts                               K y y y y L M S S S
PUT /organizations/{org}/contracts?groupId=none                   K y y y y L M U U U
PUT /organizations/{org}/contracts/{userId}                       K y y y y L M S S S
DELETE /organizations/{org}/contracts                             K y y y L L M S S S
DELETE /organizations/{org}/contracts/{userId}                    K y y y L L M S S S
GET /organizations/{org}/contracts/{userId}/overrides             K y y y y y M U U U
GET /organizations/{org}/contracts/{userId}/overrides/tasker/usageLimits/maxTasks K y y y y y M U U U
PUT /organizations/{org}/contracts/{userId}/overrides/tasker/usageLimits/maxTasks K y y y y L M U U U
DELETE /organizations/{org}/contracts/{userId}/overrides/tasker/usageLimits/maxTasks K y y y L L M U U U
GET /organizations/{org}/contracts/{userId}/scheduled             K y y y y y M U U U
POST /organizations/{org}/contracts/{userId}/scheduled            K y y y y L M U U U
DELETE /organizations/{org}/contracts/{userId}/scheduled/1 K y y y y L M U U U
GET /organizations/{org}/contracts/{userId}/holds                 K y y y y y M U U U
GET /organizations/{org}/contracts/{userId}/blocks                K y y y y y M U U U
POST /organizations/{org}/contracts/{userId}/blocks               K y y y y L M U U U
DELETE /organizations/{org}/contracts/{userId}/blocks/1           K y y y y L M U U U
GET /organizations/{org}/contracts/{userId}/members               K y y y y y M U U U
PUT /organizations/{org}/contracts/{userId}/members               K y y y y L M U U U
GET /organizations/{org}/contracts/{userId}/members/m             K y y y y y M U U U
PUT /organizations/{org}/contracts/{userId}/members/m             K y y y y L M U U U
DELETE /organizations/{org}/contracts/{userId}/members/m          K y y y y L M U U U
GET /organizations/{org}/contracts/{userId}/budgets               K y y y y y M U U U
GET /organizations/{org}/contracts/{userId}/budgets/1             K y y y y y M U U U
PUT /organizations/{org}/contracts/{userId}/budgets/1             K y y y y L M U U U
DELETE /organizations/{org}/contracts/{userId}/budgets/1          K y y y y L M U U U
GET /organizations/{org}/contracts/{userId}/balances              K y y y y y M U U U
GET /organizations/{org}/blocks                                   K y y y y y M U U U
GET /organizations/{org}/scheduled                                K y y y y y M U U U
GET /organizations/{org}/services/{serviceName}/scheduled                K y y y y y M U U U
DELETE /organizations/{org}/services/{serviceName}/scheduled/1           K y y y y L M U U U
GET /organizations/{org}/overrides                                K y y y y y M U U U
GET /organization                                                 K R R R R R R y y y
GET /services                                                     K y R R R R R y y y
POST /services                                                    K R R R R R R y y S
POST /services/lint                                               K R R R R R R y y S
DELETE /services                                                  K y R R R R R y S S
GET /services/{serviceName}                                       K R R R R R R y y y
PUT /services/{serviceName}                                       K R R R R R R y y S
DELETE /services/{serviceName}                                    K R R R R R R y S S
GET /services/{serviceName}/pricings                              K R R R R R R y y y
POST /services/{serviceName}/pricings                             K R R R R R R y y S
GET /services/{serviceName}/pricings/{version}                    K R R R R R R y y y
GET /services/{serviceName}/pricings/{version}/public-url         K R R R R R R y y y
GET /services/{serviceName}/versions                              K R R R R R R y y y
GET /services/{serviceName}/pricings/{version}/source             K R R R R R R y y y
GET /services/{serviceName}/pricings/{version}/expectations       K R R R R R R y y y
PUT /services/{serviceName}/pricings/{version}/expectations       K R R R R R R y y S
PUT /services/{serviceName}/pricings/{version}                    K R R R R R R y y S
DELETE /services/{serviceName}/pricings/{version}                 K R R R R R R y S S
GET /services/{serviceName}/diff                                  K R R R R R R y y y
POST /services/{serviceName}/diff                                 K R R R R R R y y S
POST /services/{serviceName}/impact                               K R R R R R R y y S
POST /services/{serviceName}/replay                               K R R R R R R y y S
POST /services/{serviceName}/novations                            K R R R R R R y y S
GET /services/{serviceName}/decisions                             K R R R R R R y y S
GET /contracts                                                    K y R R R R R y y S
POST /contracts                                                   K y R R R R R y y S
PUT /contracts                                                    K y R R R R R y y S
DELETE /contracts                                                 K y R R R R R y S S
PUT /contracts/billingPeriod                                      K y R R R R R y y S
GET /contracts/{userId}                                           K y R R R R R y y S
PUT /contracts/{userId}                                           K y R R R R R y y S
DELETE /contracts/{userId}                                        K y R R R R R y S S
PUT /contracts/{userId}/usageLevels                               K y R R R R R y y S
PUT /contracts/{userId}/userContact                               K y R R R R R y y S
PUT /contracts/{userId}/billingPeriod                             K y R R R R R y y S
GET /contracts/{userId}/overrides                                 K y R R R R R y y S
GET /contracts/{userId}/overrides/tasker/usageLimits/maxTasks     K y R R R R R y y S
PUT /contracts/{userId}/overrides/tasker/usageLimits/maxTasks     K y R R R R R y y S
DELETE /contracts/{userId}/overrides/tasker/usageLimits/maxTasks  K y R R R R R y S S
GET /contracts/{userId}/scheduled                                 K y R R R R R y y S
POST /contracts/{userId}/scheduled                                K y R R R R R y y S
DELETE /contracts/{userId}/scheduled/1                            K y R R R R R y y S
GET /contracts/{userId}/holds                                     K y R R R R R y y S
GET /contracts/{userId}/blocks                                    K y R R R R R y y S
POST /contracts/{userId}/blocks                                   K y R R R R R y y S
DELETE /contracts/{userId}/blocks/1                               K y R R R R R y y S
GET /contracts/{userId}/members                                   K y R R R R R y y S
PUT /contracts/{userId}/members                                   K y R R R R R y y S
GET /contracts/{userId}/members/m                                 K y R R R R R y y S
PUT /contracts/{userId}/members/m                                 K y R R R R R y y S
DELETE /contracts/{userId}/members/m                              K y R R R R R y y S
GET /contracts/{userId}/budgets                                   K y R R R R R y y S
GET /contracts/{userId}/budgets/1                                 K y R R R R R y y S
PUT /contracts/{userId}/budgets/1                                 K y R R R R R y y S
DELETE /contracts/{userId}/budgets/1                              K y R R R R R y y S
GET /contracts/{userId}/balances                                  K y R R R R R y y S
POST /holds/1                                                     K R R R R R R y y y
DELETE /holds/1                                                   K R R R R R R y y y
POST /features/{userId}/{featureId}/leases                        K R R R R R R y y y
POST /leases/1                                                    K R R R R R R y y y
DELETE /leases/1                                                  K R R R R R R y y y
GET /scheduled                                                    K y R R R R R y y S
GET /services/{serviceName}/scheduled                                    K R R R R R R y y S
DELETE /services/{serviceName}/scheduled/1                               K R R R R R R y y S
GET /overrides                                                    K y R R R R R y y S
GET /features                                                     K R R R R R R y y y
POST /features/{userId}                                           K R R R R R R y y y
POST /features/{userId}/pricing-token                             K R R R R R R y y y
POST /features/{userId}/{featureId}                               K R R R R R R y y y
POST /snapshot                                                    K R R R R R R y y y
PUT /features                                                     K R R R R R R 4 4 S
DELETE /features                                                  K R R R R R R 4 4 S
POST /ofrep/v1/evaluate/flags                                     K R R R R R R y y y
POST /ofrep/v1/evaluate/flags/{key}                               K R R R R R R y y y
POST /pricing-tokens/verify                                       K y y y y y y y y y
GET /ofrep/v1/evaluate/flags                                      X X X X X X X X X X
POST /ofrep/v1/evaluate                                           X X X X X X X X X X
POST /api/v1/ofrep/v1/evaluate/flags                              X X X X X X X X X X
GET /organizations/{org}/webhooks                                 K y y y y y M U U U
POST /organizations/{org}/webhooks                                K y y y y L M U U U
GET /organizations/{org}/webhooks/{webhookId}                     K y y y y y M U U U
PUT /organizations/{org}/webhooks/{webhookId}                     K y y y y L M U U U
DELETE /organizations/{org}/webhooks/{webhookId}                  K y y y y L M U U U
POST /organizations/{org}/webhooks/{webhookId}/secret             K y y y y L M U U U
GET /organizations/{org}/webhooks/{webhookId}/deliveries          K y y y y y M U U U
POST /organizations/{org}/webhooks/{webhookId}/deliveries/{id}/resend  K y y y y L M U U U
GET /webhooks                                                     K y R R R R R y y S
POST /webhooks                                                    K y R R R R R y y S
GET /webhooks/{webhookId}                                         K y R R R R R y y S
PUT /webhooks/{webhookId}                                         K y R R R R R y y S
DELETE /webhooks/{webhookId}                                      K y R R R R R y y S
POST /webhooks/{webhookId}/secret                                 K y R R R R R y y S
GET /webhooks/{webhookId}/deliveries                              K y R R R R R y y S
POST /webhooks/{webhookId}/deliveries/{id}/resend                 K y R R R R R y y S
GET /users/{username}/api-key                                     K y P P P P P U U U
GET /organizations/{org}/api-keys                                 K y y y y H H U U U
PUT /organizations/{org}/api-keys/{apiKeyId}                      K y y y y H H U U U
PUT /organizations/{org}/api-keys/{allKeyId}                      K y y y P H H U U U
GET /organizations/{org}/audit-log                                K y y y L L M U U U
GET /audit-log                                                    K y R R R R R y S S
GET /analytics/api-calls                                          K y y y y y y y y y
GET /analytics/evaluations                                        K y y y y y y y y y
GET /cache/get                                                    K y R R R R R U U U
POST /cache/set                                                   K y R R R R R U U U
GET /events/status                                                y y y y y y y y y y
GET /events/client                                                y y y y y y y y y y
POST /events/test-event                                           y y y y y y y y y y
GET /healthcheck                                                  y y y y y y y y y y
GET /nonexistent-route                                            X X X X X X X X X X
PATCH /healthcheck                                                X X X X X X X X X X
`;

/** The columns of the matrix. */
const COLUMNS = [
  "a caller without a key",
  "platform ADMIN",
  "OWNER",
  "organization ADMIN",
  "MANAGER",
  "EVALUATOR",
  "another USER",
  "key ALL",
  "key MANAGEMENT",
  "key EVALUATION",
];

/** Lists the callers that a row of the matrix refuses. */
function refusedCallers(row: readonly string[]): string {
  const refused = COLUMNS.filter((_, i) => row[i] !== "y" && row[i] !== "-");
  if (refused.length === COLUMNS.length) return "everybody";
  return refused.length === 0 ? "nobody" : refused.join(", ");
}

/** Bodies that only a permission check rejects with 401 or 403. */
const BODIES: Record<string, unknown> = {
  "PUT /users/{username}": { role: "USER" },
  "PUT /users/{username}/role": { role: "USER" },
  "POST /organizations": { name: "Acme", owner: "platform-admin", default: "neither" },
  "PUT /organizations/{org}": { name: "Acme" },
  "PUT /organizations/{org} owner": { owner: "owner" },
  "PUT /organizations/{org} default": { default: false },
  "POST /organizations/{org}/members": { username: "evaluator", role: "EVALUATOR" },
  "POST /organizations/{org}/members ADMIN": { username: "evaluator", role: "ADMIN" },
  "PUT /organizations/{org}/members/evaluator": { role: "EVALUATOR" },
  "POST /organizations/{org}/api-keys": { scope: "NONE" },
  "PUT /organizations/{org}/api-keys/{apiKeyId}": { expiresAt: null },
  "PUT /organizations/{org}/api-keys/{allKeyId}": { expiresAt: null },
};

const DENIALS: readonly [string, number, RegExp][] = [
  ["K", 401, /^API Key not found\. Please ensure to add an API Key as value of the "x-api-key" header\.$/],
  ["R", 403, /^Your user role \((USER|ADMIN)\) does not have permission to [A-Z]+ \/\S+$/],
  [
    "S",
    403,
    /^Your organization API key role \((ALL|MANAGEMENT|EVALUATION)\) does not have permission to [A-Z]+ \/\S+$/,
  ],
  ["U", 403, /^This route requires a user API key\. Organization API keys are not allowed$/],
  [
    "M",
    403,
    /^This route requires user authentication\. Either you did not provide an user API key or your are not a member of this organization$/,
  ],
  ["L", 403, /^You do not have permission to access this resource\. Allowed roles: OWNER, ADMIN(, MANAGER)?$/],
  ["H", 403, /^PERMISSION ERROR: Insufficient organization permissions\. Required: OWNER, ADMIN, MANAGER$/],
  ["W", 403, /^You are not the owner of organization [0-9a-f]{24}$/],
  ["X", 403, /^You do not have permission to access this resource$/],
  ["P", 403, /^PERMISSION ERROR: /],
];

function letterOf(status: number, error: string): string {
  for (const [letter, denialStatus, sentence] of DENIALS) {
    if (status === denialStatus && sentence.test(error)) return letter;
  }
  if (status === 404 && error.startsWith("Cannot ")) return "4";
  return status === 401 || status === 403 || status >= 500 ? `${status} ${error}` : "y";
}

describe("the matrix of callers and routes", () => {
  for (const line of MATRIX.trim().split("\n")) {
    const row = line.replace(/( +[\w-]){10}$/, "");
    const expected = line.slice(row.length).trim().split(/ +/);
    test(`${row.trim()} refuses ${refusedCallers(expected)}`, async () => {
      const { organizationId, all, management, evaluation, ...users } = api.callers;
      const [method = "", template = ""] = row.trim().split(" ");
      const path = template
        .replace("{org}", organizationId)
        .replace("{default}", defaultOrganizationId)
        .replace("{allKeyId}", all.id)
        .replace("{username}", template.includes("organizations") ? "platform-admin" : "victim")
        .replaceAll(/\{\w+\}/g, "none");
      const keys = [
        undefined,
        users.platformAdmin.key,
        users.owner.key,
        users.organizationAdmin.key,
        users.manager.key,
        users.evaluator.key,
        users.outsider.key,
        all.key,
        management.key,
        evaluation.key,
      ];
      const letters = await Promise.all(
        keys.map(async (key, i) => {
          if (expected[i] === "-") return "-";
          const body = method === "GET" || method === "DELETE" ? undefined : (BODIES[row.trim()] ?? {});
          const answer = await api.call<{ error?: string; errorDetails?: string }>(method as Method, path, {
            key,
            body,
          });
          const letter = letterOf(answer.status, answer.body?.error ?? answer.body?.errorDetails ?? "");
          // The test event answers 404 to most callers (contract README, decision 6), which is no denial.
          return path === "/events/test-event" && letter === "4" ? "y" : letter;
        }),
      );
      expect(letters).toEqual(expected);
    });
  }
});

test("a path without a rule names it in details, with or without a key", async () => {
  for (const key of [undefined, api.callers.platformAdmin.key]) {
    const answer = await api.call("GET", "/nonexistent-route", { key });
    expect(answer.status).toBe(403);
    expect(answer.body).toEqual({
      error: "You do not have permission to access this resource",
      details: "No permission rule found for GET /nonexistent-route",
    });
  }
});

test.each([
  ["PUT", "members"],
  ["DELETE", "members"],
  ["DELETE", "api-keys"],
] as const)("%s /organizations/{org}/%s has a rule and no handler, so it is 404", async (method, collection) => {
  const { organizationId, owner } = api.callers;
  for (const slash of ["", "/"]) {
    const path = `/organizations/${organizationId}/${collection}${slash}`;
    const answer = await api.call(method, path, { key: owner.key });
    expect(answer.status).toBe(404);
    expect(answer.body).toEqual({
      error: `Cannot ${method} /api/v1/organizations/${organizationId}/${collection}`,
    });
  }
  expect((await api.call("POST", `/organizations/${organizationId}`, { key: owner.key })).status).toBe(404);
});

test.each([
  ["usr_unknown", "INVALID DATA: Invalid API Key"],
  ["org_unknown", "Invalid Organization API Key"],
  ["bearer", 'Invalid API Key format. API Keys must start with "usr_" or "org_"'],
])("a key that is present and wrong (%s) is 401, also on public routes", async (key, error) => {
  for (const [method, path] of [
    ["GET", "/users"],
    ["GET", "/healthcheck"],
    ["POST", "/users"],
    ["POST", "/users/authenticate"],
  ] as const) {
    const answer = await api.call(method, path, { key });
    expect(answer.status).toBe(401);
    expect(answer.body).toEqual({ error });
  }
});

test.each(["/users", "/healthcheck", "/api/v10/healthcheck", "/services"])(
  "%s outside of the interface has no rule, although one inside looks like it",
  async (path) => {
    const answer = await api.app.request(path);
    expect(answer.status).toBe(403);
    expect(await answer.json()).toEqual({
      error: "You do not have permission to access this resource",
      details: `No permission rule found for GET ${path}`,
    });
  },
);
