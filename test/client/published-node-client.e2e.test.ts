import { decodeProtectedHeader, jwtVerify } from "jose";
import { connect, type SpaceClient } from "space-node-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deriveTokenKey } from "../../src/operations/credentials.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { type RunningServer, startEventServer, TEST_SECRETS, testKeyring } from "../support/event-server.ts";
import { yamlUpload } from "../support/uploads.ts";

/*
 * space-node-client 0.3.0 from the registry, unmodified, against the real event server process.
 * Source: contract clients §2.7.
 */

const PRICING = `
saasName: TomatoMeter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  pomodoroTimer:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['pomodoroTimer'] && subscriptionContext['maxPomodoroTimers'] < pricingContext['usageLimits']['maxPomodoroTimers']
usageLimits:
  maxPomodoroTimers: { valueType: NUMERIC, defaultValue: 2, unit: timer, type: NON_RENEWABLE, trackable: true }
plans:
  BASIC: { price: 0, features: null }
  PREMIUM: { price: 3, features: null, usageLimits: { maxPomodoroTimers: { value: 10 } } }
`;

describe.each([
  { name: "at the root", prefix: "" },
  { name: "below a sub-path", prefix: "/space" },
])("the published Node client $name", ({ prefix }) => {
  let api: TestApi;
  let server: RunningServer;
  let client: SpaceClient;
  let key: string;

  beforeAll(async () => {
    const keyring = await testKeyring();
    api = await createTestApi({ resources: { keyring, now: () => new Date() } });
    key = api.callers.all.key;
    server = await startEventServer(api.database.url, { BASE_URL_PATH: prefix });
    client = connect({ url: `${server.url}${prefix}`, apiKey: key });
  });
  afterAll(async () => {
    await client.close();
    expect(await server.stop()).toBe(0);
    await api.close();
  });

  /** The next event of that name, within the five seconds that its own suite waits. */
  const heard = (event: string) =>
    new Promise<unknown>((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`${event} was not heard`)), 30_000);
      client.on(event, (details) => {
        clearTimeout(timer);
        done(details);
      });
    });

  const call = async (method: string, path: string, body?: unknown) => {
    const isForm = body instanceof FormData;
    const answer = await fetch(`${server.url}${prefix}/api/v1${path}`, {
      method,
      headers: { "x-api-key": key, ...(isForm ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    return { status: answer.status, text: await answer.text() };
  };

  test("it synchronizes with the event channel", async () => {
    await heard("synchronized");
    expect(await client.isConnectedToSpace()).toBeTruthy();
  });

  test("it hears PRICING_CREATED, PRICING_ARCHIVED, PRICING_ACTIVED and SERVICE_DISABLED", async () => {
    const created = heard("pricing_created");
    expect((await call("POST", "/services", yamlUpload(PRICING.replace("TomatoMeter", "Passing")))).status).toBe(201);
    expect(await created).toEqual({ serviceName: "Passing", pricingVersion: "1.0.0" });
    const next = yamlUpload(PRICING.replace("TomatoMeter", "Passing").replace("1.0.0", "2.0.0"));
    expect((await call("POST", "/services/Passing/pricings", next)).status).toBe(201);
    const archived = heard("pricing_archived");
    const fallback = { subscriptionPlan: "BASIC", subscriptionAddOns: {} };
    const archive = await call("PUT", "/services/Passing/pricings/1.0.0?availability=archived", fallback);
    expect(archive.status, archive.text).toBe(200);
    expect(await archived).toEqual({ serviceName: "Passing", pricingVersion: "1.0.0" });
    const actived = heard("pricing_actived");
    expect((await call("PUT", "/services/Passing/pricings/1.0.0?availability=active")).status).toBe(200);
    expect(await actived).toEqual({ serviceName: "Passing", pricingVersion: "1.0.0" });
    const disabled = heard("service_disabled");
    expect((await call("DELETE", "/services/Passing")).status).toBe(204);
    expect(await disabled).toEqual({ serviceName: "Passing" });
  });

  test("it adds, reads and novates a contract", async () => {
    expect((await call("POST", "/services", yamlUpload(PRICING))).status).toBe(201);
    const added = await client.contracts.addContract({
      userContact: { userId: "node-user", username: "node" },
      billingPeriod: { autoRenew: true, renewalDays: 30 },
      contractedServices: { TomatoMeter: "1.0.0" },
      subscriptionPlans: { TomatoMeter: "BASIC" },
      subscriptionAddOns: {},
    });
    expect(added.userContact.userId).toBe("node-user");
    const novated = await client.contracts.updateContractSubscription("node-user", {
      contractedServices: { TomatoMeter: "1.0.0" },
      subscriptionPlans: { TomatoMeter: "PREMIUM" },
      subscriptionAddOns: {},
    });
    expect(novated.subscriptionPlans).toEqual({ tomatometer: "PREMIUM" });
    const shown = await client.contracts.getContract("node-user");
    expect(shown.history).toHaveLength(1);
  });

  test("it encodes no user id: a call with one that has to be encoded is about another user, or fails", async () => {
    expect((await client.contracts.getContract("node-user?b")).userContact.userId).toBe("node-user");
    expect((await client.contracts.getContract("node-user#b")).userContact.userId).toBe("node-user");
    await expect(client.contracts.getContract("node-user/b")).rejects.toMatchObject({ response: { status: 404 } });
    await expect(client.contracts.getContract("node-user\\b")).rejects.toMatchObject({ response: { status: 404 } });
    await expect(client.contracts.getContract("100%")).rejects.toMatchObject({ response: { status: 400 } });
  });

  test("it evaluates and consumes, with limit and use as maps", async () => {
    const read = await client.features.evaluate("node-user", "tomatometer-pomodoroTimer");
    expect(read).toMatchObject({ eval: true, used: { "tomatometer-maxPomodoroTimers": 0 } });
    const consumed = await client.features.evaluate("node-user", "tomatometer-pomodoroTimer", {
      "tomatometer-maxPomodoroTimers": 1,
    });
    expect(consumed.used).toEqual({ "tomatometer-maxPomodoroTimers": 1 });
    expect(consumed.limit).toEqual({ "tomatometer-maxPomodoroTimers": 10 });
  });

  test("its revert, which names no feature, is answered with success and undoes nothing", async () => {
    expect(await client.features.revertEvaluation("node-user", "tomatometer-pomodoroTimer")).toBe(true);
    const read = await client.features.evaluate("node-user", "tomatometer-pomodoroTimer");
    expect(read.used).toEqual({ "tomatometer-maxPomodoroTimers": 1 });
  });

  test("it gets a pricing token that verifies", async () => {
    const token = await client.features.generateUserPricingToken("node-user");
    expect(decodeProtectedHeader(token)).toEqual({ alg: "HS256" });
    const tokenKey = await deriveTokenKey(TEST_SECRETS.JWT_SECRET, TEST_SECRETS.JWT_SALT);
    const { payload } = await jwtVerify(token, tokenKey, { algorithms: ["HS256"] });
    expect(payload.sub).toBe("node-user");
    expect(payload["features"]).toEqual({
      "tomatometer-pomodoroTimer": { eval: true, limit: 10, used: 1, error: null },
    });
  });
});
