import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { CDPSession, Page } from "playwright-core";
import { build, type Rolldown } from "vite";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { GAZETTE } from "../support/pricings.ts";
import { yamlUpload } from "../support/uploads.ts";
import type { Load } from "./racing-users-app.tsx";

/*
 * Two users in quick succession while the client's lazy chunk is on its way, in a production build of Vite: its preloading makes
 * the imports of one chunk resolve in any order. Source: contract clients §1.5 row 3, §1.8; defects R2, R13.
 */

/** The second user comes at most this long after the first; half of the loads have less than a quarter of it. */
const LONGEST_DELAY_MS = 40;

let api: TestApi;
let server: RunningServer;
let browser: TestBrowser;
/** Requests for the lazy chunk that fail from now on. */
let failures = 0;

beforeAll(async () => {
  const keyring = await testKeyring();
  api = await createTestApi({ resources: { keyring, now: () => new Date() } });
  [server, browser] = await Promise.all([startEventServer(api.database.url), launchChromium()]);
  const key = api.callers.all.key;
  expect((await api.call("POST", "/services", { key, body: yamlUpload(GAZETTE) })).status).toBe(201);
  for (const [userId, plan] of [
    ["ada", "PREMIUM"],
    ["bob", "BASIC"],
  ] as const) {
    const body = {
      userContact: { userId, username: userId },
      contractedServices: { gazette: "1.0.0" },
      subscriptionPlans: { gazette: plan },
      subscriptionAddOns: {},
    };
    expect((await api.call("POST", "/contracts", { key, body })).status).toBe(201);
  }
});
afterAll(async () => {
  await browser.close();
  await server.stop();
  await api.close();
});

/** The application as Vite ships it with that React, as one origin of its own that no browser caches. */
async function serveProductionBuild(react: string, reactDom: string): Promise<Server> {
  // Vite follows the environment, and vitest's says "test": development's JSX would meet production's React.
  vi.stubEnv("NODE_ENV", "production");
  const built = await build({
    root: import.meta.dirname,
    configFile: false,
    logLevel: "error",
    mode: "production",
    resolve: {
      alias: [
        { find: /^react-dom(?=$|\/)/, replacement: reactDom },
        { find: /^react(?=$|\/)/, replacement: react },
      ],
    },
    build: { write: false, rolldownOptions: { input: join(import.meta.dirname, "racing-users-app.tsx") } },
  }).finally(() => vi.unstubAllEnvs());
  const { output } = [built].flat()[0] as Rolldown.RolldownOutput;
  const files = new Map(output.map((file) => [`/${file.fileName}`, file.type === "chunk" ? file.code : ""]));
  const entry = output.find((file) => file.type === "chunk" && file.isEntry)?.fileName;
  const page = `<!doctype html><link rel="icon" href="data:,"><body><script type="module" src="/${entry}"></script>`;
  const http = createServer((request, response) => {
    if (failures > 0 && request.url?.includes("service-session") === true) {
      failures -= 1;
      response.writeHead(503, { "cache-control": "no-store" }).end();
      return;
    }
    const code = files.get(request.url ?? "");
    response.setHeader("content-type", code === undefined ? "text/html" : "text/javascript");
    response.setHeader("cache-control", "no-store");
    response.end(code ?? page);
  });
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  return http;
}

describe.each([
  { name: "React 18", react: "react", reactDom: "react-dom" },
  { name: "React 19", react: "react19", reactDom: "react-dom19" },
])("a production build with $name", ({ react, reactDom }) => {
  let application: Server;
  let page: Page;
  let devtools: CDPSession;
  let complaints: string[];

  beforeAll(async () => {
    application = await serveProductionBuild(react, reactDom);
    page = await browser.newPage();
    devtools = await page.context().newCDPSession(page);
    complaints = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
  });
  afterAll(async () => {
    await page.close();
    await new Promise((done) => application.close(done));
  });

  /** Loads the page that often; with `delaysMs` the second user comes that long after the first, else never. */
  async function load(times: number, delaysMs?: number): Promise<Load[]> {
    const { port } = application.address() as AddressInfo;
    const loads: Load[] = [];
    for (let i = 0; i < times; i += 1) {
      const query = new URLSearchParams({ url: server.url, key: api.callers.evaluation.key });
      if (delaysMs !== undefined) query.set("delayMs", String(Math.round((i / (times - 1)) ** 2 * delaysMs)));
      await page.goto(`http://127.0.0.1:${port}/?${query}`);
      loads.push(await page.evaluate(() => window.load));
    }
    return loads;
  }

  test("a mount whose lazy chunk fails to load retries until it has the channel and the user's token", async () => {
    const { port } = application.address() as AddressInfo;
    const other = await browser.newPage();
    const query = new URLSearchParams({ url: server.url, key: api.callers.evaluation.key });
    // The call of setUserId and the mount share the first import.
    failures = 1;
    await other.goto(`http://127.0.0.1:${port}/?${query}`);
    const { user, outcomes } = await other.evaluate(() => window.load);
    expect([user, outcomes]).toEqual([null, [expect.stringContaining("dynamically imported module")]]);
    await other.waitForFunction(() => document.querySelector("main")?.textContent === "on");
    await other.waitForFunction(() => window.client.connected);
    expect(failures).toBe(0);
    await other.close();
  }, 60_000);

  describe.each([
    { speed: "at full speed", loads: 40, latency: 0, slowdown: 1 },
    { speed: "over a slow network", loads: 8, latency: 20, slowdown: 1 },
    { speed: "on a slow processor", loads: 8, latency: 0, slowdown: 6 },
  ])("$speed", ({ loads, latency, slowdown }) => {
    beforeAll(async () => {
      await devtools.send("Network.enable");
      const throughput = latency === 0 ? -1 : 1_000_000;
      const conditions = { offline: false, latency, downloadThroughput: throughput, uploadThroughput: throughput };
      await devtools.send("Network.emulateNetworkConditions", conditions);
      await devtools.send("Emulation.setCPUThrottlingRate", { rate: slowdown });
    });

    test("the last of two users has the page, in every load, and no load shows ErrorFallback", async () => {
      const results = await load(loads, LONGEST_DELAY_MS);
      const figures = {
        wrongUsers: results.filter(({ user }) => user !== "bob").length,
        wrongPages: results.filter(({ shown }) => shown.at(-1) !== "default").length,
        flashes: results.filter(({ shown }) => shown.includes("error")).length,
        rejections: results.filter(({ outcomes }) => outcomes.join() !== "resolved,resolved").length,
      };
      expect(figures).toEqual({ wrongUsers: 0, wrongPages: 0, flashes: 0, rejections: 0 });
      expect(complaints).toEqual([]);
    }, 60_000);

    test("one user's page is loading until the first token, in every load", async () => {
      const results = await load(loads);
      const unexpected = results.filter(({ user, shown }) => user !== "ada" || shown.join() !== "loading,on");
      expect(unexpected.map(({ user, shown }) => `${String(user)}: ${shown.join()}`)).toEqual([]);
    }, 60_000);
  });
});
