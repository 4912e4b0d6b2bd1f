import { beforeAll, expect, test } from "vitest";
import { PASSWORD, useConsole, expectAccessible, expectComplaints } from "./console.ts";

const own = useConsole();

/** A successor that removes dark mode from PRO, raises its tasks, and drops the FREE plan. */
const next = (version: string, createdAt: string) =>
  own
    .sample("tasker")
    .replace('version: "1.0.0"', `version: "${version}"`)
    .replace("2025-03-01", createdAt)
    .replace("value: 200\n", "value: 500\n")
    .replace(/ {6}darkMode:\n {8}value: true\n/, '      sla:\n        value: "99.9%"\n')
    .replace(/ {2}FREE:\n(?: {4}.*\n)+/, "");

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.upload(next("2.0.0", "2025-09-01"), "Tasker");
  await own.contract("ada", "PRO", { extraTasks: 1 });
  for (const user of ["bob", "carol", "dave"]) await own.contract(user, "FREE");
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 7 } }, own.key);
});

const contractNow = async (userId: string) =>
  own.call<Record<string, object>>("GET", `/contracts/${userId}`, undefined, own.key);

async function setGate(rules: readonly object[]): Promise<void> {
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  await own.call("PUT", `/organizations/${own.organizationId}/gate`, { rules }, apiKey);
}

/** Expects no horizontal scrolling at a phone's width. */
async function expectNarrow(): Promise<void> {
  const { page } = own;
  await page.setViewportSize({ width: 375, height: 700 });
  await expect
    .poll(() => page.evaluate(() => document.documentElement.scrollWidth), { message: page.url() })
    .toBeLessThanOrEqual(375);
  await page.setViewportSize({ width: 1280, height: 800 });
}

