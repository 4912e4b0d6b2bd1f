import { readFileSync } from "node:fs";
import type { Locator } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { useConsole, expectAccessible, expectComplaints } from "./console.ts";

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
  await page.getByRole("button", { name: "Sort by Person" }).click();
  await page.getByRole("link", { name: "user-24" }).waitFor();
  await expect.poll(() => page.url()).toContain("order=desc");
  await page.getByRole("button", { name: "Service", exact: true }).click();
  await page.getByRole("menuitem", { name: "Tasker" }).click();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  await page.getByRole("menuitem", { name: "PRO" }).click();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await expectAccessible(page);
  await page.reload();
  await page.getByText("1 contract", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  const search = page.getByLabel("Name, id or email");
  await search.fill("24@example");
  await page.getByText("1 contract", { exact: true }).waitFor();
  await search.fill("user-0");
  await page.getByText("9 contracts").waitFor();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  const lines = readFileSync(await (await download).path(), "utf8").split("\r\n");
  expect(lines).toHaveLength(10);
  expect(lines[1]).toMatch(/^user-01,user-01,user-01@example.org,,,,tasker:1.0.0,tasker:FREE,,/);
  expect(own.complaints).toEqual([]);
});

test("several contracts are novated at once, with what each gains and loses beside it", async () => {
  const { page } = own;
  await page.getByLabel("Select user-01").check();
  await page.getByLabel("Select user-02").check();
  await page.getByText("2 selected").waitFor();
  await page.getByRole("button", { name: "Change plan" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: /^BUSINESS/ }).check();
  await dialog
    .getByRole("listitem")
    .filter({ hasText: /Max tasks.*20.*2,000/ })
    .first()
    .waitFor();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Change plan" }).click();
  await page.getByText("2 contracts changed").waitFor();
  const novated = await own.call<{ subscriptionPlans: object }>("GET", "/contracts/user-02", undefined, own.key);
  expect(novated.subscriptionPlans).toEqual({ tasker: "BUSINESS" });
  expect(own.complaints).toEqual([]);
});

test("a bulk novation shows the outcome of each contract and retries the rest", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  await page.getByLabel("Select user-03").check();
  await page.getByLabel("Select user-04").check();
  await page.getByRole("button", { name: "Change plan" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: /^PRO/ }).check();
  await dialog.getByRole("row", { name: "user-04 Not yet" }).waitFor();
  await own.call("DELETE", "/contracts/user-03", undefined, own.key);
  await dialog.getByRole("button", { name: "Change plan", exact: true }).click();
  await dialog.getByText("1 could not be changed. The reason is below.").waitFor();
  await dialog.getByRole("row", { name: /^user-03 Not changed .*not found/ }).waitFor();
  await dialog.getByRole("row", { name: "user-04 Changed" }).waitFor();
  await expectAccessible(page);
  await own.contract("user-03", "FREE");
  await dialog.getByRole("button", { name: "Change the other one" }).click();
  await page.getByText("2 contracts changed").waitFor();
  await expect.poll(() => dialog.count()).toBe(0);
  const novated = await own.call<{ subscriptionPlans: object }>("GET", "/contracts/user-03", undefined, own.key);
  expect(novated.subscriptionPlans).toEqual({ tasker: "PRO" });
  await expectComplaints(own, "404");
});

