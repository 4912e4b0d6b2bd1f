import { expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();

test("the overview of an empty organization shows first steps with calls to copy", async () => {
  const { page } = own;
  await page.getByRole("heading", { name: "Begin here" }).waitFor();
  await page.getByText(`-H 'x-api-key: ${own.key}'`).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("every figure of the overview is correct, links to the list it counts, and updates on events", async () => {
  const { page } = own;
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "FREE");
  await own.contract("bob", "PRO");
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 19 } }, own.key);
  const { billingPeriod } = await own.call<{ billingPeriod: { startDate: string } }>(
    "GET",
    "/contracts/bob",
    undefined,
    own.key,
  );
  const ended = { endDate: billingPeriod.startDate, autoRenew: false };
  await own.call("PUT", "/contracts/bob/billingPeriod", ended, own.key);
  await own.call("POST", "/features/ada/tasker-board", { "tasker-maxTasks": 1 }, own.key);
  await own.open("", "Overview");
  await page.getByRole("link", { name: "Contracts 2" }).waitFor();
  await page.getByRole("link", { name: "Active versions 1" }).waitFor();
  await page.getByRole("link", { name: "Limits reached 1" }).waitFor();
  await page.getByRole("link", { name: "Denied features 0" }).waitFor();
  await expect
    .poll(async () => (await page.getByRole("listitem").filter({ hasText: "expired" }).textContent()) ?? "")
    .toBe("expired1");
  await page.getByText("20 of 20").first().waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Users near a limit 1" }).click();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await page.getByRole("link", { name: "ada" }).waitFor();
  await page.getByLabel("State").selectOption("expired");
  await page.getByRole("link", { name: "bob" }).waitFor();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await own.open("", "Overview");
  await page.getByRole("link", { name: "renews by itself" }).click();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await page.getByRole("link", { name: "ada" }).waitFor();
  await own.open("", "Overview");
  await page.getByText("Live", { exact: true }).waitFor();
  await own.contract("carol", "FREE");
  await page.getByRole("row", { name: /CONTRACT_CREATED.*carol/ }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("the denied features show their counts and reasons, and link to the playground", async () => {
  const { page } = own;
  // ada has used up the limit, and FREE has no export.
  for (const feature of ["board", "board", "export"])
    await own.call("POST", `/features/ada/tasker-${feature}`, {}, own.key);
  await own.open("", "Overview");
  await page.getByRole("link", { name: "Denied features 3" }).click();
  await page.getByRole("heading", { level: 1, name: "Denied features" }).waitFor();
  await page.getByText("3 in all").waitFor();
  await page.getByRole("row", { name: "tasker-board 2 2 0" }).waitFor();
  await page.getByRole("row", { name: "tasker-export 1 0 1" }).waitFor();
  await expectAccessible(page);
  await page.getByLabel("Period").selectOption("7 days");
  await expect.poll(() => new URL(page.url()).search).toBe("?hours=168");
  await page.getByRole("row", { name: "tasker-board 2 2 0" }).waitFor();
  await page.getByRole("link", { name: "tasker-board" }).click();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("the audit log lists each change with its actor", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Audit log" }).click();
  await page.getByRole("heading", { level: 1, name: "Audit log" }).waitFor();
  await page.getByRole("table").waitFor();
  await page.getByRole("row", { name: /key .* contract\.create ada/ }).waitFor();
  await page.getByText("Before and after").first().click();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("an operator sees calls per day, health, and the cache", async () => {
  const { page } = own;
  expect(await page.getByRole("link", { name: /^(Analytics|Cache)$/ }).count()).toBe(0);
  await page.getByRole("link", { name: "Compatibility" }).click();
  await page.getByRole("heading", { level: 1, name: "Compatibility" }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Analytics" }).click();
  await page.getByRole("img", { name: /^Calls a day: \d+ in seven days/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Health" }).click();
  await expect.poll(() => page.getByText("up", { exact: true }).count()).toBe(3);
  await expectAccessible(page);
  await page.getByRole("link", { name: "Compatibility" }).click();
  await page.getByRole("link", { name: "Cache" }).click();
  const [read, write] = [page.locator("section").first(), page.locator("section").last()];
  await write.getByLabel("Key").fill("greeting");
  await write.getByLabel("Value, as JSON").fill("hello");
  await write.getByText("This is no JSON").waitFor();
  await write.getByLabel("Value, as JSON").fill('{"text": "hello"}');
  await write.getByRole("button", { name: "Write" }).click();
  await page.getByText("It is stored.").waitFor();
  await read.getByLabel("Key").fill("greeting");
  await read.getByRole("button", { name: "Read" }).click();
  await read.getByText('"text": "hello"').waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});
