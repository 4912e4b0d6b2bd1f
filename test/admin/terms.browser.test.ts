import { beforeAll, expect, test } from "vitest";
import { expectAccessible, PASSWORD, useConsole } from "./console.ts";

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO", { extraTasks: 1 });
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 300 } }, own.key);
});

const terms = () =>
  own.page.locator("section", { has: own.page.getByRole("heading", { level: 2, name: "Custom terms" }) }).last();

test("a manager gives one customer more of a limit, and takes it back by undo", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await terms().getByText("No exceptions. The plan and add-ons decide.").waitFor();
  await page.getByText("Limit reached").first().waitFor();
  await terms().getByRole("button", { name: "Add" }).click();
  const dialog = page.getByRole("dialog", { name: "Custom terms for ada" });
  await dialog.getByLabel("Feature or limit").selectOption({ label: "Max tasks (limit)" });
  await dialog.getByText("Add", { exact: true }).click();
  await dialog.getByLabel("Value").fill("50");
  await dialog.getByLabel("Until").fill("2099-01-01");
  await dialog.getByLabel("Reason").fill("Launch week, agreed with support");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Save custom terms" }).click();
  await page.getByText("Custom terms saved for ada").waitFor();
  await terms().getByText("“Launch week, agreed with support”").waitFor();
  await terms().getByText("350").waitFor();
  // Everything on the page is computed with it.
  await page.getByText("300 of 350 used").or(page.getByText("300 of 350")).first().waitFor();
  const board = page.locator("li.ent", { hasText: "Board" });
  await board.getByText("On", { exact: true }).waitFor();
  // It is shown for eight seconds, of which a check of accessibility would take some.
  await page.getByRole("button", { name: "Undo" }).click();
  await terms().getByText("No exceptions. The plan and add-ons decide.").waitFor();
});

test("features are overridden by their type, changed and removed", async () => {
  const { page } = own;
  await terms().getByRole("button", { name: "Add" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Feature or limit").selectOption({ label: "Export (feature)" });
  await dialog.getByText("Yes", { exact: true }).click();
  await dialog.getByLabel("Reason").fill("Trial of the export");
  await dialog.getByRole("button", { name: "Save custom terms" }).click();
  await terms().getByText("No end.").waitFor();
  await page.locator("li.ent", { hasText: "Export" }).getByText("Custom terms").waitFor();
  await expectAccessible(page);
  await terms().getByRole("button", { name: "More about Export" }).click();
  await page.getByRole("menuitem", { name: "Change" }).click();
  await dialog.getByLabel("Reason").fill("Bought by mail");
  await dialog.getByLabel("Until").fill("2098-06-01");
  await dialog.getByRole("button", { name: "Save custom terms" }).click();
  await terms().getByText("“Bought by mail”").waitFor();
});

test("the page of all custom terms finds those that end soon", async () => {
  const { page } = own;
  await own.open("/overrides", "Custom terms");
  await page.getByRole("row", { name: /ada Export .*Active Bought by mail/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Ends within" }).click();
  await page.getByRole("menuitem", { name: "30 days" }).click();
  await page.getByText("No custom terms match").waitFor();
  await page.getByRole("link", { name: "Custom terms" }).first().click();
  await page.getByRole("row").getByRole("link", { name: "ada" }).click();
  await terms().getByRole("button", { name: "More about Export" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await page.getByText("Custom terms removed").waitFor();
  await terms().getByText("No exceptions. The plan and add-ons decide.").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a day is the same in the field and in the lists east of UTC", async () => {
  const context = await own.browser.newContext({ reducedMotion: "reduce", timezoneId: "Europe/Berlin" });
  const page = await context.newPage();
  await context.request.post(`${own.server.url}/api/v1/sessions`, { data: { username: "admin", password: PASSWORD } });
  await page.goto(`${own.url}/o/${own.organizationId}/contracts/ada`);
  const section = page
    .locator("section", { has: page.getByRole("heading", { level: 2, name: "Custom terms" }) })
    .last();
  await section.getByRole("button", { name: "Add" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Until").fill("2098-12-24");
  await dialog.getByLabel("Reason").fill("Ends before Christmas");
  await dialog.getByRole("button", { name: "Save custom terms" }).click();
  await section.getByText("Until 24 Dec 2098.").waitFor();
  await page.goto(`${own.url}/o/${own.organizationId}/overrides`);
  await page.getByRole("row", { name: /24 Dec 2098/ }).waitFor();
  await context.close();
});

test("a date field takes years of four digits only", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await terms().getByRole("button", { name: "Add" }).click();
  const until = page.getByRole("dialog").getByLabel("Until");
  await until.focus();
  await page.keyboard.type("1224209888");
  expect(await until.inputValue()).toMatch(/^\d{4}-12-24$/);
  await page.keyboard.press("Escape");
  expect(own.complaints).toEqual([]);
});
