import { beforeAll, expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO");
  await own.contract("grace", "PRO");
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 250 } }, own.key);
});

const credits = () =>
  own.page
    .locator("section", { has: own.page.getByRole("heading", { level: 2, name: "Credits", exact: true }) })
    .last();
const give = (userId: string, block: object) =>
  own.call(
    "POST",
    `/contracts/${userId}/blocks`,
    { service: "tasker", limit: "maxTasks", reason: "Sorry", ...block },
    own.key,
  );

test("a manager gives credits, and the page counts with them at once", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await credits().getByText("No credits. The plan and add-ons decide.").waitFor();
  const board = page.locator("li.ent", { hasText: "Boards on which" });
  await board.getByText("Off", { exact: true }).waitFor();
  await credits().getByRole("button", { name: "Give credits" }).click();
  const dialog = page.getByRole("dialog", { name: "Give credits to ada" });
  await dialog.getByLabel("Limit", { exact: true }).selectOption({ label: "Max tasks" });
  await dialog.getByLabel("Amount").fill("100");
  await dialog.getByText("300", { exact: true }).waitFor();
  await dialog.getByLabel("Until").fill("2099-01-01");
  await dialog.getByLabel("Reason").fill("Thanks for the report");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Give credits" }).click();
  await page.getByText("Credits given to ada").waitFor();
  await credits().getByText("50 of 100").waitFor();
  await credits().getByText("“Thanks for the report”, by admin").waitFor();
  await page.getByText("250 of 300").waitFor();
  await board.getByText("On", { exact: true }).waitFor();
  await expectAccessible(page);
});

test("the usage bar names its parts: plan, credits with their ends, and what is held", async () => {
  const { page } = own;
  await own.call("POST", "/features/ada/tasker-board?hold=PT1H", { "tasker-maxTasks": 20 }, own.key);
  await own.open("/contracts/ada", "ada");
  const parts = page.getByRole("list", { name: "Parts of Max tasks" });
  await expect
    .poll(() => parts.getByRole("listitem").allInnerTexts())
    .toEqual([
      "200 from the plan",
      "50 used of credits in this period",
      expect.stringMatching(/^50 left, given, until /),
      "20 held",
    ]);
  await page.getByRole("meter", { name: "Max tasks" }).first().waitFor();
  await expectAccessible(page);
});

test("credits that are revoked keep what was used", async () => {
  const { page } = own;
  await credits().getByRole("button", { name: "More about Max tasks" }).click();
  await page.getByRole("menuitem", { name: "Revoke credits" }).click();
  const dialog = page.getByRole("dialog", { name: "Revoke 50 Max tasks?" });
  await dialog.getByText("ada loses the 50 that are left.").waitFor();
  await dialog.getByText("What open holds need of them stays until the holds end.").waitFor();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Revoke credits" }).click();
  await page.getByText("Credits revoked").waitFor();
  await page.getByText("250 of 270, 20 held").waitFor();
  const parts = page.getByRole("list", { name: "Parts of Max tasks" });
  await expect
    .poll(() => parts.getByRole("listitem").allInnerTexts())
    .toEqual(["200 from the plan", "50 used of credits in this period", "20 held"]);
  const { data } = await own.call<{ data: { id: string }[] }>("GET", "/contracts/ada/holds", undefined, own.key);
  await own.call("DELETE", `/holds/${data[0]?.id}`, undefined, own.key);
  await own.open("/contracts/ada", "ada");
  await page.getByText("250 of 250").waitFor();
  await credits().getByText("No credits. The plan and add-ons decide.").waitFor();
});

test("the page of all credits finds those that are open, end soon, or were given", async () => {
  const { page } = own;
  await give("ada", { amount: 10, expiresAt: inDays(3) });
  await give("grace", { amount: 20 });
  await own.open("/credits", "Credits");
  await page.getByRole("row", { name: /grace Max tasks 20 of 20 Never Given Open Sorry/ }).waitFor();
  await page.getByRole("row", { name: /ada Max tasks 10 of 10 .* Given Open Sorry/ }).waitFor();
  expect(await page.getByRole("row", { name: /Revoked/ }).count()).toBe(0);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Ends within" }).click();
  await page.getByRole("menuitem", { name: "7 days" }).click();
  await expect.poll(() => page.getByRole("row", { name: /grace/ }).count()).toBe(0);
  await page.getByRole("row", { name: /ada/ }).waitFor();
  await page.getByRole("button", { name: "Origin", exact: true }).click();
  await page.getByRole("menuitem", { name: "Bought" }).click();
  await page.getByText("No credits match").waitFor();
  await own.open("/credits?state=revoked", "Credits");
  await page.getByRole("row", { name: /ada Max tasks 50 of 100 .* Given Revoked Thanks for the report/ }).waitFor();
  await page.getByRole("row").getByRole("link", { name: "ada" }).click();
  await page.getByRole("heading", { level: 1, name: "ada" }).waitFor();
});

test("usage shows the units that credits were spent on, for all and for one customer", async () => {
  const { page } = own;
  await own.upload(own.sample("scribe"));
  await own.call(
    "POST",
    "/contracts",
    {
      userContact: { userId: "zoe", username: "zoe" },
      contractedServices: { scribe: "1.0.0" },
      subscriptionPlans: { scribe: "PRO" },
      subscriptionAddOns: {},
    },
    own.key,
  );
  await own.call(
    "POST",
    "/features/zoe/scribe-write",
    { "scribe-credits": { "large.input": 20_000, "large.output": 6000 } },
    own.key,
  );
  for (const [path, heading] of [
    ["/usage", "Usage"],
    ["/contracts/zoe?tab=usage", "zoe"],
  ] as const) {
    await own.open(path, heading);
    const table = page.getByRole("region", { name: "By unit: Credits" });
    await table.getByRole("row", { name: "large.output Write 6,000 60" }).waitFor();
    await table.getByRole("row", { name: "large.input Write 20,000 40" }).waitFor();
    await expectAccessible(page);
  }
  expect(own.complaints).toEqual([]);
});
