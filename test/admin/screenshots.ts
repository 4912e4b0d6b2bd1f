import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { beforeAll, test } from "vitest";
import { PASSWORD, useConsole } from "./console.ts";

/*
 * `npm run screenshots` takes pictures of every page, in light, in dark and on a phone, into dist/screenshots. The best
 * are copied to src/admin/screenshots, where README shows them. Asserts nothing.
 */

const FOLDER = fileURLToPath(new URL("../../dist/screenshots/", import.meta.url));
const KEPT = fileURLToPath(new URL("../../src/admin/screenshots/", import.meta.url));
const own = useConsole();

const PEOPLE: readonly (readonly [user: string, plan: string, used: number, extra: number])[] = [
  ["ada", "PRO", 281, 1],
  ["alan", "BUSINESS", 410, 0],
  ["barbara", "FREE", 20, 0],
  ["edsger", "PRO", 64, 0],
  ["frances", "PRO", 188, 0],
  ["grace", "BUSINESS", 1710, 0],
  ["hedy", "FREE", 7, 0],
  ["john", "FREE", 19, 0],
  ["katherine", "PRO", 120, 2],
  ["margaret", "FREE", 3, 0],
];

beforeAll(async () => {
  rmSync(FOLDER, { recursive: true, force: true });
  for (const mode of MODES) mkdirSync(`${FOLDER}${mode.name}`, { recursive: true });
  const tasker = own.sample("tasker");
  await own.upload(tasker);
  await own.upload(own.sample("beacon"));
  const newer = tasker
    .replace('version: "1.0.0"', 'version: "2.0.0"')
    .replace("2025-03-01", "2025-09-01")
    .replace("value: 200\n", "value: 500\n")
    .replace(/ {2}FREE:\n(?: {4}.*\n)+/, "");
  await own.upload(newer, "Tasker");
  for (const [user, plan, used, extra] of PEOPLE) {
    await own.contract(user, plan, extra === 0 ? {} : { extraTasks: extra });
    await own.call("PUT", `/contracts/${user}/usageLevels`, { tasker: { maxTasks: used - 1 } }, own.key);
    await own.call("POST", `/features/${user}/tasker-board`, { "tasker-maxTasks": 1 }, own.key);
  }
  for (const user of ["barbara", "hedy", "john", "john", "ada"])
    await own.call("POST", `/features/${user}/tasker-export`, {}, own.key);
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  const rules = [{ rule: "noFeatureLost" }, { rule: "noPriceRise", byMoreThanPercent: 5 }];
  await own.call("PUT", `/organizations/${own.organizationId}/gate`, { rules }, apiKey);
  for (const [user, days] of LEAVING) {
    const endDate = new Date(Date.now() + days * 86_400_000).toISOString();
    await own.call("PUT", `/contracts/${user}/billingPeriod`, { endDate, autoRenew: false }, own.key);
  }
});

/** Users without automatic renewal, with their remaining days. */
const LEAVING: readonly (readonly [user: string, days: number])[] = [
  ["alan", 21],
  ["edsger", 5],
  ["hedy", 0],
  ["margaret", 3],
];

const MODES = [
  { name: "light", theme: "light", width: 1280, height: 800 },
  { name: "dark", theme: "dark", width: 1280, height: 800 },
  { name: "phone", theme: "light", width: 390, height: 844 },
] as const;

interface Shot {
  name: string;
  /** Path below the organization, or of the whole console with `isGlobal`. */
  path: string;
  heading: string | RegExp;
  isGlobal?: true;
  /** The mode that README shows. */
  kept?: (typeof MODES)[number]["name"];
  /** Waits for the content, and does what the picture shows. */
  prepare?: (page: Page) => Promise<void>;
}

const text = (wanted: string) => (page: Page) => page.getByText(wanted).first().waitFor();

