import { JSDOM } from "jsdom";
import { act, createElement as h, useEffect } from "react";
import { createRoot, type Root } from "react-dom/client";
import { Default, ErrorFallback, Feature, Loading, On, SpaceProvider, useSpaceClient } from "space-react-client";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { yamlUpload } from "../support/uploads.ts";

/*
 * space-react-client 0.3.2 from the registry, unmodified, in a DOM, against the real event server process. Source: contract clients §2.7.
 */

const PRICING = `
saasName: Gazette
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  news:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['news'] && subscriptionContext['maxNews'] < pricingContext['usageLimits']['maxNews']
usageLimits:
  maxNews: { valueType: NUMERIC, defaultValue: 1, unit: news, type: NON_RENEWABLE, trackable: true }
plans:
  BASIC: { price: 0, features: null }
`;

// Before React looks for one: only its DOM, everything else stays the runtime's own.
const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://localhost/" });
const { document } = window;
Object.assign(globalThis, { window, document, IS_REACT_ACT_ENVIRONMENT: true });

let api: TestApi;
let server: RunningServer;
let root: Root;
let client: ReturnType<typeof useSpaceClient> | undefined;

function Page() {
  const space = useSpaceClient();
  useEffect(() => {
    client = space;
  }, [space]);
  return h(
    Feature,
    { id: "gazette-news" },
    h(On, null, "ON"),
    h(Default, null, "OFF"),
    h(Loading, null, "LOADING"),
    h(ErrorFallback, null, "ERROR"),
  );
}

beforeAll(async () => {
  const keyring = await testKeyring();
  api = await createTestApi({ resources: { keyring, now: () => new Date() } });
  server = await startEventServer(api.database.url);
  const key = api.callers.all.key;
  const uploaded = await api.call("POST", "/services", { key, body: yamlUpload(PRICING) });
  expect(uploaded.status).toBe(201);
  await api.call("POST", "/contracts", {
    key,
    body: {
      userContact: { userId: "reader", username: "reader" },
      contractedServices: { gazette: "1.0.0" },
      subscriptionPlans: { gazette: "BASIC" },
      subscriptionAddOns: {},
    },
  });
  const place = document.body.appendChild(document.createElement("div"));
  root = createRoot(place);
  const config = { url: server.url, apiKey: api.callers.evaluation.key, allowConnectionWithSpace: true };
  await act(async () => root.render(h(SpaceProvider, { config, children: h(Page) })));
});
afterAll(async () => {
  client?.disconnectWebSocket();
  await act(async () => root.unmount());
  await server.stop();
  await api.close();
});

const text = () => document.body.textContent;

test("without a token the published React client shows the error fallback", () => {
  expect(text()).toBe("ERROR");
});

test("after setUserId, with an EVALUATION key, the feature is on", async () => {
  await act(async () => client?.setUserId("reader"));
  await vi.waitFor(() => expect(text()).toBe("ON"), { timeout: 30_000 });
});

test("after the limit is used up and the token asked for again, the feature is off", async () => {
  const consumed = await api.call("POST", "/features/reader/gazette-news", {
    key: api.callers.all.key,
    body: { "gazette-maxNews": 1 },
  });
  expect(consumed.body).toMatchObject({ eval: true });
  await act(async () => client?.setUserId("reader"));
  await vi.waitFor(() => expect(text()).toBe("OFF"), { timeout: 30_000 });
});

test("it hears that a pricing was created", async () => {
  const heard = new Promise((done) => client?.on("pricing_created", done));
  const next = yamlUpload(PRICING.replace("1.0.0", "1.1.0"));
  await api.call("POST", "/services/Gazette/pricings", { key: api.callers.all.key, body: next });
  await expect(heard).resolves.toEqual({ serviceName: "Gazette", pricingVersion: "1.1.0" });
}, 10_000);
