import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();
/** Moment, truncated to seconds, at which ada had used 270. */
let past: Date;

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO", { extraTasks: 1 });
  for (let user = 1; user <= 24; user += 1) await own.contract(`user-${String(user).padStart(2, "0")}`, "FREE");
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 270 } }, own.key);
  past = new Date(Math.ceil(Date.now() / 1000) * 1000);
  // Browsers drop zero seconds from datetime-local values, and Playwright then fails to fill the field.
  if (past.getSeconds() === 0) past.setSeconds(1);
});

test("contracts are searched, filtered and sorted on the server, and the address says how", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  await page.getByText("25 contracts").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("link", { name: "user-24" }).waitFor();
  await page.getByRole("button", { name: "Sort by User" }).click();
  await page.getByRole("link", { name: "user-24" }).waitFor();
  expect(page.url()).toContain("order=desc");
  await page.getByLabel("Service", { exact: true }).selectOption("Tasker");
  await page.getByLabel("Plan", { exact: true }).selectOption("PRO");
  await page.getByText("1 contract", { exact: true }).waitFor();
  await expectAccessible(page);
  await page.reload();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByLabel("Search").fill("user-0");
  await page.getByText("9 contracts").waitFor();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export as CSV" }).click();
  const lines = readFileSync(await (await download).path(), "utf8").split("\r\n");
  expect(lines).toHaveLength(10);
  expect(lines[1]).toMatch(/^user-01,user-01,user-01@example.org,,,,tasker:1.0.0,tasker:FREE,,/);
  expect(own.complaints).toEqual([]);
});

