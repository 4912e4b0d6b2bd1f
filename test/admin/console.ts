import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const PASSWORD = "correct-horse-battery";

/** A browser window with a real server. */
export interface Console {
  browser: TestBrowser;
  page: Page;
  server: RunningServer;
  /** Base URL: `http://…/console`. */
  url: string;
  databaseUrl: string;
  /** The ADMIN's organization, and its key of scope ALL. */
  organizationId: string;
  key: string;
  /** Browser errors and requests to foreign origins; both stay empty. */
  complaints: string[];
  /** Calls the HTTP interface as a program would. */
  call<T = Record<string, unknown>>(method: string, path: string, body?: unknown, key?: string): Promise<T>;
  /** Returns the sample pricing's text. */
  sample(name: "tasker" | "beacon" | "atlas" | "scribe" | "huddle"): string;
  upload(yaml: string, service?: string): Promise<void>;
  contract(userId: string, plan: string, addOns?: Record<string, number>, version?: string): Promise<void>;
  signIn(username?: string): Promise<void>;
  /** Opens a page of the organization and waits for its heading. */
  open(path: string, heading: string | RegExp, organization?: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens one window for all tests of a file; each test continues where the previous one stopped. A failure prints the
 * page's content.
 */
export function useConsole(options: { environment?: Record<string, string>; isSignedIn?: boolean } = {}): Console {
  const own = {} as Console;
  beforeAll(async () => {
    Object.assign(own, await openConsole(options.environment ?? {}, await createTestDatabase()));
    if (options.isSignedIn !== false) await own.signIn();
  });
  afterEach(async ({ task }) => {
    if (task.result?.state !== "fail") return;
    console.log(`${own.page.url()}\n${await own.page.locator("body").innerText()}`, own.complaints);
  });
  afterAll(async () => own.close());
  return own;
}

/** Starts a server over a migrated, empty database with an ADMIN, and opens a window. Takes about 3 seconds. */
export async function openConsole(environment: Record<string, string>, database: TestDatabase): Promise<Console> {
  await seed(database);
  const [server, browser] = await Promise.all([startEventServer(database.url, environment), launchChromium()]);
  const call: Console["call"] = async (method, path, body, key) => {
    const isForm = body instanceof FormData;
    const answer = await fetch(`${server.url}/api/v1${path}`, {
      method,
      headers: {
        ...(key === undefined ? {} : { "x-api-key": key }),
        ...(isForm ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  };
  const admin = await call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  const list = await call<{ data: { id: string; apiKeys: { key: string }[] }[] }>(
    "GET",
    "/organizations",
    undefined,
    admin.apiKey,
  );
  const organizationId = list.data[0]?.id ?? "";
  const key = list.data[0]?.apiKeys[0]?.key ?? "";
  // A picture taken in the middle of a fade has too little contrast.
  const page = await browser.newPage({ reducedMotion: "reduce" });
  page.setDefaultTimeout(30_000);
  const complaints: string[] = [];
  watch(page, server.url, complaints);
  const url = `${server.url}${environment["BASE_URL_PATH"] ?? ""}/console`;
  const upload = async (yaml: string, service?: string) => {
    const form = new FormData();
    form.append("pricing", new Blob([yaml]), "pricing.yml");
    await call("POST", service === undefined ? "/services" : `/services/${service}/pricings`, form, key);
  };
  return {
    browser,
    page,
    server,
    url,
    databaseUrl: database.url,
    organizationId,
    key,
    complaints,
    call,
    sample: (name) => readFileSync(new URL(`../../src/samples/${name}.yml`, import.meta.url), "utf8"),
    upload,
    contract: async (userId, plan, addOns = {}, version = "1.0.0") => {
      await call(
        "POST",
        "/contracts",
        {
          userContact: { userId, username: userId, email: `${userId}@example.org` },
          billingPeriod: { autoRenew: true, renewalDays: 30 },
          contractedServices: { tasker: version },
          subscriptionPlans: { tasker: plan },
          subscriptionAddOns: Object.keys(addOns).length === 0 ? {} : { tasker: addOns },
        },
        key,
      );
    },
    signIn: async (username = "admin") => {
      await page.goto(url);
      await page.getByLabel("Username").fill(username);
      await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    },
    open: async (path, heading, organization = organizationId) => {
      await page.goto(`${url}/o/${organization}${path}`);
      await page.getByRole("heading", { level: 1, name: heading }).waitFor();
    },
    close: async () => {
      await browser.close();
      await server.stop();
      await database.drop();
    },
  };
}

async function seed(database: TestDatabase): Promise<void> {
  const resources = createResources(database.connection, {
    keyring: await testKeyring(),
    settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: true },
  });
  await seedFirstAdmin(resources, { username: "admin", password: PASSWORD, organizationName: "Tasker Inc." });
}

function watch(page: Page, origin: string, complaints: string[]): void {
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) complaints.push(`asked ${url}`);
  });
}

/** Waits for the complaints about these statuses, which browsers report at their own time, and clears them. */
export async function expectComplaints({ complaints }: Console, ...statuses: string[]): Promise<void> {
  await expect.poll(() => complaints).toEqual(statuses.map((status) => expect.stringContaining(status)));
  complaints.splice(0);
}

/** Returns true once the element is visible, and false after five seconds. */
export const appears = (element: Locator): Promise<boolean> =>
  element.waitFor({ timeout: 5000 }).then(
    () => true,
    () => false,
  );

/** Presses G and a page's key until it is open. On a busy machine the second key may come too late for a jump. */
export async function jump(page: Page, key: string, heading: string): Promise<void> {
  const title = page.getByRole("heading", { level: 1, name: heading });
  const isOpen = async () => {
    for (const each of ["g", key]) await page.keyboard.press(each);
    return appears(title);
  };
  await expect.poll(isOpen).toBe(true);
}

/** Rules that the colour scheme decides about. */
const OF_COLOURS = ["color-contrast", "link-in-text-block"];

/** Expects no axe violation on the current page, best practices included, in both colour schemes. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(AXE);
  for (const [theme, runOnly] of [
    ["light", undefined],
    ["dark", OF_COLOURS],
  ] as const) {
    await page.evaluate((chosen) => (document.documentElement.dataset["theme"] = chosen), theme);
    const found = await page.evaluate(async (only) => {
      const { violations } = await (globalThis as unknown as Axe).axe.run(document, {
        ...(only === undefined ? { rules: { "color-contrast": { enabled: true } } } : { runOnly: only }),
        // Others take a third of the time.
        resultTypes: ["violations"],
      });
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
    }, runOnly);
    expect(found, `${page.url()} in ${theme}`).toEqual([]);
  }
}

interface Axe {
  axe: {
    run(root: Document, options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
  };
}