test("a contract shows plan, price, period, usage, and why each feature is on or off", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  const fact = (name: string) => page.locator(".fact", { hasText: name });
  await expect.poll(() => fact("Plan").textContent()).toMatch(/PRO.*Extra tasks, tasker 1\.0\.0/);
  await expect.poll(() => fact("Price").textContent()).toContain("€8.00");
  await page.getByText("270 of 300").waitFor();
  await page.getByText("Near the limit").waitFor();
  await page.getByText(/Resets in \d+ days/).waitFor();
  await page.getByText(/^Updated/).waitFor();
  const row = (name: string) => page.getByRole("button", { name });
  await expect.poll(() => row("Dark mode").textContent()).toMatch(/PRO.*On/);
  await row("Export").click();
  await page.getByText("PRO does not include Export.").waitFor();
  await page.getByText("Change to BUSINESS").waitFor();
  await page.getByLabel("Find a feature").fill("availability");
  await expect.poll(() => page.locator(".ent").count()).toBe(1);
  await page.getByLabel("Find a feature").fill("");
  await page.getByRole("radio", { name: "Off 2" }).check();
  await expect.poll(() => page.locator(".ent").count()).toBe(2);
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("usage is given back, and a plan is changed beside its price, gains and losses", async () => {
  const { page } = own;
  await page.getByRole("button", { name: "Adjust Max tasks" }).click();
  await page.getByLabel("Amount to add").fill("-70");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("200 of 300").waitFor();
  await page.getByRole("button", { name: "Change plan" }).first().click();
  const sheet = page.getByRole("dialog", { name: "Change plan" });
  const move = sheet.getByRole("button", { name: /^Move to/ });
  expect(await move.isDisabled()).toBe(true);
  await sheet.getByLabel("Extra tasks", { exact: true }).fill("9");
  await sheet.getByText(/quantity 9 is not valid/).waitFor();
  await sheet.getByText("This combination is not possible.").waitFor();
  expect(await move.isDisabled()).toBe(true);
  await sheet.getByLabel("Extra tasks", { exact: true }).fill("0");
  await sheet.getByRole("radio", { name: /^BUSINESS/ }).check();
  await sheet
    .getByRole("listitem")
    .filter({ hasText: /Max tasks.*300.*2,000/ })
    .waitFor();
  await sheet.getByText("ada loses nothing").waitFor();
  await sheet.getByText("+€4.00").waitFor();
  await expectAccessible(page);
  await sheet.getByRole("button", { name: "Move to BUSINESS, €8.00 → €12.00" }).click();
  await page.getByText("ada is on BUSINESS").waitFor();
  await page.getByText("200 of 2,000").waitFor();
  await page.getByRole("tab", { name: "History" }).click();
  await expect.poll(() => page.locator(".timeline li").count()).toBe(2);
  await expect.poll(() => page.locator(".timeline li").last().textContent()).toContain("PRO");
  await page.getByRole("tab", { name: "Billing and contact" }).click();
  await page.getByRole("button", { name: /^Extend to \d+ \w+ \d{4}$/ }).click();
  await page.getByText("Billing period changed").waitFor();
  expect(own.complaints).toEqual([]);
});

test("contact data is changed and emptied, and a contract keeps its username", async () => {
  const { page } = own;
  const save = async (label: string, text: string, answer: string) => {
    await page.getByLabel(label, { exact: true }).fill(text);
    await page.keyboard.press("Enter");
    await page.getByText(answer).last().waitFor();
  };
  const firstName = async () => {
    const read = own.call<{ userContact: { firstName?: string } }>("GET", "/contracts/ada", undefined, own.key);
    return (await read).userContact.firstName;
  };
  await save("First name", "Augusta", "Contact saved");
  expect(await firstName()).toBe("Augusta");
  await save("First name", "", "Contact saved");
  await expect.poll(firstName).toBe("");
  await save("Username", "", "The username field cannot be empty");
  await expectComplaints(own, "422");
});

test("a downgrade names what is lost, and happens only after a second look", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("button", { name: "Change plan" }).first().click();
  const sheet = page.getByRole("dialog", { name: "Change plan" });
  await sheet.getByRole("radio", { name: /^FREE/ }).check();
  await sheet.getByText("Max tasks: 200 used, of 20 afterwards").waitFor();
  await sheet.getByRole("button", { name: /^Move to FREE/ }).click();
  const question = page.getByRole("dialog", { name: "Move ada to FREE?" });
  await question.getByText(/^ada gets less of \d things at once\.$/).waitFor();
  await expectAccessible(page);
  await question.getByRole("button", { name: "Stay on BUSINESS" }).click();
  const discard = page.getByRole("dialog", { name: "Discard your changes?" });
  await page.keyboard.press("Escape");
  await discard.waitFor();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await expect.poll(() => discard.count()).toBe(0);
  expect(await sheet.getByRole("radio", { name: /^FREE/ }).isChecked()).toBe(true);
  await page.keyboard.press("Escape");
  await discard.getByRole("button", { name: "Discard" }).click();
  await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  const { subscriptionPlans } = await own.call<{ subscriptionPlans: object }>(
    "GET",
    "/contracts/ada",
    undefined,
    own.key,
  );
  expect(subscriptionPlans).toEqual({ tasker: "BUSINESS" });
  expect(own.complaints).toEqual([]);
});

