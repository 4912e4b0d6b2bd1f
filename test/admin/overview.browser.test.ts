import { expect, test } from "vitest";
import { appears, expectAccessible, useConsole } from "./console.ts";

const own = useConsole();

test("the overview of an empty organization shows first steps with calls to copy", async () => {
  const { page } = own;
  await page.getByRole("heading", { name: "Get started" }).waitFor();
  await page.getByText("-H 'x-api-key: YOUR_KEY'").waitFor();
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
  await page.getByText("in 1 active version of 1 service").waitFor();
  await page.getByRole("link", { name: "Review: 1 limit was reached" }).waitFor();
  await page.getByText("No feature was denied.").waitFor();
  // The states exclude each other and add up to the total.
  const states = ["Renew automatically1", "Run to their end0", "End within 7 days0", "Expired1"];
  await expect.poll(() => page.locator(".keys a").allTextContents()).toEqual(states);
  await expect.poll(() => page.locator(".figure").first().textContent()).toBe("2");
  await page.getByText("20 of 20").first().waitFor();
  await page.getByRole("img", { name: "New contracts, last 30 days: 2 in 30 days" }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "All near a limit" }).click();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await page.getByRole("link", { name: "ada" }).waitFor();
  await page.getByRole("button", { name: "Status Near a limit" }).click();
  await page.getByRole("menuitem", { name: "Expired" }).click();
  await page.getByRole("link", { name: "bob" }).waitFor();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await own.open("", "Overview");
  await page.getByRole("link", { name: "Renew automatically" }).click();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await page.getByRole("link", { name: "ada" }).waitFor();
  await own.open("", "Overview");
  await page.getByText("Live", { exact: true }).waitFor();
  await own.contract("carol", "FREE");
  await page
    .getByRole("listitem")
    .filter({ hasText: /Contract created.*carol/ })
    .waitFor();
  expect(own.complaints).toEqual([]);
});

test("the denied features show their counts and reasons, and link to the playground", async () => {
  const { page } = own;
  // ada has used up the limit, and FREE has no export.
  for (const feature of ["board", "board", "export"])
    await own.call("POST", `/features/ada/tasker-${feature}`, {}, own.key);
  await own.open("", "Overview");
  await page.getByRole("link", { name: "Board 2" }).waitFor();
  await page.getByRole("img", { name: "Denials, last 30 days: 3 in 30 days" }).waitFor();
  await page.getByRole("link", { name: "All denials" }).click();
  await page.getByRole("heading", { level: 1, name: "Denials" }).waitFor();
  await page.getByText("3 in total").waitFor();
  await page.getByRole("row", { name: "Board tasker-board 2 2 0" }).waitFor();
  await page.getByRole("row", { name: "Export tasker-export 1 0 1" }).waitFor();
  await expectAccessible(page);
  await page.getByLabel("Period").selectOption("7 days");
  await expect.poll(() => new URL(page.url()).search).toBe("?hours=168");
  await page.getByRole("row", { name: "Board tasker-board 2 2 0" }).waitFor();
  await page.getByRole("link", { name: "tasker-board" }).click();
  await page.getByRole("heading", { level: 1, name: "Check access" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("denials that have risen need attention", async () => {
  const { page } = own;
  for (let times = 0; times < 17; times += 1) await own.call("POST", "/features/ada/tasker-export", {}, own.key);
  await own.open("", "Overview");
  await page.getByRole("link", { name: "Review: Denials rose from 0 to 20 in 7 days" }).waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("the audit log lists each change with its actor", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Activity log" }).click();
  await page.getByRole("heading", { level: 1, name: "Activity log" }).waitFor();
  await page.getByRole("table").waitFor();
  await page.getByLabel("What").selectOption("Contract created");
  await page.getByRole("row", { name: /Key …\w{4} Contract created ada/ }).waitFor();
  // The row above is in the list before it is filtered, too.
  await expect.poll(() => page.getByRole("row", { name: /Usage changed/ }).count()).toBe(0);
  await page.getByText("Before and after").first().click();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("an operator sees calls per day, health, and the cache", async () => {
  const { page } = own;
  expect(await page.getByRole("link", { name: /^(Traffic|Cache)$/ }).count()).toBe(0);
  await page.getByRole("button", { name: "Server" }).click();
  await page.getByRole("link", { name: "Traffic" }).click();
  await page.getByRole("img", { name: /^Calls per day: \d+ in seven days/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Health" }).click();
  await expect.poll(() => page.getByText("Up", { exact: true }).count()).toBe(3);
  await expectAccessible(page);
  await page.getByRole("link", { name: "Cache" }).click();
  const [read, write] = [page.locator("section").first(), page.locator("section").last()];
  await write.getByLabel("Key").fill("greeting");
  await write.getByLabel("Value, as JSON").fill("hello");
  await write.getByText("Not valid JSON").waitFor();
  await write.getByLabel("Value, as JSON").fill('{"text": "hello"}');
  await write.getByRole("button", { name: "Write" }).click();
  await page.getByText("Value stored").waitFor();
  await read.getByLabel("Key").fill("greeting");
  await read.getByRole("button", { name: "Read" }).click();
  await read.getByText('"text": "hello"').waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("a server that is away is said on every page, and its return too", async () => {
  const { page } = own;
  await own.open("/services", "Services");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.context().setOffline(true);
  const told = page.getByText("The server cannot be reached. What you see may be outdated.");
  // A page that becomes visible reopens its stream. On a busy machine, Chromium may let the first one through.
  const isTold = async () => {
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    return appears(told);
  };
  await expect.poll(isTold).toBe(true);
  await page.context().setOffline(false);
  await page.getByText("Live", { exact: true }).waitFor();
  await expect.poll(() => page.getByText("The server cannot be reached.").count()).toBe(0);
  own.complaints.splice(0);
});

test("a page whose code does not load leaves the navigation, and the next page is shown", async () => {
  const { page } = own;
  await page.route("**/assets/webhooks-*.js", (route) => route.abort());
  await own.open("/services", "Services");
  const navigation = page.getByRole("complementary");
  await navigation.getByRole("link", { name: "Webhooks" }).click();
  await page.getByText("This page has failed. Reloading it usually helps.").waitFor();
  await navigation.getByRole("link", { name: "Members" }).click();
  await page.getByRole("heading", { level: 1, name: "Members" }).waitFor();
  await page.unroute("**/assets/webhooks-*.js");
  own.complaints.splice(0);
});

test("a proxy's page in place of an answer counts as a server that is away", async () => {
  const { page } = own;
  const proxy = { contentType: "text/html", body: "<h1>Sign in to the network</h1>" };
  await page.route("**/contracts?**", (route) => route.fulfill(proxy));
  await own.open("/contracts", "Contracts");
  await page.getByRole("alert").getByText("The server cannot be reached.").waitFor();
  await page.unroute("**/contracts?**");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  expect(own.complaints).toEqual([]);
});
