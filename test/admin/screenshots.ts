import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, test } from "vitest";
import { useConsole } from "./console.ts";

/* `npm run screenshots` takes pictures of the main pages, from a server with sample data. Asserts nothing. */

const FOLDER = fileURLToPath(new URL("../../src/admin/screenshots/", import.meta.url));
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
  mkdirSync(FOLDER, { recursive: true });
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

async function take(name: string): Promise<void> {
  await own.page.waitForTimeout(400);
  await own.page.screenshot({ path: `${FOLDER}${name}.png` });
}

test("the pictures", { timeout: 120_000 }, async () => {
  const { page } = own;
  await page.setViewportSize({ width: 1280, height: 800 });
  await own.open("", "Overview");
  await page.getByText("Needs attention").first().waitFor();
  await take("overview");
  await own.open("/services/Tasker", "Tasker");
  await page.getByRole("table").waitFor();
  await take("service");
  await own.open("/upload", "Upload a pricing");
  await page.getByLabel("Choose a file").setInputFiles({
    name: "tasker.yml",
    mimeType: "application/yaml",
    buffer: Buffer.from(own.sample("tasker").replace("type: GUARANTEE", "type: PROMISE")),
  });
  await page.getByRole("button", { name: /^Line/ }).first().click();
  await page.evaluate(() => window.scrollTo(0, 0));
  await take("upload");
  await own.open("/contracts", "Contracts");
  await page.getByText("10 contracts").waitFor();
  await take("contracts");
  await own.open("/contracts/ada", "ada");
  await page.getByText("281 of 300").waitFor();
  await take("contract");
  await page.getByRole("button", { name: "Change plan" }).first().click();
  await page.getByRole("radio", { name: /^BUSINESS/ }).check();
  await page.getByText("ada loses nothing").waitFor();
  await take("change-plan");
  await own.open("/services/Tasker/archive/1.0.0", /Archive/);
  await page
    .getByRole("listitem")
    .filter({ hasText: /Max tasks.*20.*500/ })
    .first()
    .waitFor();
  await take("archive");
  await own.open("/playground?user=barbara", "Check access");
  await page.getByText("is used up").first().waitFor();
  await take("playground");
  await page.evaluate(() => localStorage.setItem("faregate-theme", "dark"));
  await own.open("/services/Tasker/compare?from=1.0.0&to=2.0.0", /Compare/);
  await page.getByText("200 → 500").waitFor();
  await take("compare-dark");
  await page.setViewportSize({ width: 390, height: 800 });
  await own.open("/contracts/ada", "ada");
  await page.getByText("281 of 300").waitFor();
  await take("contract-phone");
});
