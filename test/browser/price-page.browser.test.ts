import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { yamlUpload } from "../support/uploads.ts";

/* The sample price page, from another origin than the service's, as a team would copy it. */

const ROOT = resolve(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "src/samples/price-page");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let api: TestApi;
let server: RunningServer;
let browser: TestBrowser;
let page: Page;
let site: Server;
const complaints: string[] = [];

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  [server, browser] = await Promise.all([startEventServer(api.database.url), launchChromium()]);
  const { callers } = api;
  const body = yamlUpload(readFileSync(join(ROOT, "src/samples/tasker.yml"), "utf8"));
  expect((await api.call("POST", "/services", { key: callers.all.key, body })).status).toBe(201);
  const published = await api.call("PUT", `/organizations/${callers.organizationId}/public-offer`, {
    key: callers.owner.key,
    body: { services: ["Tasker"] },
  });
  expect(published.status).toBe(200);
  const built = await rolldown({
    input: join(FOLDER, "page.jsx"),
    platform: "browser",
    logLevel: "silent",
    resolve: { alias: { "faregate/react": join(ROOT, "src/react/react.ts") } },
    transform: { define: { "process.env.NODE_ENV": '"production"' } },
  });
  const { output } = await built.generate({ format: "esm" });
  const scripts = new Map(output.flatMap((each) => (each.type === "chunk" ? [[`/${each.fileName}`, each.code]] : [])));
  const html = readFileSync(join(FOLDER, "index.html"), "utf8")
    .replace("http://localhost:3000", server.url)
    .replace('data-organization=""', `data-organization="${callers.organizationId}"`);
  site = createServer(({ url = "/" }, response) => {
    const script = scripts.get(url);
    if (script !== undefined) response.setHeader("content-type", "text/javascript").end(script);
    else if (url === "/style.css")
      response.setHeader("content-type", "text/css").end(readFileSync(join(FOLDER, "style.css")));
    else response.setHeader("content-type", "text/html").end(html);
  });
  await new Promise<void>((listening) => site.listen(0, "127.0.0.1", listening));
  page = await browser.newPage();
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
});
afterAll(async () => {
  await browser.close();
  site.close();
  await server.stop();
  await api.close();
});

const findings = async (): Promise<string[]> => {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    const { violations } = await axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  });
};

test.each(["light", "dark"] as const)("shows plans, prices and all features, %s", async (colorScheme) => {
  await page.emulateMedia({ colorScheme });
  await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  await page.getByRole("heading", { name: "BUSINESS" }).waitFor();
  expect(await page.locator(".price").allInnerTexts()).toEqual(["Free", "6 EUR / user/month", "12 EUR / user/month"]);
  expect(await page.getByRole("link", { name: "Choose PRO" }).getAttribute("href")).toBe("/sign-up?plan=PRO");
  await page.getByText("Compare all features").click();
  await page.getByRole("rowheader", { name: "New tasks in a month" }).waitFor();
  expect(await findings()).toEqual([]);
  expect(complaints).toEqual([]);
});

test("puts plans beside each other where there is room, and below each other on a phone", async () => {
  const rows = () =>
    page.locator(".plan").evaluateAll((plans) => new Set(plans.map((plan) => plan.getBoundingClientRect().top)).size);
  await page.setViewportSize({ width: 1200, height: 900 });
  await expect.poll(rows).toBe(1);
  await page.setViewportSize({ width: 380, height: 800 });
  await expect.poll(rows).toBe(3);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(overflow).toBeLessThanOrEqual(0);
});