test("a write whose answer is lost is not repeated blindly: the page reloads and says if something changed", async () => {
  const { page } = own;
  const end = async () =>
    (await own.call<{ billingPeriod: { endDate: string } }>("GET", "/contracts/ada", undefined, own.key)).billingPeriod
      .endDate;
  const before = await end();
  await own.open("/contracts/ada?tab=billing", "ada");
  const extend = page.getByRole("button", { name: /^Extend to/ });
  const label = await extend.textContent();
  // The server carries the change out, and its answer never arrives.
  await page.route(/billingPeriod/, async (route) => {
    await route.fetch();
    await route.abort();
  });
  await extend.click();
  await page.getByText("What is shown has changed since: check it before you try again.").first().waitFor();
  const after = await end();
  expect(Date.parse(after) - Date.parse(before)).toBe(30 * 86_400_000);
  await expect.poll(() => extend.textContent()).not.toBe(label);
  await page.unroute(/billingPeriod/);
  // The server never receives this one.
  await page.route(/usageLevels/, (route) => route.abort());
  await page.getByRole("button", { name: "Adjust Max tasks" }).click();
  await page.getByLabel("Amount to add").fill("5");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("The connection was lost, and nothing was changed. Try again.").first().waitFor();
  await page.unroute(/usageLevels/);
  await page.getByRole("button", { name: "Close" }).click();
  expect(await end()).toBe(after);
  // Each of the two calls that failed.
  await expect.poll(() => own.complaints.length).toBeGreaterThanOrEqual(2);
  expect(own.complaints.splice(0).every((complaint) => complaint.includes("ERR_FAILED"))).toBe(true);
});

