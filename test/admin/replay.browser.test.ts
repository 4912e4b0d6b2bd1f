import { beforeAll, expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

/* "Try it on last month", where last month is empty: the API writes no past. Reports with denials: see test/http/replay.pg.test.ts. */

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  const next = own
    .sample("tasker")
    .replace('version: "1.0.0"', 'version: "2.0.0"')
    .replace("value: 200\n", "value: 20\n");
  await own.upload(next, "Tasker");
  await own.contract("ada", "PRO");
});

test("Compare tries the newer version on last month, and says who would have been stopped first", async () => {
  const { page } = own;
  await own.open("/services/Tasker/compare", "Compare versions of Tasker");
  await page.getByRole("button", { name: "Try it on last month" }).click();
  await page.getByText("0 of 0 contracts would have been stopped (0%)").waitFor();
  await page.getByText("0 pay more, 0 pay less, 0 pay the same.").waitFor();
  await expect
    .poll(() => page.getByRole("link", { name: "All contracts of the service" }).getAttribute("href"))
    .toMatch(/\/contracts\?service=Tasker$/);
  await page.setViewportSize({ width: 375, height: 700 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(375);
  await page.setViewportSize({ width: 1280, height: 800 });
  await expectAccessible(page);
});
