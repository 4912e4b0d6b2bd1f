import { createHmac } from "node:crypto";
import { jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createKeyring, deriveTokenKey } from "../../src/operations/credentials.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { yamlUpload } from "../support/uploads.ts";

/** Pricing and calls of contract features-events §8, in order. Each test builds on the previous one. */
const TASKER = `
saasName: Tasker
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2026-03-01"
currency: EUR
features:
  board:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks']
    serverExpression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] <= pricingContext['usageLimits']['maxTasks']
  darkMode: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['darkMode']" }
  sla: { valueType: TEXT, defaultValue: "99%", type: GUARANTEE, expression: "pricingContext['features']['sla'] === '99.9%'" }
usageLimits:
  maxTasks: { valueType: NUMERIC, defaultValue: 5, unit: task, type: RENEWABLE, period: { value: 1, unit: MONTH }, linkedFeatures: [board] }
plans:
  PRO:
    price: 10
    unit: user/month
    features: { darkMode: { value: true }, sla: { value: "99.9%" } }
    usageLimits: { maxTasks: { value: 20 } }
addOns:
  extraTasks:
    price: 2
    unit: /month
    usageLimitsExtensions: { maxTasks: { value: 10 } }
    subscriptionConstraints: { minQuantity: 1, maxQuantity: 5, quantityStep: 1 }
`;

let api: TestApi;
let key: string;

beforeAll(async () => {
  const keyring = await createKeyring({
    apiKeysSecret: "api keys secret of the worked example",
    jwtSecret: "example-secret",
    jwtSalt: "example-salt",
  });
  api = await createTestApi({ settings: { publicUrl: "https://pricing.example.com" }, resources: { keyring } });
  key = api.callers.all.key;
});
afterAll(() => api.close());

const evaluate = (path: string, body?: unknown) => api.call("POST", `/features/user-42${path}`, { key, body });

test("the key of pricing tokens is the one of the test vector", async () => {
  const bytes = await deriveTokenKey("example-secret", "example-salt");
  expect(Buffer.from(bytes).toString("hex")).toBe("5dbfe9e28c7a3578b8f5f39692f974a140423e6c067ed5340c5be052c0dd1eb5");
});

test("a contract with PRO and two extraTasks has the example's billing period and usage level", async () => {
  api.setNow(new Date("2026-03-10T09:00:00.000Z"));
  const uploaded = await api.call("POST", "/services", { key, body: yamlUpload(TASKER) });
  expect(uploaded.status).toBe(201);
  const created = await api.call("POST", "/contracts", {
    key,
    body: {
      userContact: { userId: "user-42", username: "ada", email: "ada@example.org" },
      billingPeriod: { autoRenew: true, renewalDays: 30 },
      groupId: "team-a",
      contractedServices: { Tasker: "1.0.0" },
      subscriptionPlans: { Tasker: "PRO" },
      subscriptionAddOns: { Tasker: { extraTasks: 2 } },
    },
  });
  expect(created).toMatchObject({ status: 201 });
  expect(created.body).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{24}$/),
    userContact: { userId: "user-42", username: "ada", email: "ada@example.org" },
    billingPeriod: {
      startDate: "2026-03-10T09:00:00.000Z",
      endDate: "2026-04-09T09:00:00.000Z",
      autoRenew: true,
      renewalDays: 30,
    },
    usageLevels: { tasker: { maxTasks: { resetTimeStamp: "2026-04-10T09:00:00.000Z", consumed: 0 } } },
    organizationId: api.callers.organizationId,
    groupId: "team-a",
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: { tasker: { extraTasks: 2 } },
    history: [],
  });
});

test("call 1: all features evaluate to booleans", async () => {
  const answer = await evaluate("");
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({ "tasker-board": true, "tasker-darkMode": true, "tasker-sla": true });
});

test("call 2: details carry limit and use of each feature", async () => {
  const answer = await evaluate("?details=true");
  expect(JSON.stringify(answer.body)).toBe(
    '{"tasker-board":{"eval":true,"limit":{"tasker-maxTasks":40},"used":{"tasker-maxTasks":0},"error":null},"tasker-darkMode":{"eval":true,"limit":null,"used":null,"error":null},"tasker-sla":{"eval":true,"limit":null,"used":null,"error":null}}',
  );
});

test("call 3: consuming three answers the new total", async () => {
  const answer = await evaluate("/tasker-board", { "tasker-maxTasks": 3 });
  expect(JSON.stringify(answer.body)).toBe(
    '{"eval":true,"limit":{"tasker-maxTasks":40},"used":{"tasker-maxTasks":3},"error":null}',
  );
});

