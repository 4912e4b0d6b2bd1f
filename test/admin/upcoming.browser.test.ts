import { beforeAll, expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO");
});

const section = () =>
  own.page.locator("section", { has: own.page.getByRole("heading", { level: 2, name: "Upcoming change" }) }).last();
const sheet = () => own.page.getByRole("dialog");

test("a plan is scheduled for the end of the period, and stands on the contract's page", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("button", { name: "Change plan" }).first().click();
  await page.getByRole("radio", { name: /^FREE/ }).check();
  await sheet().getByText("At the end of the period").click();
  await sheet().getByLabel("Reason").fill("Asked for by mail");
  await expectAccessible(page);
  await sheet().getByRole("button", { name: "Schedule FREE" }).click();
  await page.getByText("FREE scheduled for ada").waitFor();
  await section().getByText("“Asked for by mail”").waitFor();
  await expectAccessible(page);
});

test("the page of all changes shows it, and cancels it", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Upcoming" }).first().click();
  await page.getByRole("heading", { level: 1, name: "Upcoming" }).waitFor();
  await page.getByRole("row", { name: /ada FREE Pending “Asked for by mail”/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Cancel the change of ada" }).click();
  await page.getByText("Scheduled change cancelled").waitFor();
  await page.getByText("No change is scheduled").waitFor();
  await page.getByRole("button", { name: "State" }).click();
  await page.getByRole("menuitem", { name: "Cancelled" }).click();
  await page.getByRole("row", { name: /ada FREE Cancelled/ }).waitFor();
});

test("a change now can cancel the one for later", async () => {
  const { page } = own;
  await page.getByRole("row").getByRole("link", { name: "ada" }).click();
  await page.getByRole("button", { name: "Change plan" }).first().click();
  await page.getByRole("radio", { name: /^BUSINESS/ }).check();
  await sheet().getByText("On a day").click();
  await expect(sheet().getByRole("button", { name: "Schedule BUSINESS" }).isDisabled()).resolves.toBe(true);
  await sheet().getByRole("textbox", { name: "Day" }).fill("2098-06-01");
  await sheet().getByRole("button", { name: "Schedule BUSINESS" }).click();
  await section().getByText("BUSINESS").waitFor();
  await page.getByRole("button", { name: "Change plan" }).first().click();
  await page.getByRole("radio", { name: /^BUSINESS/ }).check();
  await sheet()
    .getByText(/^Also cancel the change scheduled for/)
    .click();
  await sheet()
    .getByRole("button", { name: /^Move to BUSINESS/ })
    .click();
  await section().waitFor({ state: "detached" });
  expect(own.complaints).toEqual([]);
});

test("a version is archived on a day, and its page says so until then", async () => {
  const { page } = own;
  await own.upload(own.sample("tasker").replace('version: "1.0.0"', 'version: "2.0.0"'), "Tasker");
  await own.open("/services/Tasker/archive/2.0.0", "Archive");
  await page.getByRole("button", { name: /^Archive 2.0.0/ }).click();
  await page.getByLabel("On a day").fill("2098-06-01");
  await page.getByRole("dialog").getByRole("textbox").last().fill("2.0.0");
  await expectAccessible(page);
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /^Archive 2.0.0/ })
    .click();
  await page.getByText("2.0.0 archived").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Scheduled change cancelled").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a contract begins with a trial, and shows what follows", async () => {
  const { page } = own;
  await own.call(
    "POST",
    "/contracts",
    {
      userContact: { userId: "tria", username: "tria" },
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "BUSINESS" },
      subscriptionAddOns: {},
      trial: { days: 14, then: { subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: {} } },
    },
    own.key,
  );
  await own.open("/contracts/tria", "tria");
  const trial = page.locator("section", { has: page.getByRole("heading", { level: 2, name: "Trial" }) }).last();
  await trial.getByText("FREE").waitFor();
  await trial.getByText(/Ends by itself/).waitFor();
  await own.open("/contracts", "Contracts");
  await page.getByRole("row", { name: /tria .*Trial/ }).waitFor();
  await own.open("/contracts?state=trial", "Contracts");
  await page.getByText("1 contract", { exact: false }).first().waitFor();
  await page.getByRole("row", { name: /tria .*Trial/ }).waitFor();
  await own.open("/upcoming", "Upcoming");
  await page.getByRole("row", { name: /End of the trial tria FREE Pending/ }).waitFor();
  expect(own.complaints).toEqual([]);
});
