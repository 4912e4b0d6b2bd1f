import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { expectAccessible, PASSWORD, useConsole } from "./console.ts";

const own = useConsole();

/** A page of another origin of this host, to which browsers send the cookie too. */
let foreign: Server;
let foreignUrl = "";
beforeAll(async () => {
  own.page.setDefaultTimeout(PATIENCE_MS);
  foreign = createServer((_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<h1>Evil</h1>"),
  );
  await new Promise<void>((resolve) => foreign.listen(0, resolve));
  foreignUrl = `http://${new URL(own.server.url).hostname}:${(foreign.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => foreign.close(resolve)));

const PAGES = ["", "/services/Tasker", "/contracts/ada", "/playground", "/events", "/keys"];
const TOP_PAGES = ["/account", "/sessions", "/organizations", "/users"];
/** Pages and heaps are read while other tests use the processors. */
const SLOW = { timeout: 180_000 };
const PATIENCE_MS = 60_000;

test("every page works by cookie alone, and no key is in storage, address or DOM", SLOW, async () => {
  const { page } = own;
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO");
  const admin = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  const sent: string[] = [];
  page.on("request", (request) => {
    if (/usr_[0-9a-f]{8}/.test(JSON.stringify(request.headers()) + request.url())) sent.push(request.url());
  });
  for (const path of [...PAGES.map((each) => `/o/${own.organizationId}${each}`), ...TOP_PAGES]) {
    await page.goto(own.url + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    // Events keep a connection open, so the network is never idle.
    await page.waitForTimeout(300);
    const found = await page.evaluate(() =>
      JSON.stringify([
        location.href,
        document.cookie,
        { ...localStorage },
        { ...sessionStorage },
        document.documentElement.outerHTML,
      ]),
    );
    expect(found, path).not.toContain(admin.apiKey);
    expect(found, path).not.toMatch(/(usr|org)_[0-9a-f]{64}/);
    expect(found, path).not.toContain("faregate_session");
  }
  expect(sent).toEqual([]);
  expect(own.complaints).toEqual([]);
});

test("the user's key is nowhere in the memory of a page that does not show it", SLOW, async () => {
  const { page } = own;
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  await own.open("", "Overview");
  const client = await page.context().newCDPSession(page);
  const chunks: string[] = [];
  client.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => chunks.push(chunk));
  await client.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  const snapshot = chunks.join("");
  expect(snapshot).toContain(own.organizationId);
  expect(snapshot).not.toContain(apiKey);
});

test("a session that ends asks to sign in above the page, and keeps what was typed", SLOW, async () => {
  const { page } = own;
  await own.call("POST", "/users", { username: "grace", password: PASSWORD });
  await own.open("/members", "Members");
  await page.getByLabel("Username").fill("grace");
  await page.getByLabel("Role", { exact: true }).selectOption("MANAGER");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Sign in again" });
  await dialog.getByText("You were signed out").waitFor();
  for (let presses = 1; presses <= 3; presses += 1) await page.keyboard.press("Escape");
  expect(await dialog.isVisible()).toBe(true);
  await dialog.getByLabel("Password", { exact: true }).fill("wrong password");
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.getByText("Invalid credentials").waitFor();
  await expectAccessible(page);
  await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await page.getByLabel("Username").inputValue()).toBe("grace");
  expect(await page.getByLabel("Role", { exact: true }).inputValue()).toBe("MANAGER");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByLabel("Role of grace").waitFor();
  expect(own.complaints.splice(0).every((each) => each.includes("401"))).toBe(true);
});

test(
  "a session that ends in a dialog asks above it, however often Escape is pressed, and keeps its input",
  SLOW,
  async () => {
    const { page } = own;
    await page.goto(`${own.url}/organizations`);
    await page
      .getByRole("button", { name: /^Actions for / })
      .first()
      .click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    const rename = page.getByRole("dialog", { name: /^Rename / });
    await rename.getByLabel("Name").fill("Acme");
    await page.context().clearCookies();
    await rename.getByRole("button", { name: "Rename" }).click();
    const dialog = page.getByRole("dialog", { name: "Sign in again" });
    await dialog.waitFor();
    await page.keyboard.press("Control+k");
    for (let presses = 1; presses <= 8; presses += 1) await page.keyboard.press("Escape");
    await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(await rename.getByLabel("Name").inputValue()).toBe("Acme");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Discard your changes?" }).getByRole("button", { name: "Discard" }).click();
    expect(own.complaints.splice(0).every((each) => each.includes("401"))).toBe(true);
  },
);

test("a user who signs in in another tab does not act in the page of the first one", SLOW, async () => {
  await own.call("POST", "/users", { username: "mona", password: PASSWORD });
  const context = await own.browser.newContext({ reducedMotion: "reduce" });
  const [page, other] = [await context.newPage(), await context.newPage()];
  const signIn = async (place: Page | Locator) => {
    await place.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await place.getByRole("button", { name: "Sign in" }).click();
  };
  await page.goto(`${own.url}/account`);
  await page.getByLabel("Username").fill("admin");
  await signIn(page);
  await page.getByLabel("Email").fill("typed@example.org");
  await other.goto(own.url);
  await other.getByRole("button", { name: /admin/ }).click();
  await other.getByRole("menuitem", { name: "Sign out" }).click();
  await other.getByLabel("Username").fill("mona");
  await signIn(other);
  await other.getByRole("button", { name: /mona/ }).first().waitFor();
  const dialog = page.getByRole("dialog", { name: "Sign in again" });
  await dialog.getByText("admin").waitFor();
  // The tabs share one cookie, so now the other one asks.
  await signIn(dialog);
  await dialog.waitFor({ state: "detached" });
  expect(await page.getByLabel("Email").inputValue()).toBe("typed@example.org");
  const others = other.getByRole("dialog", { name: "Sign in again" });
  await others.getByText("mona").waitFor();
  await others.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("button", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
  await context.close();
});

test(
  "a page of another origin changes nothing and reads nothing, though the browser sends the cookie",
  SLOW,
  async () => {
    const context = await own.browser.newContext({ bypassCSP: true });
    const signedIn = await context.request.post(`${own.server.url}/api/v1/sessions`, {
      data: { username: "admin", password: PASSWORD },
    });
    expect(signedIn.status()).toBe(201);
    const page = await context.newPage();
    await page.goto(foreignUrl);
    const statuses = await page.evaluate(async (api) => {
      const call = async (method: string, path: string, init: RequestInit = {}) => {
        const answer = await fetch(api + path, { method, credentials: "include", ...init }).catch(() => undefined);
        return answer?.status;
      };
      return [
        await call("GET", "/users/me"),
        await call("DELETE", "/sessions"),
        await call("POST", "/organizations", { body: new URLSearchParams({ name: "Evil", owner: "admin" }) }),
      ];
    }, `${own.server.url}/api/v1`);
    expect(statuses).toEqual([401, 403, 403]);
    // A form needs no CORS.
    await page.setContent(
      `<form method="post" action="${own.server.url}/api/v1/organizations"><input name="name" value="Evil"><button>Win</button></form>`,
    );
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.url().endsWith("/organizations")),
      page.getByRole("button", { name: "Win" }).click(),
    ]);
    expect(answer.status()).toBe(403);
    const list = await context.request.get(`${own.server.url}/api/v1/organizations`);
    expect(await list.text()).not.toContain("Evil");
    await context.close();
  },
);