test("people, actions and pages are found in one place by keyboard", async () => {
  const { page } = own;
  await own.open("/services", "Services");
  await page.keyboard.press("Control+K");
  const palette = page.getByRole("dialog", { name: "Search or jump to" });
  await palette.getByRole("option", { name: "Guardrails" }).waitFor();
  await expectAccessible(page);
  await page.keyboard.type("user-07");
  await palette.getByRole("option", { name: /^user-07/ }).waitFor();
  await palette.getByRole("option", { name: "Change the plan of user-07" }).click();
  await page.getByRole("dialog", { name: "Change plan" }).getByText("user-07, FREE").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { level: 1, name: "user-07" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("a contract and its evaluations are shown read-only at a past moment", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  const local = new Date(past.getTime() - past.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Show as of a date" }).click();
  await page.getByLabel("As of", { exact: true }).fill(local);
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByText("270 of 300").waitFor();
  await page.getByText(/since .* by its creation\. It changed on/).waitFor();
  for (const name of ["Change plan", "Adjust Max tasks"]) {
    await expect.poll(() => page.getByRole("button", { name }).count(), { message: name }).toBe(0);
  }
  await expectAccessible(page);
  await page.getByRole("link", { name: "Check access" }).last().click();
  await page.getByText("true && 270 < 300").waitFor();
  await page.getByRole("button", { name: "Check on the server" }).click();
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
  await page.getByText("Version 1.0.0 of tasker was deleted.").first().waitFor();
  await page.getByText(/^270/).first().waitFor();
  await expect.poll(() => page.getByRole("status", { name: "Loading" }).count()).toBe(0);
  await expectAccessible(page);
  await page.getByRole("link", { name: "Check access" }).last().click();
  await page.getByText("Version 1.0.0 of tasker was deleted.").first().waitFor();
  // The browser complains on its own time.
  await expect.poll(() => own.complaints.length).toBeGreaterThan(0);
  expect(new Set(own.complaints.splice(0))).toEqual(new Set([expect.stringContaining("404")]));
});

test("the history of a contract that an archiving moved shows both versions with their times and causes", async () => {
  const { page } = own;
  await own.open("/contracts/user-20?tab=history", "user-20");
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
  await own.open(`/contracts/user-20?tab=history&at=${encodeURIComponent(past.toISOString())}`, "user-20");
  await expect.poll(() => states.allTextContents()).toEqual([expect.stringMatching(/Created.*1\.0\.0 FREE/)]);
  await expect.poll(() => own.complaints.length).toBeGreaterThan(0);
  expect(new Set(own.complaints.splice(0))).toEqual(new Set([expect.stringContaining("404")]));
});

test("a contract shows the calls about its user", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("tab", { name: "API" }).click();
  await page.getByText("/features/ada/tasker-board").waitFor();
  await page.getByText("/features/ada -H 'x-api-key: YOUR_KEY'").waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

const reasonOf = async (button: Locator): Promise<string | null> => {
  const id = (await button.getAttribute("aria-describedby")) ?? "nothing";
  return own.page.locator(`[id="${id}"]`).textContent();
};

test("an ADMIN contracts a user by hand, and types the user's id to delete the contract", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  await page.getByRole("link", { name: "New contract" }).first().click();
  const create = page.getByRole("button", { name: "Create contract" });
  // The only service is there from the start, on its newest version.
  await expect.poll(() => page.getByLabel("Version: Tasker").inputValue()).toBe("2.0.0");
  expect(await create.isDisabled()).toBe(true);
  await expect.poll(() => reasonOf(create)).toBe("Choose a plan of Tasker.");
  await page.getByLabel("Version: Tasker").selectOption("Not included");
  await expect.poll(() => reasonOf(create)).toBe("Choose what they buy.");
  await page.getByRole("button", { name: "Add Tasker" }).click();
  await page.getByLabel("Version: Tasker").selectOption("2.0.0 (newest)");
  await expectAccessible(page);
  await page.getByRole("radio", { name: /^FREE/ }).check();
  await page.getByLabel("Begin with a trial of this plan").check();
  await expect.poll(() => reasonOf(create)).toBe("After the trial: Choose a plan of Tasker.");
  await page.getByLabel("Begin with a trial of this plan").uncheck();
  await expect.poll(() => create.isEnabled()).toBe(true);
  await page.getByLabel("User id").fill("bob@example.org");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Create contract" }).click();
  await page.getByRole("heading", { level: 1, name: "bob@example.org" }).waitFor();
  await own.open("/new-contract", "New contract");
  await page.getByLabel("User id").fill("bob@example.org");
  await page.getByLabel("Version: Tasker").selectOption("2.0.0");
  await page.getByRole("radio", { name: /^FREE/ }).check();
  await page.getByRole("button", { name: "Create contract" }).click();
  await page.getByRole("alert").getByText("Contract for user bob@example.org already exists").waitFor();
  await page.getByRole("link", { name: "Open the contract of bob@example.org" }).click();
  await page.getByRole("heading", { level: 1, name: "bob@example.org" }).waitFor();
  await expectComplaints(own, "409");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete contract" }).click();
  await page.getByText(/loses 1 feature at once/).waitFor();
  await page.getByLabel("Type bob@example.org to confirm").fill("bob@example.org");
  await page.getByRole("dialog").getByRole("button", { name: "Delete contract" }).click();
  await page.getByRole("heading", { level: 1, name: "Contracts" }).waitFor();
  await page.getByText("25 contracts").waitFor();
  expect(own.complaints).toEqual([]);
});

test("with several services, a new contract asks what they buy and adds each on its newest version", async () => {
  const { page } = own;
  await own.upload(own.sample("beacon"));
  await own.open("/new-contract", "New contract");
  const create = page.getByRole("button", { name: "Create contract" });
  await page.getByRole("button", { name: "Add Beacon" }).waitFor();
  await expect.poll(() => reasonOf(create)).toBe("Choose what they buy.");
  await page.getByRole("button", { name: "Add Tasker" }).click();
  const version = page.getByLabel("Version: Tasker");
  await expect.poll(() => version.inputValue()).toBe("2.0.0");
  await expect.poll(() => version.evaluate((element) => element === document.activeElement)).toBe(true);
  await expect.poll(() => reasonOf(create)).toBe("Choose a plan of Tasker.");
  await page.getByRole("radio", { name: /^FREE/ }).check();
  await expect.poll(() => create.isEnabled()).toBe(true);
  await page.getByLabel("User id").fill("carol");
  await create.click();
  await page.getByRole("heading", { level: 1, name: "carol" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("a service that somebody deletes right after a page opened leaves its list and the choice", async () => {
  const { page } = own;
  await own.upload(own.sample("tasker").replace("saasName: Tasker", "saasName: Gone"));
  await own.open("/new-contract", "New contract");
  await page.getByRole("button", { name: "Add Gone" }).click();
  const version = page.getByLabel("Version: Gone");
  await version.waitFor();
  await own.call("DELETE", "/services/Gone", undefined, own.key);
  await version.waitFor({ state: "detached" });
  await expect
    .poll(() => reasonOf(page.getByRole("button", { name: "Create contract" })))
    .toBe("Choose what they buy.");
  // The page asks for the deleted service once more.
  expect(own.complaints.splice(0).every((each) => each.includes("404"))).toBe(true);
});

test("the address of a page that the list has no longer leads to its last one", async () => {
  const { page } = own;
  await page.goto(`${own.url}/o/${own.organizationId}/contracts?page=99`);
  await page.getByRole("row").nth(1).waitFor();
  await expect.poll(() => new URL(page.url()).search).toBe("?page=2");
  await page.goto(`${own.url}/organizations?page=99`);
  await page.getByRole("row", { name: /Tasker Inc\./ }).waitFor();
  await page.goto(`${own.url}/users?page=99`);
  await page.getByRole("row", { name: /admin/ }).waitFor();
});

test("selecting all contracts of a page keeps those that are selected on another", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  const all = page.getByLabel("Select all on this page");
  const selected = (number: number) => page.getByText(`${number} selected`).waitFor();
  await all.check();
  const shown = async () => (await page.getByRole("table").getByRole("checkbox").count()) - 1;
  const first = await shown();
  await selected(first);
  await page.getByRole("button", { name: "Next" }).click();
  await expect.poll(() => all.isChecked()).toBe(false);
  await all.check();
  await selected(first + (await shown()));
  await all.uncheck();
  await selected(first);
});

test("services are listed as people sort them, whatever their case", async () => {
  const { page } = own;
  for (const name of ["Zoo", "ärger", "beta"])
    await own.upload(own.sample("tasker").replace("saasName: Tasker", `saasName: ${name}`));
  await own.open("/services", "Services");
  await page.getByRole("link", { name: "Zoo" }).waitFor();
  const names = await page.getByRole("main").getByRole("rowheader").allInnerTexts();
  const ours = names.filter((name) => ["Zoo", "ärger", "beta"].includes(name));
  expect(ours).toEqual(["ärger", "beta", "Zoo"]);
});

describe("with more services than fit on a page of the API", () => {
  const many = useConsole({ environment: { PAGE_LIMIT: "10" } });
  beforeAll(async () => {
    for (let number = 1; number <= 25; number += 1) {
      const name = `Service${String(number).padStart(2, "0")}`;
      await many.upload(many.sample("tasker").replace("saasName: Tasker", `saasName: ${name}`));
    }
  });

  test("a new contract and a change of plan find each one by typing, and count those that are not shown", async () => {
    const { page } = many;
    await many.open("/new-contract", "New contract");
    const add = page.getByRole("button", { name: /^Add Service/ });
    await expect.poll(() => add.count()).toBe(8);
    const isFocused = (element: Locator) => element.evaluate((each) => each === document.activeElement);
    await page.getByRole("button", { name: "Show 8 more" }).click();
    expect(await isFocused(page.getByRole("button", { name: "Add Service09" }))).toBe(true);
    await page.getByRole("button", { name: "Show 8 more" }).click();
    await page.getByRole("button", { name: "Show 1 more" }).press("Enter");
    await expect.poll(() => add.count()).toBe(25);
    expect(await isFocused(page.getByRole("button", { name: "Add Service25" }))).toBe(true);
    const search = page.getByLabel("Find a service");
    await search.fill("nothing");
    await page.getByText("No services match.").waitFor();
    await search.fill("SERVICE2");
    await expect.poll(() => add.count()).toBe(6);
    await search.press("Enter");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Add Service25" }).click();
    const version = page.getByLabel("Version: Service25");
    await expect.poll(() => isFocused(version)).toBe(true);
    await search.fill("nothing");
    await version.selectOption("Not included");
    await expect.poll(() => isFocused(page.getByRole("button", { name: "Add Service25" }))).toBe(true);
    await page.keyboard.press("Enter");
    await expect.poll(() => isFocused(version)).toBe(true);
    await search.fill("");
    await page.getByRole("radio", { name: /^FREE/ }).check();
    await page.getByLabel("User id").fill("carol");
    await page.getByRole("button", { name: "Create contract" }).click();
    await page.getByRole("heading", { level: 1, name: "carol" }).waitFor();
    await page.getByRole("button", { name: "Change plan" }).first().click();
    const sheet = page.getByRole("dialog", { name: "Change plan" });
    await sheet.getByRole("radio", { name: /^PRO/ }).waitFor();
    await sheet.getByLabel("Find a service").fill("service17");
    await sheet.getByRole("button", { name: "Add Service17" }).waitFor();
    await expect.poll(() => sheet.getByRole("button", { name: /^Add Service/ }).count()).toBe(1);
    await expectAccessible(page);
    // Escape clears the search, which is nothing to keep, and then closes the sheet.
    await page.keyboard.press("Escape");
    await expect.poll(() => sheet.getByLabel("Find a service").inputValue()).toBe("");
    await page.keyboard.press("Escape");
    await expect.poll(() => sheet.count()).toBe(0);
    await many.open("/services?page=2", "Services");
    await page.getByRole("link", { name: "Service25" }).waitFor();
    expect(many.complaints).toEqual([]);
  });
});
