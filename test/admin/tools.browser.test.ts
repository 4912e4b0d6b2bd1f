import { beforeAll, expect, test } from "vitest";
import { openReceiver } from "../events/webhook-receiver.ts";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole({ environment: { WEBHOOK_ALLOWED_HOSTS: "127.0.0.1" } });

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "FREE");
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 20 } }, own.key);
});

test("the playground explains why a feature is off, as the server does, without counting usage", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("link", { name: "See why a feature is on or off" }).click();
  await page.getByRole("button", { name: /tasker-board/ }).click();
  await page.getByText("maxTasks is used up: 20 of 20.").waitFor();
  await page.getByText("true && 20 < 20").waitFor();
  await expectAccessible(page);
  await page.getByLabel("If it used so much of tasker-maxTasks").fill("5");
  await page.getByRole("button", { name: "Ask the server" }).click();
  await page.getByText('"eval": false').waitFor();
  await page.getByText(`-d '{"tasker-maxTasks":5}'`).waitFor();
  await page.getByRole("button", { name: /tasker-export/ }).click();
  await page.getByText("The plan and add-ons do not give export.").waitFor();
  const after = await own.call<{ usageLevels: object }>("GET", "/contracts/ada", undefined, own.key);
  expect(after.usageLevels).toMatchObject({ tasker: { maxTasks: { consumed: 20 } } });
  expect(own.complaints).toEqual([]);
});

test("the browser evaluates a configuration that nobody has", async () => {
  const { page } = own;
  await page.getByLabel("For whom").selectOption("invented");
  await page.getByLabel("Version: Tasker").selectOption("1.0.0");
  await page.getByLabel("Plan: Tasker").selectOption("PRO");
  await page.getByLabel("Add-on extraTasks, quantity").fill("1");
  await page.getByLabel("Used of tasker-maxTasks").fill("299");
  await page.getByText("true && 299 < 300").waitFor();
  await page.getByText("Every part of the expression holds.").waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("a token is issued, decoded, and verified by the server, which rejects a changed one", async () => {
  const { page } = own;
  await own.open("/tokens", "Token inspector");
  await page.getByLabel("User id").fill("ada");
  await page.getByRole("button", { name: "Issue a token" }).click();
  await page.getByRole("heading", { name: "ada" }).waitFor();
  await page.getByText("in 59 minutes").waitFor();
  await expect.poll(() => page.getByRole("row", { name: /tasker-board/ }).textContent()).toContain("20 of 20");
  await page.getByRole("button", { name: "Verify with the server" }).click();
  await page.getByText("Signed by this server, and valid.").waitFor();
  await expectAccessible(page);
  const field = page.getByLabel("Pricing token");
  await field.fill(`${(await field.inputValue()).split(".").slice(0, 2).join(".")}.AAAA`);
  await page.getByRole("button", { name: "Verify with the server" }).click();
  await page.getByText("The signature is not of this server").waitFor();
  await field.fill("nonsense");
  await page.getByText("This is no pricing token:").waitFor();
  expect(own.complaints).toEqual([]);
});

test("the events page shows past events and receives new ones live", async () => {
  const { page } = own;
  await own.open("/events", "Events");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("row", { name: /PRICING_CREATED.*Tasker 1.0.0/ }).waitFor();
  await own.contract("bob", "FREE");
  await page.getByRole("row", { name: /CONTRACT_CREATED.*bob/ }).waitFor();
  await expectAccessible(page);
  await page.getByLabel("Show", { exact: true }).selectOption("CONTRACT_CREATED");
  await page
    .getByRole("row", { name: /PRICING_CREATED/ })
    .first()
    .waitFor({ state: "hidden" });
  expect(own.complaints).toEqual([]);
});

test("a webhook is added, its secret shown once, its deliveries logged and sent again, and it is deleted", async () => {
  const { page } = own;
  const receiver = await openReceiver();
  await own.open("/webhooks", "Webhooks");
  await page.getByLabel("Address").fill(receiver.url);
  await page.getByLabel("CONTRACT_CREATED").check();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page
    .getByRole("dialog")
    .getByText(/^whsec_/)
    .waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Close" }).click();
  await own.contract("carol", "FREE");
  await page.getByRole("button", { name: "Deliveries" }).click();
  await expect
    .poll(
      async () => {
        await page.getByRole("button", { name: "Try again" }).click();
        return page.getByRole("row", { name: /CONTRACT_CREATED.*delivered/ }).count();
      },
      { timeout: 10_000 },
    )
    .toBe(1);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Send again" }).click();
  await expect.poll(() => receiver.received.length, { timeout: 10_000 }).toBe(2);
  await page.getByRole("button", { name: "Delete …" }).click();
  const { host } = new URL(receiver.url);
  await page.getByLabel(`Type ${host} to confirm`).fill(host);
  await page.getByRole("dialog").getByRole("button", { name: "Delete …" }).click();
  await page.getByText("No webhook yet.").waitFor();
  await receiver.close();
  expect(own.complaints).toEqual([]);
});