test("several contracts are novated at once, with what each gains and loses beside it", async () => {
  const { page } = own;
  await page.getByLabel("Select user-01").check();
  await page.getByLabel("Select user-02").check();
  await page.getByRole("button", { name: "Novate 2 selected …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Plan: Tasker").selectOption("BUSINESS");
  await dialog.getByText("20 → 2,000").first().waitFor();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Novate" }).click();
  await page.getByText("2 contracts are novated.").waitFor();
  const novated = await own.call<{ subscriptionPlans: object }>("GET", "/contracts/user-02", undefined, own.key);
  expect(novated.subscriptionPlans).toEqual({ tasker: "BUSINESS" });
  expect(own.complaints).toEqual([]);
});

test("a bulk novation shows the outcome of each contract and retries the rest", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  await page.getByLabel("Select user-03").check();
  await page.getByLabel("Select user-04").check();
  await page.getByRole("button", { name: "Novate 2 selected …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Plan: Tasker").selectOption("PRO");
  await dialog.getByRole("row", { name: "user-04 not yet" }).waitFor();
  await own.call("DELETE", "/contracts/user-03", undefined, own.key);
  await dialog.getByRole("button", { name: "Novate", exact: true }).click();
  await dialog.getByText("1 could not be novated: see below why.").waitFor();
  await dialog.getByRole("row", { name: /^user-03 not novated .*not found/ }).waitFor();
  await dialog.getByRole("row", { name: "user-04 novated" }).waitFor();
  await expectAccessible(page);
  await own.contract("user-03", "FREE");
  await dialog.getByRole("button", { name: "Novate the other 1" }).click();
  await page.getByText("2 contracts are novated.").waitFor();
  await expect.poll(() => dialog.count()).toBe(0);
  const novated = await own.call<{ subscriptionPlans: object }>("GET", "/contracts/user-03", undefined, own.key);
  expect(novated.subscriptionPlans).toEqual({ tasker: "PRO" });
  expect(own.complaints.splice(0)).toEqual([expect.stringContaining("404")]);
});

test("a contract shows its features and limits, their origin, and their usage", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  const given = page.getByRole("region", { name: "tasker 1.0.0" });
  await expect.poll(() => given.getByRole("row", { name: /maxTasks/ }).textContent()).toMatch(/300.*add-on extraTasks/);
  await expect.poll(() => given.getByRole("row", { name: /darkMode/ }).textContent()).toMatch(/yes.*plan PRO/i);
  await expect.poll(() => given.getByRole("row", { name: /sla/ }).textContent()).toMatch(/99%.*default/);
  await page.getByText("270 of 300").waitFor();
  await page.getByText("near the limit").waitFor();
  await page.getByText(/anew in \d+ days/).waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("usage is reset, a plan is changed after a preview, and the history lists the change", async () => {
  const { page } = own;
  await page.getByRole("button", { name: "Adjust …" }).click();
  await page.getByLabel("Amount to add").fill("-70");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("200 of 300").waitFor();
  await page.getByLabel("Add-on extraTasks, quantity").fill("9");
  await page.getByText(/quantity 9 is not valid/).waitFor();
  await page.getByLabel("Add-on extraTasks, quantity").fill("0");
  await page.getByLabel("Plan: Tasker").selectOption("BUSINESS");
  await page.getByText("300 → 2,000").waitFor();
  await page.getByRole("button", { name: "Novate" }).click();
  await page.getByText("200 of 2,000").waitFor();
  await expect.poll(() => page.locator(".timeline li").count()).toBe(2);
  await expect.poll(() => page.locator(".timeline li").last().textContent()).toContain("PRO");
  await page.getByRole("button", { name: "Extend by 30 days" }).click();
  await page.getByText("The billing period is changed.").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a contract and its evaluations are shown read-only at a past moment", async () => {
  const { page } = own;
  const local = new Date(past.getTime() - past.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  await page.getByLabel("As of", { exact: true }).fill(local);
  await page.getByRole("button", { name: "Show that moment" }).click();
  await page.getByText("270 of 300").waitFor();
  await page.getByText(/since .* by its creation\. It was over at/).waitFor();
  for (const name of ["Novate", "Adjust …", "Delete contract …"]) {
    await expect.poll(() => page.getByRole("button", { name }).count(), { message: name }).toBe(0);
  }
  await expectAccessible(page);
  await page.getByRole("link", { name: "See why a feature is on or off" }).click();
  await page.getByText("true && 270 < 300").waitFor();
  await page.getByRole("button", { name: "Ask the server" }).click();
  await page.getByText('"asOf"').waitFor();
  await page
    .getByText(`at=${encodeURIComponent(past.toISOString())}`)
    .first()
    .waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Back to now" }).click();
  await page.getByText("true && 200 < 2000").waitFor();
  expect(own.complaints).toEqual([]);
});

test("the pages report that a past moment's version has been deleted", async () => {
  const { page } = own;
  const newer = own
    .sample("tasker")
    .replace('version: "1.0.0"', 'version: "2.0.0"')
    .replace("2025-03-01", "2025-09-01");
  await own.upload(newer, "Tasker");
  const archive = "/services/Tasker/pricings/1.0.0";
  await own.call("PUT", `${archive}?availability=archived`, { subscriptionPlan: "FREE" }, own.key);
  await own.call("DELETE", archive, undefined, own.key);
  await own.open(`/contracts/ada?at=${encodeURIComponent(past.toISOString())}`, "ada");
  await page.getByText("Version 1.0.0 of tasker has been deleted since").waitFor();
  await page.getByText("270 of").waitFor();
  await expect.poll(() => page.getByRole("status", { name: "Loading" }).count()).toBe(0);
  await expectAccessible(page);
  await page.getByRole("link", { name: "See why a feature is on or off" }).click();
  await page.getByText("Version 1.0.0 of tasker has been deleted since").waitFor();
  expect(new Set(own.complaints.splice(0))).toEqual(new Set([expect.stringContaining("404")]));
});

test("the history of a contract that an archiving moved shows both versions with their times and causes", async () => {
  const { page } = own;
  await own.open("/contracts/user-20", "user-20");
  const states = page.locator(".timeline li");
  await expect.poll(() => states.count()).toBe(2);
  await expect
    .poll(() => states.first().textContent())
    .toMatch(/– nowMoved because a version was archived.*2\.0\.0 FREE/);
  await expect.poll(() => states.last().textContent()).toMatch(/Created.*1\.0\.0 FREE/);
  const { asOf } = await own.call<{ asOf: { since: string } }>(
    "GET",
    `/contracts/user-20?at=${encodeURIComponent((await states.first().locator("time").getAttribute("datetime")) ?? "")}`,
    undefined,
    own.key,
  );
  expect(await states.last().locator("time").last().getAttribute("datetime")).toBe(asOf.since);
  await expectAccessible(page);
  await own.open(`/contracts/user-20?at=${encodeURIComponent(past.toISOString())}`, "user-20");
  await expect.poll(() => states.allTextContents()).toEqual([expect.stringMatching(/Created.*1\.0\.0 FREE/)]);
  await page.getByText("Version 1.0.0 of tasker has been deleted since").waitFor();
  expect(new Set(own.complaints.splice(0))).toEqual(new Set([expect.stringContaining("404")]));
});

test("an ADMIN contracts a user by hand, and types the user's id to delete the contract", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  await page.getByRole("link", { name: "New contract" }).first().click();
  await page.getByLabel("User id").fill("bob@example.org");
  await page.getByLabel("Version: Tasker").selectOption("2.0.0");
  await page.getByLabel("Plan: Tasker").selectOption("FREE");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Create contract" }).click();
  await page.getByRole("heading", { level: 1, name: "bob@example.org" }).waitFor();
  await page.getByRole("button", { name: "Delete contract …" }).click();
  await page.getByLabel("Type bob@example.org to confirm").fill("bob@example.org");
  await page.getByRole("dialog").getByRole("button", { name: "Delete contract …" }).click();
  await page.getByRole("heading", { level: 1, name: "Contracts" }).waitFor();
  await page.getByText("25 contracts").waitFor();
  expect(own.complaints).toEqual([]);
});
