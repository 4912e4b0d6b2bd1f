import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { createLocalEvaluator } from "../../src/local/local.ts";
import { jump, PASSWORD, useConsole, expectAccessible, expectComplaints } from "./console.ts";

const own = useConsole();
const HOUR_MS = 3_600_000;
const BATCH = 25;

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO");
  await own.contract("bob", "BUSINESS");
  const amounts = { "tasker-maxTasks": 2 };
  const items = Array.from({ length: BATCH }, (_, index) => ({
    userId: "ada",
    featureId: "tasker-board",
    amounts,
    key: `import-${index}`,
  }));
  await own.call("POST", "/usage", items, own.key);
  await own.call("POST", "/features/bob/tasker-board", { "tasker-maxTasks": 30 }, own.key);
  await own.call("PUT", "/contracts/bob/usageLevels", { tasker: { maxTasks: 5 } }, own.key);
});

test("a contract shows its usage per day as bars and as a table, and its movements page by page", async () => {
  const { page } = own;
  const late = {
    userId: "ada",
    featureId: "tasker-board",
    amounts: { "tasker-maxTasks": 7 },
    key: "late-1",
    at: new Date(Date.now() - HOUR_MS).toISOString(),
  };
  expect(await own.call("POST", "/usage", [late], own.key)).toMatchObject({ counts: { late: 1 } });
  await own.open("/contracts/ada", "ada");
  await page.getByRole("tab", { name: "Usage" }).click();
  const days = page.locator("section", { has: page.getByRole("heading", { level: 2, name: "Last 30 days" }) }).last();
  await days.getByRole("heading", { level: 3, name: "Max tasks" }).waitFor();
  await days.getByRole("img", { name: "Max tasks of tasker: 50 in 30 days" }).waitFor();
  await days.getByText("7 recorded late, after the period had ended").waitFor();
  await days.getByText("Show as table").first().click();
  const table = days.getByRole("table").first();
  await expect
    .poll(() => table.getByRole("columnheader").allInnerTexts())
    .toEqual(["Day", "Counted", "Cleared by resets", "Late"]);
  // A head and a row per day; the batch may have been sent just before midnight.
  expect(await table.getByRole("row").count()).toBe(31);
  const counted = await table.locator("tbody td:nth-child(2)").allInnerTexts();
  expect(counted.reduce((sum, each) => sum + Number(each), 0)).toBe(2 * BATCH);

  const movements = page.getByRole("region", { name: "Movements" });
  await expect.poll(() => movements.locator("tbody tr").count()).toBe(20);
  const newest = movements.locator("tbody tr").first();
  await newest.getByText("Late, not counted").waitFor();
  await newest.getByText("+7").waitFor();
  await newest.getByText("late-1").waitFor();
  await newest.getByText(/^Recorded /).waitFor();
  await expectAccessible(page);
  const isNextPage = ({ searchParams }: URL) => searchParams.has("before");
  await page.route(isNextPage, (route) => route.abort());
  await page.getByRole("button", { name: "Show earlier movements" }).click();
  await page.getByRole("alert").getByText("The server cannot be reached").waitFor();
  await page.unroute(isNextPage);
  expect(own.complaints.splice(0).every((each) => each.includes("ERR_FAILED"))).toBe(true);
  await page.getByRole("alert").getByRole("button", { name: "Try again" }).click();
  await expect.poll(() => movements.locator("tbody tr").count()).toBe(BATCH + 1);
  await movements.locator("tbody tr").last().getByText("tasker-board").waitFor();
  await page.getByRole("button", { name: "Show earlier movements" }).waitFor({ state: "hidden" });
  expect(own.complaints).toEqual([]);
});