const SHOTS: readonly Shot[] = [
  { name: "overview", path: "", heading: "Overview", kept: "light", prepare: text("Needs attention") },
  { name: "services", path: "/services", heading: "Services", prepare: text("Beacon") },
  {
    name: "service",
    path: "/services/Tasker",
    heading: "Tasker",
    kept: "light",
    prepare: (page) => page.getByRole("table").waitFor(),
  },
  { name: "price-page", path: "/services/Tasker/price-page", heading: /Price page/, prepare: text("BUSINESS") },
  { name: "past-changes", path: "/services/Tasker/decisions", heading: /Past changes/ },
  { name: "guardrails", path: "/gate", heading: "Guardrails" },
  {
    name: "upload",
    path: "/upload",
    heading: "Upload a pricing",
    kept: "light",
    prepare: async (page) => {
      await page.getByLabel("Choose a file").setInputFiles({
        name: "tasker.yml",
        mimeType: "application/yaml",
        buffer: Buffer.from(own.sample("tasker").replace("type: GUARANTEE", "type: PROMISE")),
      });
      await page.getByRole("button", { name: /^Line/ }).first().click();
      await page.evaluate(() => window.scrollTo(0, 0));
    },
  },
  {
    name: "compare",
    path: "/services/Tasker/compare?from=1.0.0&to=2.0.0",
    heading: /Compare/,
    kept: "dark",
    prepare: text("200 → 500"),
  },
  {
    name: "archive",
    path: "/services/Tasker/archive/1.0.0",
    heading: /Archive/,
    kept: "light",
    prepare: (page) =>
      page
        .getByRole("listitem")
        .filter({ hasText: /Max tasks.*20.*500/ })
        .first()
        .waitFor(),
  },
  { name: "contracts", path: "/contracts", heading: "Contracts", prepare: text("10 contracts") },
  { name: "new-contract", path: "/new-contract", heading: "New contract" },
  { name: "contract", path: "/contracts/ada", heading: "ada", kept: "light", prepare: text("281 of 300") },
  { name: "contract-phone", path: "/contracts/ada", heading: "ada", kept: "phone", prepare: text("281 of 300") },
  {
    name: "change-plan",
    path: "/contracts/ada",
    heading: "ada",
    kept: "light",
    prepare: async (page) => {
      await page.getByRole("button", { name: "Change plan" }).first().click();
      await page.getByRole("radio", { name: /^BUSINESS/ }).check();
      await page.getByText("ada loses nothing").waitFor();
    },
  },
  { name: "overrides", path: "/overrides", heading: "Custom terms" },
  { name: "upcoming", path: "/upcoming", heading: "Upcoming" },
  { name: "usage", path: "/usage", heading: "Usage", prepare: text("By person") },
  { name: "denials", path: "/denials", heading: "Denials" },
  {
    name: "playground",
    path: "/playground?user=barbara",
    heading: "Check access",
    prepare: text("is used up"),
  },
  { name: "keys", path: "/keys", heading: "API keys" },
  { name: "webhooks", path: "/webhooks", heading: "Webhooks" },
  { name: "events", path: "/events", heading: "Events" },
  { name: "tokens", path: "/tokens", heading: "Token inspector" },
  { name: "members", path: "/members", heading: "Members" },
  { name: "audit", path: "/audit", heading: "Activity log" },
  {
    name: "palette",
    path: "/contracts",
    heading: "Contracts",
    prepare: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search or jump to" }).fill("ada exp");
      await page.getByText("PRO does not include Export").waitFor();
    },
  },
  { name: "guides", path: "/docs/pricing-file", heading: /./, isGlobal: true },
  { name: "account", path: "/account", heading: "Account", isGlobal: true },
  { name: "organizations", path: "/organizations", heading: "Organizations", isGlobal: true },
  { name: "users", path: "/users", heading: "Accounts", isGlobal: true },
  { name: "analytics", path: "/analytics", heading: "Traffic", isGlobal: true },
  { name: "health", path: "/health", heading: "Health", isGlobal: true },
  { name: "cache", path: "/cache", heading: "Cache", isGlobal: true },
  { name: "design", path: "/design", heading: "Design", isGlobal: true },
];

async function take(shot: Shot, mode: (typeof MODES)[number]): Promise<void> {
  const { page } = own;
  if (shot.isGlobal === true) {
    await page.goto(own.url + shot.path);
    await page.getByRole("heading", { level: 1, name: shot.heading }).first().waitFor();
  } else await own.open(shot.path, shot.heading);
  await shot.prepare?.(page);
  await page.waitForTimeout(400);
  const path = `${FOLDER}${mode.name}/${shot.name}.png`;
  await page.screenshot({ path });
  if (shot.kept === mode.name) copyFileSync(path, `${KEPT}${shot.name}.png`);
}

test.each(MODES)("the pictures: $name", { timeout: 300_000 }, async (mode) => {
  const { page } = own;
  await page.setViewportSize({ width: mode.width, height: mode.height });
  await page.evaluate((theme) => localStorage.setItem("faregate-theme", theme), mode.theme);
  for (const shot of SHOTS) await take(shot, mode);
});

test("the picture of sign-in", async () => {
  const { page } = own;
  await page.context().clearCookies();
  for (const mode of MODES) {
    await page.setViewportSize({ width: mode.width, height: mode.height });
    await page.evaluate((theme) => localStorage.setItem("faregate-theme", theme), mode.theme);
    await page.goto(own.url);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.waitForTimeout(400);
    await page.screenshot({ path: `${FOLDER}${mode.name}/sign-in.png` });
  }
});