test("two versions are compared by what each configuration gains and loses, and the step of the version is judged", async () => {
  const { page } = own;
  await own.open("/services/Tasker", "Tasker");
  await page.getByRole("link", { name: "Compare", exact: true }).click();
  await page.getByLabel("From").selectOption("1.0.0");
  await page.getByLabel("To", { exact: true }).selectOption("2.0.0");
  const matrix = page.getByRole("region", { name: "Gains and losses per configuration" });
  await matrix.waitFor();
  await expect.poll(() => matrix.getByRole("columnheader").allTextContents()).toEqual(["What", "PRO"]);
  await expect.poll(() => matrix.getByRole("row", { name: /maxTasks/ }).textContent()).toMatch(/200 → 500 *More/);
  await expect.poll(() => matrix.getByRole("row", { name: /darkMode/ }).textContent()).toMatch(/on → off *Less/);
  await expect.poll(() => matrix.getByRole("row", { name: /sla/ }).textContent()).toMatch(/99% → 99.9% *Needs review/);
  const rest = page.getByRole("region", { name: "What else the file says" });
  await expect.poll(() => rest.getByRole("row", { name: /FREE/ }).textContent()).toMatch(/plan *removed *Less/);
  await page.getByText("These changes need a major step, such as 2.0.0. 2.0.0 is enough.").waitFor();
  await page.getByText("4 contracts are on 1.0.0.").waitFor();
  await expectNarrow();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("archiving first shows the affected contracts, each group's best fit, and the gains and losses of each alternative", async () => {
  const { page } = own;
  await own.open("/services/Tasker", "Tasker");
  await page.getByRole("link", { name: "Open version 1.0.0" }).click();
  await page.getByRole("link", { name: "Archive", exact: true }).click();
  await page.getByText("4 contracts in 2 groups. They move to version 2.0.0.").waitFor();
  const pro = page.locator("section", { has: page.getByRole("heading", { name: "PRO + extraTasks: 1 contract" }) });
  const free = page.locator("section", { has: page.getByRole("heading", { name: "FREE: 3 contracts" }) });
  // BUSINESS keeps dark mode, which PRO loses.
  const alternatives = pro.getByRole("radiogroup", { name: "Where PRO + extraTasks goes" });
  await expect.poll(() => alternatives.getByRole("radio", { name: /: BUSINESS$/ }).isChecked()).toBe(true);
  const business = alternatives.locator("label", { hasText: "BUSINESS" });
  await expect.poll(() => business.textContent()).toMatch(/Best fit.*€8\.00.*€12\.00/);
  await alternatives.getByRole("radio", { name: /: PRO$/ }).check();
  await pro
    .getByRole("listitem")
    .filter({ hasText: /Loses.*Dark mode/ })
    .waitFor();
  await page.getByText("Lose a feature: 1").first().waitFor();
  await pro
    .getByRole("listitem")
    .filter({ hasText: /Max tasks.*300.*600/ })
    .waitFor();
  await expect.poll(() => free.getByRole("radio", { name: "Where FREE goes: PRO" }).isChecked()).toBe(true);
  await free.getByRole("radio", { name: "Where FREE goes: PRO" }).focus();
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => free.getByRole("radio", { name: "Where FREE goes: BUSINESS" }).isChecked()).toBe(true);
  await free
    .getByRole("listitem")
    .filter({ hasText: /Max tasks.*20.*2,000/ })
    .waitFor();
  await free.getByLabel("Add-on extraTasks, quantity").fill("9");
  await free
    .getByText(/quantity 9 is not valid/)
    .first()
    .waitFor();
  await page.getByText("No plan fits: 3").first().waitFor();
  const archive = page.getByRole("button", { name: "Archive 1.0.0 and move 4 contracts" });
  await expect.poll(() => archive.isDisabled()).toBe(true);
  await free.getByLabel("Add-on extraTasks, quantity").fill("0");
  await expectNarrow();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("a broken rule blocks the confirmed change and is named, until an OWNER gives a reason", async () => {
  const { page } = own;
  await setGate([{ rule: "noFeatureLost" }, { rule: "nobodyAboveLimit" }]);
  const name = "Archive 1.0.0 and move 4 contracts";
  await page.getByRole("button", { name }).click();
  const dialog = page.getByRole("dialog");
  const confirm = dialog.getByRole("button", { name });
  await expect.poll(() => confirm.isDisabled()).toBe(true);
  await dialog.getByLabel("Type 1.0.0 to confirm").fill("1.0.0");
  await confirm.click();
  await dialog
    .getByText(/1 of 4 contracts \(25 %\) lose a feature/)
    .first()
    .waitFor();
  await expect
    .poll(() => dialog.getByRole("listitem").allTextContents())
    .toEqual([
      expect.stringMatching(/^Broken No contract loses a feature/),
      expect.stringMatching(/^Kept Nobody ends above a limit/),
    ]);
  await expect.poll(() => confirm.isDisabled()).toBe(true);
  await expectComplaints(own, "409");
  expect(await contractNow("ada")).toMatchObject({ contractedServices: { tasker: "1.0.0" } });
  await dialog.getByLabel("Reason").fill("Agreed with ada by telephone");
  await expectAccessible(page);
  await confirm.click();
  await page.getByText("1.0.0 archived, 4 contracts moved").waitFor();
  await page.getByText("Lose a feature: 1").waitFor();
  expect(await contractNow("ada")).toMatchObject({
    contractedServices: { tasker: "2.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
    usageLevels: { tasker: { maxTasks: { consumed: 0 } } },
  });
  expect(await contractNow("carol")).toMatchObject({
    subscriptionPlans: { tasker: "BUSINESS" },
    subscriptionAddOns: {},
  });
  expect(own.complaints).toEqual([]);
});

test("an ADMIN reviews the impact and activates an archived version again", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Back to the service" }).click();
  await page.getByRole("link", { name: "Open version 1.0.0" }).click();
  await page.getByRole("link", { name: "Activate" }).click();
  await page.getByText("Nothing changes for any of them.").waitFor();
  await page.getByRole("row", { name: /BUSINESS.*2\.0\.0.*3/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Activate 1.0.0" }).click();
  await page.getByLabel("Type 1.0.0 to confirm").fill("1.0.0");
  await page.getByRole("dialog").getByRole("button", { name: "Activate 1.0.0" }).click();
  await page.getByText("1.0.0 is active again").waitFor();
  expect(own.complaints).toEqual([]);
});

test("the service keeps each decision with its impact report, the broken rules and the override's reason", async () => {
  const { page } = own;
  await own.open("/services/Tasker", "Tasker");
  await page.getByRole("button", { name: "More actions" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("menuitem", { name: "Past changes" }).click();
  await page.getByRole("heading", { level: 1, name: "Past changes of Tasker" }).waitFor();
  await page
    .getByText(/^By admin, /)
    .first()
    .waitFor();
  const titles = page.getByRole("main").getByRole("heading", { level: 2 });
  await expect.poll(() => titles.allTextContents()).toEqual(["Activate Tasker 1.0.0", "Archive Tasker 1.0.0"]);
  const archived = page.locator("section", { has: page.getByRole("heading", { name: "Archive Tasker 1.0.0" }) });
  await archived.getByText("4 contracts in 2 groups. They move to version 2.0.0.").waitFor();
  await archived.getByText("Lose a feature: 1").waitFor();
  await archived
    .getByRole("listitem")
    .filter({ hasText: /^Broken No contract loses a feature/ })
    .waitFor();
  await archived.getByText("Agreed with ada by telephone").waitFor();
  await archived.getByText("Where they went, by group (2)").focus();
  await page.keyboard.press("Enter");
  await archived.getByRole("row", { name: "1.0.0 FREE BUSINESS 3" }).waitFor();
  await expectNarrow();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("users with permission edit the gate's rules, everybody else reads them", async () => {
  const { page } = own;
  await own.open("/gate", "Guardrails");
  await page.getByRole("button", { name: "Remove: Nobody ends above a limit" }).click();
  await page.getByText("Guardrails saved").waitFor();
  const form = page.getByRole("form", { name: "Add a guardrail" });
  await form.getByLabel("Rule").selectOption("Nobody pays more");
  await form.getByLabel("Ignore rises up to this percentage").fill("5");
  await form.getByLabel("Allow up to this percentage of contracts").fill("2.5");
  await expectNarrow();
  await expectAccessible(page);
  await form.getByRole("button", { name: "Add guardrail" }).click();
  const row = page.getByRole("row", { name: /Nobody pays more/ });
  await expect.poll(() => row.textContent()).toMatch(/by more than 5%.*2.5% of contracts/);
  await expect.poll(() => page.getByRole("row").count()).toBe(3);
  // ada needs a dearer plan to keep her features.
  await setGate([{ rule: "noPriceRise" }]);
  await page.reload();
  await page.getByRole("row", { name: /Nobody pays more.*All.*Nobody/ }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("a MANAGER sees the broken rule and cannot override it", async () => {
  const { page } = own;
  const manager = await own.call<{ apiKey: string }>("POST", "/users", { username: "mia", password: PASSWORD });
  expect(manager.apiKey).toMatch(/^usr_/);
  const admin = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  const member = { username: "mia", role: "MANAGER" };
  await own.call("POST", `/organizations/${own.organizationId}/members`, member, admin.apiKey);
  await page.context().clearCookies();
  await own.signIn("mia");
  await own.open("/gate", "Guardrails");
  await page.getByRole("row", { name: /Nobody pays more/ }).waitFor();
  await expect.poll(() => page.getByRole("button", { name: "Add guardrail" }).count()).toBe(0);
  await own.open("/services/Tasker/archive/2.0.0", "Archive Tasker 2.0.0");
  await page.getByText("This breaks guardrails of the organization.").waitFor();
  await page.getByRole("button", { name: /^Archive 2\.0\.0/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Only an owner can go ahead").waitFor();
  await dialog.getByLabel("Type 2.0.0 to confirm").fill("2.0.0");
  await expect.poll(() => dialog.getByRole("button", { name: /^Archive 2\.0\.0/ }).isDisabled()).toBe(true);
  await expect.poll(() => dialog.getByLabel("Reason").count()).toBe(0);
  await expectAccessible(page);
  await page.context().clearCookies();
  await own.signIn();
  await setGate([]);
  expect(own.complaints).toEqual([]);
});

test("the filtered list of contracts leads to novating all contracts of a version in one step", async () => {
  const { page } = own;
  await own.open("/contracts?service=Tasker&version=2.0.0", "Contracts");
  await page.getByText("4 contracts").waitFor();
  await page.getByRole("link", { name: "Move all of Tasker 2.0.0" }).click();
  await page.getByText("They move to version 1.0.0. Usage stays counted.").waitFor();
  await expect.poll(() => page.getByLabel("To version").inputValue()).toBe("1.0.0");
  await expect.poll(() => page.getByRole("checkbox", { name: "2.0.0" }).isChecked()).toBe(true);
  await page.getByRole("heading", { name: "2.0.0, PRO + extraTasks: 1 contract" }).waitFor();
  await page.getByRole("radio", { name: "Where 2.0.0, BUSINESS goes: FREE" }).check();
  await page
    .getByRole("listitem")
    .filter({ hasText: /Loses.*Export/ })
    .waitFor();
  await expectAccessible(page);
  const move = "Move 4 contracts to 1.0.0";
  await page.getByRole("button", { name: move }).click();
  await page.getByLabel("Type 1.0.0 to confirm").fill("1.0.0");
  await page.getByRole("dialog").getByRole("button", { name: move }).click();
  await page.getByText("4 contracts moved to 1.0.0").first().waitFor();
  expect(await contractNow("dave")).toMatchObject({
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "FREE" },
  });
  expect(await contractNow("ada")).toMatchObject({ contractedServices: { tasker: "1.0.0" } });
  await page.getByRole("link", { name: "See the contracts" }).click();
  await page.getByText("4 contracts").waitFor();
  expect(own.complaints).toEqual([]);
});

test("the default target is the active version with the newest date, whatever the order of upload", async () => {
  const { page } = own;
  await own.upload(next("1.5.0", "2025-06-01"), "Tasker");
  await own.open("/services/Tasker/novate?from=1.0.0", "Move contracts of Tasker");
  await expect.poll(() => page.getByLabel("To version").inputValue()).toBe("2.0.0");
  const asked = { action: "novation", from: ["1.0.0"] };
  const impact = await own.call<{ targetVersion: string }>("POST", "/services/Tasker/impact", asked, own.key);
  expect(impact.targetVersion).toBe("2.0.0");
  await own.call("PUT", "/services/Tasker/pricings/1.5.0?availability=archived", { subscriptionPlan: "PRO" }, own.key);
  await own.call("DELETE", "/services/Tasker/pricings/1.5.0", undefined, own.key);
  expect(own.complaints).toEqual([]);
});

test("the wizard reports a chosen group that lost its last contract, and restarts", async () => {
  const { page } = own;
  await own.open("/services/Tasker/novate?from=1.0.0", "Move contracts of Tasker");
  await page.getByLabel("To version").selectOption("2.0.0");
  await page.getByText("4 contracts in 2 groups").waitFor();
  const [{ subscriptionPlans = {} }] = [await contractNow("ada")];
  const plan = (subscriptionPlans as Record<string, string>)["tasker"] ?? "";
  await page.getByRole("radio", { name: new RegExp(`^Where 1.0.0, ${plan}.* goes: PRO$`) }).check();
  // Wait for the choice's impact to load before the contract goes.
  const novate = page.getByRole("button", { name: /^Move 4 contracts/ });
  await expect.poll(() => novate.isEnabled()).toBe(true);
  await own.call("DELETE", "/contracts/ada", undefined, own.key);
  await novate.click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Type 2.0.0 to confirm").fill("2.0.0");
  await dialog.getByRole("button", { name: /^Move 4 contracts/ }).click();
  await dialog.getByText(/has a configuration that no contract has/).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("3 contracts in 1 group").waitFor();
  await expectComplaints(own, "400");
});

test("a version without contracts is archived and deleted", async () => {
  const { page } = own;
  await own.open("/services/Tasker", "Tasker");
  await page.getByRole("link", { name: "Open version 2.0.0" }).click();
  await page.getByRole("link", { name: "Archive", exact: true }).click();
  await page.getByText("No contracts are on this version.").waitFor();
  await page.getByRole("button", { name: "Archive 2.0.0" }).click();
  await page.getByLabel("Type 2.0.0 to confirm").fill("2.0.0");
  await page.getByRole("dialog").getByRole("button", { name: "Archive 2.0.0" }).click();
  await page.getByText("2.0.0 archived, 0 contracts moved").waitFor();
  // The list of active versions, where it still is, arrives after the list of archived ones.
  let isLate = false;
  await page.route(/pricings\?pricingStatus=active/, async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await route.continue();
    isLate = true;
  });
  await page.getByRole("link", { name: "Back to the service" }).click();
  await page.getByRole("link", { name: "Open version 2.0.0" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect.poll(() => isLate).toBe(true);
  expect(await page.getByRole("link", { name: "Open version 2.0.0" }).count()).toBe(1);
  await page.getByLabel("Type 2.0.0 to confirm").fill("2.0.0");
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await expect.poll(() => page.getByRole("link", { name: "Open version 2.0.0" }).count()).toBe(0);
  expect(own.complaints).toEqual([]);
});

test("disabling a service shows what its contracts lose, and asks for its name", async () => {
  const { page } = own;
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Disable service" }).click();
  await page.getByText("3 contracts in 1 group").waitFor();
  await page.getByRole("row", { name: /FREE.*1\.0\.0.*3.*board/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Disable Tasker" }).click();
  await page.getByLabel("Type Tasker to confirm").fill("Tasker");
  await page.getByRole("dialog").getByRole("button", { name: "Disable Tasker" }).click();
  await page.getByText("Tasker disabled").waitFor();
  await page.getByRole("link", { name: "Back to the services" }).click();
  await page.getByText("No services yet.").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a change names the budgets of the new version that are tighter", async () => {
  const { page } = own;
  const drafted = (version: string, createdAt: string, budgets: object) => {
    const text = own
      .sample("tasker")
      .replace("saasName: Tasker", "saasName: Planner")
      .replace('version: "1.0.0"', `version: "${version}"`)
      .replace("2025-03-01", createdAt);
    return `${text}\ncustom: { faregate: { budgets: ${JSON.stringify(budgets)} } }\n`;
  };
  const fair = (amount: number) => ({ fair: { limit: "maxTasks", spender: "*", amount } });
  await own.upload(drafted("1.0.0", "2025-03-01", fair(20)));
  const run = { limit: "maxTasks", spender: "*/*/*", amount: 5 };
  await own.upload(drafted("2.0.0", "2025-09-01", { ...fair(10), run }), "Planner");
  const contracted = {
    userContact: { userId: "zoe", username: "zoe" },
    contractedServices: { planner: "1.0.0" },
    subscriptionPlans: { planner: "PRO" },
    subscriptionAddOns: {},
  };
  await own.call("POST", "/contracts", contracted, own.key);
  await own.open("/services/Planner", "Planner");
  await page.getByRole("link", { name: "Open version 1.0.0" }).click();
  await page.getByRole("link", { name: "Archive", exact: true }).click();
  await page.getByText("Max tasks: tighter budgets fair and run").waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("tighter budgets are named in German", async () => {
  const context = await own.browser.newContext({ locale: "de-DE" });
  const german = await context.newPage();
  await german.goto(own.page.url());
  await german.locator("input[autocomplete=username]").fill("admin");
  await german.locator("input[type=password]").fill(PASSWORD);
  await german.keyboard.press("Enter");
  await german.getByText("Max tasks: engere Budgets fair und run").waitFor();
  await context.close();
  expect(own.complaints).toEqual([]);
});

test("a past change names the budgets that became tighter", async () => {
  const { page } = own;
  await own.call("PUT", "/services/Planner/pricings/1.0.0?availability=archived", { groups: [] }, own.key);
  await own.open("/services/Planner/decisions", "Past changes of Planner");
  const archived = page.locator("section", { has: page.getByRole("heading", { name: "Archive Planner 1.0.0" }) });
  await archived.getByText("Where they went, by group (1)").click();
  await archived.getByText("Max tasks: tighter budgets fair and run").waitFor();
  await expectNarrow();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});
