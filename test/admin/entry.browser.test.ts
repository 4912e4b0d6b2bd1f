import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CONSOLE_FOLDER } from "../../src/entries/platform/assets.ts";
import { PASSWORD, useConsole, expectAccessible, expectComplaints } from "./console.ts";

const own = useConsole({ environment: { BASE_URL_PATH: "/space" }, isSignedIn: false });

test("the root redirects browsers to the console and responds to other clients as before", async () => {
  const browser = await fetch(`${own.server.url}/space/`, { headers: { accept: "text/html" }, redirect: "manual" });
  expect([browser.status, browser.headers.get("location")]).toEqual([302, "/space/console/"]);
  const program = await fetch(`${own.server.url}/`);
  expect([program.status, await program.json()]).toEqual([
    403,
    { error: "You do not have permission to access this resource", details: "No permission rule found for GET /" },
  ]);
  const typed = await fetch(`${own.server.url}/space/register`, {
    headers: { accept: "text/html" },
    redirect: "manual",
  });
  expect([typed.status, typed.headers.get("location")]).toEqual([302, "/space/console/register"]);
  const unknown = await fetch(`${own.server.url}/services`, { headers: { accept: "text/html" } });
  expect(unknown.status).toBe(403);
});

test("browsers revalidate the page on each load and cache its compressed files forever", async () => {
  const page = await fetch(`${own.url}/o/anything/contracts/ada@example.org`);
  const etag = page.headers.get("etag") ?? "";
  expect([page.status, page.headers.get("cache-control")]).toEqual([200, "no-cache"]);
  expect(await page.text()).toContain('<base href="/space/console/"');
  expect((await fetch(`${own.url}/`, { headers: { "if-none-match": etag } })).status).toBe(304);
  expect(page.headers.get("content-security-policy")).toContain("script-src 'self'");
  expect(page.headers.get("content-security-policy")).not.toContain("unsafe");
  const script = readdirSync(join(CONSOLE_FOLDER, "assets")).find((name) => name.endsWith(".js")) ?? "";
  const file = await fetch(`${own.url}/assets/${script}`, { headers: { "accept-encoding": "gzip" } });
  expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
  expect([file.headers.get("content-encoding"), file.headers.get("content-type")]).toEqual([
    "gzip",
    "text/javascript; charset=utf-8",
  ]);
  for (const name of ["missing.js", "..%2Findex.html", "index.html"]) {
    expect((await fetch(`${own.url}/assets/${name}`)).status, name).toBe(404);
  }
});

test("a user signs in by keyboard alone and lands on the requested page", async () => {
  const { page } = own;
  await page.goto(`${own.url}/account`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await expectAccessible(page);
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  // The form has the focus.
  await page.keyboard.type("admin");
  await press("Tab");
  await page.keyboard.type("wrong password");
  await press("Enter");
  await page.getByRole("alert").getByText("Invalid credentials").waitFor();
  await press("Control+A");
  await page.keyboard.type(PASSWORD);
  await press("Enter");
  await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
  await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe("H1");
  await expectAccessible(page);
  await expectComplaints(own, "401");
});

test("a signed-in user whose page loads while the server is away comes back by one button", async () => {
  const { page } = own;
  for (const answer of [{ status: 503 }, { status: 200, contentType: "text/html", body: "<h1>Proxy</h1>" }]) {
    await page.route("**/auth/methods", (route) => route.fulfill(answer));
    await page.goto(`${own.url}/account`);
    const alert = page.getByRole("alert").filter({ hasText: "The server cannot be reached." });
    await alert.waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await alert.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
  }
  await expectComplaints(own, "503");
});

test("the browser loads at most 90 kB of compressed JavaScript to sign in, 160 with the first page, 240 to upload, and compiles the first page at once", async () => {
  const context = await own.browser.newContext();
  const page = await context.newPage();
  // Each file once: this test reads some of them again.
  const loadedBytes = () =>
    page.evaluate(() => {
      const files = performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".js"));
      const sizes = new Map(files.map((entry) => [entry.name, (entry as PerformanceResourceTiming).encodedBodySize]));
      return [...sizes.values()].reduce((sum, size) => sum + size, 0);
    });
  await page.goto(`${own.url}/`);
  await page.getByLabel("Username").fill("admin");
  const signIn = await loadedBytes();
  expect(signIn).toBeGreaterThan(50_000);
  expect(signIn).toBeLessThan(90_000);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.getByRole("heading", { name: "Recent activity" }).waitFor();
  expect(await loadedBytes()).toBeLessThan(160_000);
  const hinted = await page.evaluate(async () => {
    const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
    const chunks = loaded.filter((name) => /\/(?:index|app|signed-in|overview)-[^/]*\.js$/.test(name));
    const texts = await Promise.all(chunks.map(async (name) => (await fetch(name)).text()));
    return texts.filter((text) => text.startsWith("//# allFunctionsCalledOnLoad\n")).length;
  });
  expect(hinted).toBe(4);
  await page.getByRole("link", { name: "Upload a pricing" }).first().click();
  await page.getByRole("textbox", { name: "Pricing2Yaml text" }).fill(own.sample("tasker"));
  await page.getByText("Creates the service Tasker").waitFor();
  expect(await loadedBytes()).toBeLessThan(240_000);
  await context.close();
});

test("the console speaks another language, chosen in the account's menu", async () => {
  const context = await own.browser.newContext({ locale: "de-DE" });
  const page = await context.newPage();
  await page.goto(`${own.url}/account`);
  await page.getByRole("heading", { level: 1, name: "Anmelden" }).waitFor();
  await page.locator("input[autocomplete=username]").fill("admin");
  await page.locator("input[type=password]").fill(PASSWORD);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Konto" }).waitFor();
  await expect.poll(() => page.evaluate(() => document.documentElement.lang)).toBe("de");
  await page.getByRole("button", { name: /admin/ }).click();
  await page.getByRole("menuitemradio", { name: "English" }).click();
  await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
  await context.close();
});

test("the keyboard reaches every page and the menu of the account", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Skip to the content" }).focus();
  await page.keyboard.press("Enter");
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("main");
  await page.getByRole("button", { name: "Account: admin" }).focus();
  await page.keyboard.press("Enter");
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await expect.poll(focused).toBe("Account");
  for (const label of ["Light", "Dark", "System", "English", "Deutsch", "Sign out"]) {
    await page.keyboard.press("ArrowDown");
    await expect.poll(focused).toBe(label);
  }
  await page.keyboard.press("Enter");
  await page.getByLabel("Username").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a visitor registers and gets an organization of their own", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Create one" }).click();
  // The form that is left has the same fields.
  await page.getByRole("heading", { level: 1, name: "Create an account" }).waitFor();
  await page.getByLabel("Username").fill("grace");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Create account" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.getByRole("button", { name: "Organization" }).getByText("grace's Organization").waitFor();
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("on a phone nothing is wider than the screen and the pages are behind one button", async () => {
  const { page } = own;
  const width = () => page.evaluate(() => document.documentElement.scrollWidth);
  await page.setViewportSize({ width: 375, height: 700 });
  await page.getByText("grace's Organization").last().waitFor();
  await expect.poll(width).toBeLessThanOrEqual(375);
  await page.getByRole("button", { name: "Open the menu" }).click();
  await page.getByRole("link", { name: "API keys" }).click();
  await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
  await page.getByRole("button", { name: "Open the menu" }).waitFor();
  await expect.poll(width).toBeLessThanOrEqual(375);
  await page.setViewportSize({ width: 1280, height: 800 });
  expect(own.complaints).toEqual([]);
});
