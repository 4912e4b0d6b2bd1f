import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

/* "Try it on last month": of a new service, where last month is empty, and of the sample month, which has denials. */

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  const next = own
    .sample("tasker")
    .replace('version: "1.0.0"', 'version: "2.0.0"')
    .replace("value: 200\n", "value: 120\n")
    .replace("price: 6\n", "price: 7\n");
  await own.upload(next, "Tasker");
  await own.contract("ada", "PRO");
});

async function tryIt(): Promise<void> {
  await own.open("/services/Tasker/compare", "Compare versions of Tasker");
  await own.page.getByRole("button", { name: "Try it on last month" }).click();
}

async function expectFits(): Promise<void> {
  const { page } = own;
  await page.setViewportSize({ width: 375, height: 700 });
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(375);
  await page.setViewportSize({ width: 1280, height: 800 });
  await expectAccessible(page);
}

test("Compare tries the newer version on last month, and says who would have been stopped first", async () => {
  const { page } = own;
  await tryIt();
  await page.getByText("0 of 0 contracts would have been stopped (0%)").waitFor();
  await page.getByText("0 pay more, 0 pay less, 0 pay the same.").waitFor();
  await expect
    .poll(() => page.getByRole("link", { name: "All contracts of the service" }).getAttribute("href"))
    .toMatch(/\/contracts\?service=Tasker$/);
  await expectFits();
});

test("says what changes for the revenue, why calls are denied, and who is affected most", async () => {
  const { page, organizationId, databaseUrl } = own;
  const command = ["--import", "tsx", "src/entries/commands/sample-month.ts", organizationId, "Tasker"];
  await promisify(execFile)(process.execPath, command, { env: { ...process.env, DATABASE_URL: databaseUrl } });
  await tryIt();
  await page.getByText("19 of 200 contracts would have been stopped (9.5%)").waitFor();
  await page.getByText("Revenue: €780.00 → €828.00 (+6.2%)").waitFor();
  await page
    .getByText("143 calls would have been denied: 143 above a limit. That would have consumed 701 tasker-maxTasks.")
    .waitFor();
  const customers = page.getByRole("region", { name: "Most affected" }).getByRole("link");
  expect(await customers.count()).toBe(5);
  expect(await customers.first().getAttribute("href")).toMatch(/\/contracts\/sample-154$/);
  await page.getByRole("button", { name: "Show all 19" }).click();
  await expect.poll(() => customers.count()).toBe(19);
  await expectFits();
});
