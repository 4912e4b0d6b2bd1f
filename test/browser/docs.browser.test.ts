import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";

let api: TestApi;
let server: RunningServer;
let browser: TestBrowser;
let page: Page;
const errors: string[] = [];
const elsewhere: string[] = [];

beforeAll(async () => {
  const keyring = await testKeyring();
  api = await createTestApi({ resources: { keyring } });
  server = await startEventServer(api.database.url, { BASE_URL_PATH: "/space" });
  browser = await launchChromium();
  page = await browser.newPage();
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url) && !request.url().startsWith("data:")) elsewhere.push(request.url());
  });
});
afterAll(async () => {
  await browser.close();
  await server.stop();
  await api.close();
});

test("the reference page lists every group of calls, below a sub-path, without asking another origin", async () => {
  await page.goto(`${server.url}/space/api/v1/docs`);
  await page.getByRole("heading", { name: /Faregate/ }).waitFor();
  for (const tag of ["Features", "Contracts", "Services", "Organizations", "Users"]) {
    await page.locator(`#operations-tag-${tag}`).waitFor();
  }
  expect(elsewhere).toEqual([]);
  expect(errors).toEqual([]);
});

test("a call can be tried there with a key", async () => {
  await page.getByRole("button", { name: "Authorize" }).click();
  // OFREP takes keys as bearers too: a way of its own to sign in, below this one.
  const withKey = page.locator(".auth-container form").filter({ hasText: "apiKey (apiKey)" });
  await withKey.locator("input").fill(api.callers.all.key);
  await withKey.locator("button.authorize").click();
  await withKey.locator("button.btn-done").click();
  await page.locator("#operations-tag-Services").click();
  await page.locator("#operations-Services-listServices .opblock-summary-control").click();
  await page.locator("#operations-Services-listServices .try-out__btn").click();
  await page.locator("#operations-Services-listServices button.execute").click();
  const answer = page.locator("#operations-Services-listServices .live-responses-table .response-col_status").last();
  await expect.poll(() => answer.textContent()).toContain("200");
  expect(errors).toEqual([]);
});
