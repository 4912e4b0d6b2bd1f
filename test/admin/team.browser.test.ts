import { beforeAll, expect, test } from "vitest";
import { expectAccessible, PASSWORD, useConsole } from "./console.ts";

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("huddle"));
  await own.call(
    "POST",
    "/contracts",
    {
      userContact: { userId: "acme", username: "acme" },
      billingPeriod: { autoRenew: true, renewalDays: 30 },
      contractedServices: { huddle: "1.0.0" },
      subscriptionPlans: { huddle: "TEAM" },
      subscriptionAddOns: {},
    },
    own.key,
  );
});

const spend = async (spender: string, amount: number) =>
  own.call<{ eval: boolean }>(
    "POST",
    `/features/acme/huddle-summarize?spender=${spender}`,
    { "huddle-credits": amount },
    own.key,
  );
const team = () => own.page.getByRole("region", { name: "Team" });
const ask = async (more: string, item: string) => {
  await own.page.getByRole("button", { name: `More about ${more}` }).click();
  await own.page.getByRole("menuitem", { name: item }).click();
};

test("a manager adds, renames and removes members of a team, which has seats", async () => {
  const { page } = own;
  await own.open("/contracts/acme", "acme");
  await page.getByRole("tab", { name: "Team" }).click();
  await page.getByText("Nobody yet.").waitFor();
  await page.getByText("0 of 5 seats taken").waitFor();
  await page.getByRole("button", { name: "Adjust Credits" }).waitFor();
  expect(await page.getByRole("button", { name: "Adjust Seats" }).count()).toBe(0);
  await page.getByRole("button", { name: "Add member" }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Add member" });
  await dialog.getByLabel("Id", { exact: true }).fill("grace");
  await dialog.getByLabel("Name", { exact: true }).fill("Grace Hopper");
  await expectAccessible(page);
  await page.keyboard.press("Enter");
  await page.getByText("grace is in the team").waitFor();
  await team()
    .getByRole("row", { name: /Grace Hopper grace/ })
    .waitFor();
  await page.getByText("1 of 5 seats taken").waitFor();
  await ask("grace", "Change name");
  const rename = page.getByRole("dialog", { name: "Name of grace" });
  await rename.getByLabel("Name", { exact: true }).fill("Grace");
  await rename.getByRole("button", { name: "Save" }).click();
  await team()
    .getByRole("row", { name: /Grace grace/ })
    .waitFor();
  await ask("grace", "Remove member");
  const confirm = page.getByRole("dialog", { name: "Remove Grace from the team?" });
  await expectAccessible(page);
  await confirm.getByRole("button", { name: "Remove member" }).click();
  await page.getByText("Nobody yet.").waitFor();
  await page.getByText("0 of 5 seats taken").waitFor();
});

test("a list replaces the team, all of it or nothing", async () => {
  const { page } = own;
  await page.getByRole("button", { name: "Import list" }).click();
  const dialog = page.getByRole("dialog", { name: "Import list" });
  await dialog.getByText("The list is empty").waitFor();
  await dialog.getByLabel("Members").fill("a\nb\nc\nd\ne\nf");
  await dialog.getByRole("button", { name: "Replace team by 6 members" }).click();
  await dialog.getByText("No seat is free: 5 of 5 are taken").waitFor();
  await dialog.getByLabel("Members").fill("grace, Grace\n\nalan\tAlan\nada\nedsger");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Replace team by 4 members" }).click();
  await page.getByText("4 added, 0 removed, 0 renamed").waitFor();
  await page.getByText("4 of 5 seats taken").waitFor();
  await expect.poll(() => team().getByRole("row").count()).toBe(5);
  await page.getByLabel("Search members").fill("gra");
  await page.getByText("1 member", { exact: true }).waitFor();
  await expect.poll(() => team().getByRole("row").count()).toBe(2);
  await expectAccessible(page);
});

test("a manager sets budgets, which show what each spender used and has left", async () => {
  const { page } = own;
  await own.open("/contracts/acme?tab=budgets", "acme");
  await page.getByText("No budgets. The limits of the contract alone decide.").waitFor();
  const dialog = page.getByRole("dialog", { name: "Set a budget" });
  for (const [name, spender, amount] of [
    ["all", "", "200"],
    ["daily", "*", "10"],
    ["run", "*/*", "5"],
  ] as const) {
    await page.getByRole("button", { name: "Set budget" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill(name);
    await dialog.getByLabel("Limit", { exact: true }).selectOption({ label: "Credits" });
    await dialog.getByLabel("Spender", { exact: true }).fill(spender);
    await dialog.getByLabel("Amount", { exact: true }).fill(amount);
    if (name === "daily") {
      await dialog.getByLabel("Window", { exact: true }).selectOption({ label: "Days" });
      // The day of the calendar may end during the test.
      await dialog.getByLabel("Begins with", { exact: true }).selectOption({ label: "the contract" });
      await expectAccessible(page);
    }
    await dialog.getByRole("button", { name: "Save budget" }).click();
    await page.getByText(`Budget ${name} saved`).waitFor();
  }
  const whole = page.getByRole("listitem", { name: "Whole contract" });
  const each = whole.getByRole("listitem", { name: "*", exact: true });
  await each.getByRole("listitem", { name: "*/*", exact: true }).getByText("Not used in this window").waitFor();
  await each.getByText("Credits, 10, Per day").waitFor();
  expect([(await spend("grace/notes", 4)).eval, (await spend("grace/notes", 4)).eval]).toEqual([true, false]);
  await own.open("/contracts/acme?tab=budgets", "acme");
  await whole.getByText("4 of 200, 196 left").waitFor();
  await each.getByText("4 of 10, 6 left").waitFor();
  await each.getByRole("meter", { name: "run: grace/notes" }).waitFor();
  await each.getByText("4 of 5, 1 left").waitFor();
  await each.getByText("Last denied: grace/notes asking for 4,").waitFor();
  await expectAccessible(page);
  await page.getByRole("tab", { name: "Team" }).click();
  await team()
    .getByRole("row", { name: /Grace grace 4 Credits/ })
    .waitFor();
  await own.open("/usage", "Usage");
  await page.getByRole("link", { name: /^grace acme\s+4$/ }).click();
  await team().waitFor();
});

test("a budget is changed, keeps its other terms, and is removed", async () => {
  const { page } = own;
  await page.getByRole("tab", { name: "Budgets" }).click();
  await ask("daily", "Change budget");
  const dialog = page.getByRole("dialog", { name: "Change budget daily" });
  expect(await dialog.getByLabel("Window", { exact: true }).inputValue()).toBe("DAY");
  expect(await dialog.getByLabel("Begins with", { exact: true }).inputValue()).toBe("contract");
  await dialog.getByLabel("Amount", { exact: true }).fill("20");
  await dialog.getByLabel("When used up").selectOption({ label: "Only warn" });
  await dialog.getByRole("button", { name: "Save budget" }).click();
  await page.getByText("Budget daily saved").waitFor();
  await page.getByText("4 of 20, 16 left").waitFor();
  await page.getByText("Only warns", { exact: true }).waitFor();
  await page.getByText("Credits, 20, Per day").waitFor();
  await ask("daily", "Remove budget");
  const confirm = page.getByRole("dialog", { name: "Remove budget daily?" });
  await expectAccessible(page);
  await confirm.getByRole("button", { name: "Remove budget" }).click();
  await page.getByText("Budget daily removed").waitFor();
  await expect.poll(() => page.getByRole("button", { name: "More about daily" }).count()).toBe(0);
  // Refused lists and no others make the browser complain.
  expect(own.complaints.filter((each) => !each.includes("409"))).toEqual([]);
});

test("both parts speak German", async () => {
  const context = await own.browser.newContext({ locale: "de-DE" });
  const page = await context.newPage();
  await page.goto(`${own.url}/o/${own.organizationId}/contracts/acme?tab=team`);
  await page.locator("input[autocomplete=username]").fill("admin");
  await page.locator("input[type=password]").fill(PASSWORD);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 2, name: "Team" }).waitFor();
  await page.getByText("4 von 5 Plätzen belegt").waitFor();
  await page.getByRole("tab", { name: "Budgets" }).click();
  await page.getByRole("heading", { level: 3, name: "Ganzer Vertrag" }).waitFor();
  await page.getByText("Zuletzt abgelehnt: grace/notes mit 4,").waitFor();
  await context.close();
});
