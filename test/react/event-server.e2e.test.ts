import { JSDOM } from "jsdom";
import { act, createElement as h, useEffect } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import {
  Default,
  ErrorFallback,
  Feature,
  Loading,
  On,
  type ServiceClient,
  ServiceProvider,
  useServiceClient,
  useUsage,
} from "../../src/react/react.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { yamlUpload } from "../support/uploads.ts";

/*
 * The React library in a DOM, below a sub-path, against the real event server process: what a user sees when a limit is used up and
 * a pricing archived.
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
  archive:
    valueType: BOOLEAN
    defaultValue: false
    type: DOMAIN
    expression: pricingContext['features']['archive']
usageLimits:
  maxNews: { valueType: NUMERIC, defaultValue: 1, unit: news, type: NON_RENEWABLE, trackable: true }
plans:
  BASIC: { price: 0, features: null }
  PREMIUM: { price: 9, features: { archive: { value: true } }, usageLimits: { maxNews: { value: 5 } } }
`;

// A page that is not visual is hidden, and a hidden page does not refresh.
const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://localhost/", pretendToBeVisual: true });
const { document } = window;
Object.assign(globalThis, { window, document });

let api: TestApi;
let server: RunningServer;
let root: Root;
let client: ServiceClient | undefined;
const events: string[] = [];

function Shown({ id }: { id: string }) {
  return h(
    Feature,
    { id },
    h(On, null, "on"),
    h(Default, null, "off"),
    h(Loading, null, "loading"),
    h(ErrorFallback, null, "error"),
  );
}

function Page() {
  const service = useServiceClient();
  const { remaining } = useUsage("gazette-news");
  useEffect(() => {
    client = service;
    service.on("synchronized", () => events.push("synchronized"));
    service.on("pricing_archived", ({ serviceName, pricingVersion }) =>
      events.push(`${serviceName} ${pricingVersion}`),
    );
    service.setUserId("reader").catch((error: unknown) => events.push(String(error)));
  }, [service]);
  return h("p", null, h(Shown, { id: "gazette-news" }), " ", h(Shown, { id: "gazette-archive" }), ` ${remaining}`);
}

const key = () => api.callers.all.key;
const shows = (text: string) =>
  vi.waitFor(() => expect(document.body.textContent).toBe(text), { timeout: 30_000, interval: 20 });

beforeAll(async () => {
  const keyring = await testKeyring();
  api = await createTestApi({ resources: { keyring, now: () => new Date() } });
  server = await startEventServer(api.database.url, { BASE_URL_PATH: "/fare" });
  const uploads = [PRICING, PRICING.replace("1.0.0", "2.0.0")];
  expect((await api.call("POST", "/services", { key: key(), body: yamlUpload(uploads[0] ?? "") })).status).toBe(201);
  const second = await api.call("POST", "/services/Gazette/pricings", {
    key: key(),
    body: yamlUpload(uploads[1] ?? ""),
  });
  expect(second.status).toBe(201);
  const contracted = await api.call("POST", "/contracts", {
    key: key(),
    body: {
      userContact: { userId: "reader", username: "reader" },
      contractedServices: { gazette: "1.0.0" },
      subscriptionPlans: { gazette: "PREMIUM" },
      subscriptionAddOns: {},
    },
  });
  expect(contracted.status).toBe(201);
  root = createRoot(document.body.appendChild(document.createElement("div")));
  const config = { url: `${server.url}/fare/`, apiKey: api.callers.evaluation.key };
  root.render(h(ServiceProvider, { config, children: h(Page) }));
});
afterAll(async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  await act(async () => root.unmount());
  expect(await server.stop()).toBe(0);
  await api.close();
});

test("with a PREMIUM contract both features show, with what remains", async () => {
  await shows("on on 5");
  await vi.waitFor(() => expect(events).toContain("synchronized"), { timeout: 30_000 });
});

test("after consumption and a refresh less remains", async () => {
  const body = { "gazette-maxNews": 4 };
  expect((await api.call("POST", "/features/reader/gazette-news", { key: key(), body })).body).toMatchObject({
    eval: true,
  });
  await client?.refresh();
  await shows("on on 1");
});

test("when the pricing is archived with BASIC as fallback, the page loses what BASIC lacks by itself", async () => {
  const body = { subscriptionPlan: "BASIC", subscriptionAddOns: {} };
  const archived = await api.call("PUT", "/services/Gazette/pricings/1.0.0?availability=archived", {
    key: key(),
    body,
  });
  expect(archived.status).toBe(200);
  await vi.waitFor(() => expect(events).toContain("Gazette 1.0.0"), { timeout: 30_000 });
  await vi.waitFor(() => expect(document.body.textContent).toMatch(/^\w+ off /), { timeout: 30_000, interval: 20 });
});

test("a user without a contract sees the error, and the promise says why", async () => {
  await expect(client?.setUserId("nobody")).rejects.toMatchObject({ status: 404 });
  await shows("error error null");
});
