import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { rolldown } from "rolldown";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createTestToken, type TestTokenPayload } from "../../src/client/front/test-token.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { GAZETTE } from "../support/pricings.ts";
import { yamlUpload } from "../support/uploads.ts";

/* The React library in Chromium, in StrictMode and development, from another origin than the service's. */

let api: TestApi;
let server: RunningServer;
let browser: TestBrowser;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  const keyring = await testKeyring();
  api = await createTestApi({ resources: { keyring, now: () => new Date() } });
  [server, browser] = await Promise.all([startEventServer(api.database.url), launchChromium()]);
  const key = api.callers.all.key;
  expect((await api.call("POST", "/services", { key, body: yamlUpload(GAZETTE) })).status).toBe(201);
  const next = yamlUpload(GAZETTE.replace("1.0.0", "2.0.0"));
  expect((await api.call("POST", "/services/Gazette/pricings", { key, body: next })).status).toBe(201);
});
afterAll(async () => {
  await browser.close();
  await server.stop();
  await api.close();
});

/** The application with that React, as one origin of its own. */
async function serveApplication(react: string, reactDom: string): Promise<Server> {
  const build = await rolldown({
    input: join(import.meta.dirname, "browser-app.tsx"),
    platform: "browser",
    logLevel: "silent",
    resolve: { alias: { react, "react-dom": reactDom } },
    transform: { define: { "process.env.NODE_ENV": '"development"' } },
  });
  const { output } = await build.generate({ format: "esm" });
  const files = new Map(output.map((file) => [`/${file.fileName}`, file.type === "chunk" ? file.code : ""]));
  const http = createServer((request, response) => {
    const code = files.get(request.url ?? "");
    response.setHeader("content-type", code === undefined ? "text/html" : "text/javascript");
    response.end(
      code ?? `<!doctype html><link rel="icon" href="data:,"><script type="module" src="/browser-app.js"></script>`,
    );
  });
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  return http;
}

describe.each([
  { name: "React 18", react: "react", reactDom: "react-dom" },
  { name: "React 19", react: "react19", reactDom: "react-dom19" },
])("in Chromium with $name", ({ name, react, reactDom }) => {
  let application: Server;
  let origin: string;

  beforeAll(async () => {
    application = await serveApplication(react, reactDom);
    origin = `http://127.0.0.1:${(application.address() as AddressInfo).port}`;
  });
  afterAll(() => new Promise((done) => application.close(done)));
  beforeEach(async () => {
    page = await browser.newPage();
    complaints = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
  });
  afterEach(() => page.close());

  const main = () => page.locator("main").textContent();
  const shows = (text: string) =>
    vi.waitFor(async () => expect(await main()).toBe(text), { timeout: 20_000, interval: 20 });
  const show = (payload: TestTokenPayload | string) =>
    page.evaluate(
      (token) => window.tokens.update(token),
      typeof payload === "string" ? payload : createTestToken(payload),
    );

  test("a button appears when the contract is upgraded, and leaves when the pricing is archived", async () => {
    const key = api.callers.all.key;
    const userId = `reader of ${name}`;
    const subscription = (version: string, plan: string) => ({
      contractedServices: { gazette: version },
      subscriptionPlans: { gazette: plan },
      subscriptionAddOns: {},
    });
    const userContact = { userId, username: userId.replaceAll(" ", "-") };
    const version = react === "react" ? "1.0.0" : "2.0.0";
    const made = await api.call("POST", "/contracts", {
      key,
      body: { userContact, ...subscription(version, "BASIC") },
    });
    expect(made.status).toBe(201);

    const sockets: string[] = [];
    const requests: string[] = [];
    page.on("websocket", (socket) => sockets.push(socket.url()));
    page.on("request", (request) => request.method() === "POST" && requests.push(request.url()));
    const config = { url: server.url, apiKey: api.callers.evaluation.key };
    await page.addInitScript((value) => (window.application = value), { config, userId });
    await page.goto(origin);
    await shows("No Open the archive.");
    await page.getByText("synchronized", { exact: true }).waitFor();
    expect(await page.evaluate(() => window.texts)).toEqual(["Loading.", "No Open the archive."]);
    expect(sockets).toHaveLength(1);
    expect(requests).toHaveLength(1);

    const path = `/contracts/${encodeURIComponent(userId)}`;
    const upgraded = await api.call("PUT", path, { key, body: subscription(version, "PREMIUM") });
    expect(upgraded.status).toBe(200);
    await page.getByText("I have paid").click();
    await page.getByRole("button", { name: "Open the archive" }).waitFor();

    if (version === "2.0.0") await api.call("PUT", "/services/Gazette/pricings/1.0.0?availability=active", { key });
    const archived = await api.call("PUT", `/services/Gazette/pricings/${version}?availability=archived`, {
      key,
      body: { subscriptionPlan: "BASIC", subscriptionAddOns: {} },
    });
    expect(archived.status).toBe(200);
    await page.getByText(`archived ${version}`).waitFor();
    await shows("No Open the archive.");
    expect(await page.evaluate(() => window.texts)).not.toContain("No answer.");

    expect(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie])).toEqual([
      0,
      0,
      "",
    ]);
    expect(complaints.filter((text) => !text.includes("React DevTools"))).toEqual([]);
  }, 40_000);

  test("tokens alone show what they say, and features leave on time; nothing is requested", async () => {
    const requests: string[] = [];
    await page.clock.install();
    await page.goto(origin);
    await shows("No answer.");
    page.on("request", (request) => requests.push(request.url()));
    for (const [entry, text] of [
      [true, "Meet"],
      [false, "No Meet."],
      [{ eval: "yes" as unknown as boolean }, "No answer."],
      [{ eval: false, error: { code: "X", message: "x" } }, "No Meet."],
    ] as const) {
      await show({ features: { "zoom-meetings": entry } });
      expect(await main()).toBe(text);
    }
    await show({ features: { "zoom-meetings": true } });
    expect(await show("nonsense").catch((error: Error) => error.message)).toContain("Invalid pricing token: segments");
    expect(await main()).toBe("Meet");
    await show({ features: { "zoom-other": true } });
    expect(await main()).toBe("No answer.");
    // The page's clock stands still here, so that nothing else passes between two steps.
    const now = Math.floor(Date.now() / 1000) + 3600;
    await page.clock.pauseAt(now * 1000);
    const exp = now + 10;
    await show({ features: { "zoom-meetings": true }, exp });
    expect(await main()).toBe("Meet");
    await page.clock.runFor(9_900);
    expect(await main()).toBe("Meet");
    await page.clock.runFor(1_000);
    await shows("No answer.");
    await show({ features: { "zoom-meetings": true }, exp: exp - 10 });
    expect(await main()).toBe("No answer.");
    expect(requests).toEqual([]);
    expect(complaints.filter((text) => !text.includes("React DevTools"))).toEqual([]);
  });
});