test("the page Usage ranks features and people of each limit, and leads to their contracts", async () => {
  const { page } = own;
  await own.open("", "Overview");
  await jump(page, "u", "Usage");
  await page.getByRole("img", { name: "Max tasks of tasker: 85 in 30 days" }).waitFor();
  const features = page.getByRole("region", { name: "By feature: Max tasks" });
  await features.getByRole("row", { name: "Board 80 94.1%" }).waitFor();
  await features.getByRole("row", { name: "Adjusted by hand 5 5.9%" }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Limit" }).click();
  await page.getByRole("menuitem", { name: "Max tasks" }).click();
  await expect.poll(() => page.url()).toContain("limit=maxTasks");
  await page.getByLabel("Period").selectOption("7 days");
  await page.getByRole("img", { name: "Max tasks of tasker: 85 in 7 days" }).waitFor();
  await page.getByRole("button", { name: "Clear: Limit" }).click();
  await page.getByRole("button", { name: "Service" }).click();
  await page.getByRole("menuitem", { name: "Tasker" }).click();
  await expect.poll(() => page.url()).toContain("service=tasker");
  await page.getByRole("img", { name: "Max tasks of tasker: 85 in 7 days" }).waitFor();
  const people = page.getByRole("main").getByRole("list").getByRole("link");
  await expect
    .poll(() => people.allInnerTexts())
    .toEqual([expect.stringMatching(/ada\s+50/), expect.stringMatching(/bob\s+35/)]);
  await people.first().click();
  await page.getByRole("heading", { level: 1, name: "ada" }).waitFor();
  await page.getByRole("heading", { level: 2, name: "Movements" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("the server's file of usage is saved as CSV", async () => {
  const { page } = own;
  await own.open("/usage?limit=maxTasks", "Usage");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  await page.getByRole("menuitem", { name: "By person" }).click();
  expect((await download).suggestedFilename()).toBe("usage-by-user.csv");
  expect(readFileSync(await (await download).path(), "utf8").split("\r\n")).toEqual([
    "service,limit,userId,counted,late",
    "tasker,maxTasks,ada,50,7",
    "tasker,maxTasks,bob,35,0",
    "",
  ]);
  expect(own.complaints).toEqual([]);
});

test("usage alerts are edited on the page Usage", async () => {
  const { page } = own;
  await own.open("/usage", "Usage");
  await page.getByText("80% of a limit").waitFor();
  await page.getByRole("button", { name: "Edit alerts" }).click();
  const field = page.getByLabel("Percent of a limit");
  await field.fill("50, 50");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("must be a list of 1 to 5 different whole numbers").waitFor();
  await expectAccessible(page);
  await field.fill("120, 50");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("50% of a limit").waitFor();
  await page.getByText("120% of a limit").waitFor();
  // It is shown for eight seconds, of which a check of accessibility would take some.
  await page.getByRole("status").getByRole("button", { name: "Undo" }).click();
  await page.getByText("80% of a limit").waitFor();
  await expectAccessible(page);
  await expectComplaints(own, "422");
});

test("the page Usage shows how many evaluators are connected, and that no lease is open", async () => {
  const { page } = own;
  await page.clock.install();
  await own.open("/usage", "Usage");
  const section = page.locator("section", { has: page.getByRole("heading", { level: 2, name: "Local evaluation" }) });
  // The page reads the figures again every 10 s of its clock.
  const expectLater = async (text: string) => {
    await expect
      .poll(async () => {
        await page.clock.fastForward(10_000);
        return section.getByText(text).isVisible();
      })
      .toBe(true);
  };
  await section.getByText("No evaluator is connected. No lease is open.").waitFor();
  const evaluator = createLocalEvaluator({ url: own.server.url, apiKey: own.key });
  try {
    await expectLater("1 evaluator is connected.");
    await expectAccessible(page);
  } finally {
    await evaluator.close();
  }
  await expectLater("No evaluator is connected.");
  expect(own.complaints).toEqual([]);
});

test("an EVALUATOR sees the usage and its alerts, without a way to change them", async () => {
  const { page } = own;
  const admin = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  await own.call("POST", "/users", { username: "eva", password: PASSWORD });
  const members = `/organizations/${own.organizationId}/members`;
  await own.call("POST", members, { username: "eva", role: "EVALUATOR" }, admin.apiKey);
  await page.getByRole("button", { name: /^Account: admin/ }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await own.signIn("eva");
  await own.open("/usage", "Usage");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Usage" }).waitFor();
  await page.getByText("80% of a limit").waitFor();
  await page.getByRole("img", { name: /^Max tasks of tasker: 85/ }).waitFor();
  expect(await page.getByRole("button", { name: "Edit alerts" }).count()).toBe(0);
  expect(own.complaints).toEqual([]);
});
