import { beforeAll, expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO", { extraTasks: 1 });
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 300 } }, own.key);
  await own.call("POST", "/features/ada/tasker-board", { "tasker-maxTasks": 1 }, own.key);
});

test("the playground names the purchase that turns a denied feature on", async () => {
  const { page } = own;
  await own.open("/playground?user=ada&feature=tasker-board", "Check access");
  await page.getByText("PRO + 2 × extraTasks turns it on: €8.00 → €10.00.").waitFor();
  await page.getByRole("row", { name: /BUSINESS €8.00 → €12.00/ }).waitFor();
  await expectAccessible(page);
});

test("denied features lead to what unlocks them for a user", async () => {
  const { page } = own;
  await own.open("/denials", "Denials");
  await page.getByLabel("For the user with the id").fill("ada");
  await page.getByRole("link", { name: "tasker-board: What would unlock this?" }).click();
  await page.getByText("PRO + 2 × extraTasks turns it on").waitFor();
});

test("a contract shows what each plan would bring", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("tab", { name: "Plans" }).click();
  await page.getByRole("heading", { name: "What each plan of tasker would bring" }).waitFor();
  await page.getByRole("row", { name: /PRO \+ 1 × extraTasks .* Current plan/ }).waitFor();
  await page.getByRole("row", { name: /FREE Free Downgrade .*tasker-darkMode: Yes → No/ }).waitFor();
  await page.getByRole("row", { name: /BUSINESS \+ 1 × extraTasks .* Upgrade .*tasker-export: No → Yes/ }).waitFor();
  await expectAccessible(page);
});

test("a service has its price page, for everybody and for a user, and publishes it", async () => {
  const { page } = own;
  await own.open("/services/Tasker", "Tasker");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Price page" }).click();
  const plan = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "BUSINESS" }) });
  await plan.getByText("€12", { exact: true }).waitFor();
  await plan.getByText("per user and month").waitFor();
  await plan.getByText("New tasks in a month: 2,000 tasks per month").waitFor();
  await plan.getByText("Promised availability: 99.9%").waitFor();
  await plan.getByText("Choose BUSINESS").waitFor();
  await expectAccessible(page);
  await page.getByText("Compare all features").click();
  await page.getByRole("columnheader", { name: /BUSINESS €12 per user and month/ }).waitFor();
  await page.getByRole("row", { name: /extraTasks .*€2 per month .*\+100 tasks/ }).waitFor();
  await expectAccessible(page);
  await page.getByLabel("As seen by the user with the id").fill("ada");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByRole("listitem").filter({ hasText: "PRO" }).getByText("Current plan").waitFor();
  await plan.getByText("Upgrade to BUSINESS").waitFor();
  await page.getByLabel("Everybody may read this offer").click();
  await page.getByText("/public-offers/").first().waitFor();
  const offer = await fetch(`${own.url.replace("/console", "")}/api/v1/public-offers/${own.organizationId}/tasker`);
  expect(await offer.json()).toMatchObject({ service: "Tasker", pricingVersion: "1.0.0" });
  await page.getByLabel("Everybody may read this offer").click();
  await page.getByText("The offer is not published.").waitFor();
  expect(own.complaints).toEqual([]);
});