test("call 4: the pricing token is the example's, byte for byte", async () => {
  api.setNow(new Date("2026-03-10T09:05:00.000Z"));
  const answer = await evaluate("/pricing-token");
  const token = String(answer.body.pricingToken);
  const [header, payload, signature] = token.split(".");
  expect(header).toBe("eyJhbGciOiJIUzI1NiJ9");
  expect(atob(payload ?? "")).toBe(
    '{"features":{"tasker-board":{"eval":true,"limit":40,"used":3,"error":null},"tasker-darkMode":{"eval":true,"limit":null,"used":null,"error":null},"tasker-sla":{"eval":true,"limit":null,"used":null,"error":null}},"pricingContext":{"features":{"tasker-board":true,"tasker-darkMode":true,"tasker-sla":"99.9%"},"usageLimits":{"tasker-maxTasks":40}},"subscriptionContext":{"tasker-maxTasks":3},"iat":1773133500,"exp":1773137100,"sub":"user-42","iss":"https://pricing.example.com","aud":"' +
      `${api.callers.organizationId}"}`,
  );
  const tokenKey = Buffer.from("5dbfe9e28c7a3578b8f5f39692f974a140423e6c067ed5340c5be052c0dd1eb5", "hex");
  expect(signature).toBe(createHmac("sha256", tokenKey).update(`${header}.${payload}`).digest("base64url"));
  const { payload: verified } = await jwtVerify(token, await deriveTokenKey("example-secret", "example-salt"), {
    algorithms: ["HS256"],
    currentDate: new Date("2026-03-10T09:05:00.000Z"),
  });
  expect(verified.sub).toBe("user-42");
});

test("call 5: a granted call may pass the limit", async () => {
  api.setNow(new Date("2026-03-10T09:06:00.000Z"));
  const answer = await evaluate("/tasker-board", { "tasker-maxTasks": 100 });
  expect(answer.body).toMatchObject({ eval: true, used: { "tasker-maxTasks": 103 } });
});

test("call 6: a refused call stores nothing and shows what it would have been", async () => {
  const answer = await evaluate("/tasker-board", { "tasker-maxTasks": 1 });
  expect(answer.body).toEqual({
    eval: false,
    limit: { "tasker-maxTasks": 40 },
    used: { "tasker-maxTasks": 104 },
    error: null,
  });
  const contract = await api.call("GET", "/contracts/user-42", { key });
  expect(contract.body).toMatchObject({ usageLevels: { tasker: { maxTasks: { consumed: 103 } } } });
});

test("call 7: reverting the latest consumption within two minutes takes back exactly it", async () => {
  api.setNow(new Date("2026-03-10T09:07:59.000Z"));
  const answer = await evaluate("/tasker-board?revert=true&latest=true");
  expect(answer.status).toBe(204);
  const contract = await api.call("GET", "/contracts/user-42", { key });
  expect(contract.body).toMatchObject({ usageLevels: { tasker: { maxTasks: { consumed: 3 } } } });
});

test("call 8: a body that misses an involved limit is an INVALID_EXPECTED_CONSUMPTION", async () => {
  const answer = await evaluate("/tasker-board", { other: 1 });
  expect(answer.body).toEqual({
    eval: false,
    limit: null,
    used: null,
    error: {
      code: "INVALID_EXPECTED_CONSUMPTION",
      message:
        "No expectedConsumption value was provided for limit 'tasker-maxTasks', which is used in the evaluation of feature 'tasker-board'. Please note that if you provide an expectedConsumption for any limit, you must provide it for all limits involved in that feature's evaluation.",
    },
  });
});

test("call 9: a feature id in other letter case is a FLAG_NOT_FOUND", async () => {
  const answer = await evaluate("/Tasker-board", { "tasker-maxTasks": 1 });
  expect(answer.body).toEqual({
    eval: false,
    limit: null,
    used: null,
    error: { code: "FLAG_NOT_FOUND", message: 'Feature Tasker-board not found in "pricingContext".' },
  });
});

test("call 10: after the period both contract and usage level have been renewed once", async () => {
  api.setNow(new Date("2026-04-12T00:00:00.000Z"));
  const answer = await evaluate("");
  expect(answer.body).toEqual({ "tasker-board": true, "tasker-darkMode": true, "tasker-sla": true });
  const contract = await api.call("GET", "/contracts/user-42", { key });
  expect(contract.body).toMatchObject({
    billingPeriod: { startDate: "2026-03-10T09:00:00.000Z", endDate: "2026-05-09T09:00:00.000Z" },
    usageLevels: { tasker: { maxTasks: { resetTimeStamp: "2026-05-10T09:00:00.000Z", consumed: 0 } } },
  });
});
