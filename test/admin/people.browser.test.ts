import { expect, test } from "vitest";
import { PASSWORD, useConsole, expectAccessible, expectComplaints } from "./console.ts";

const own = useConsole();
let acme: string;

test("a user creates and renames an organization, and it is shown as their own", async () => {
  const { page } = own;
  await page.goto(`${own.url}/organizations`);
  await page.getByRole("table").waitFor();
  await expectAccessible(page);
  await page.getByLabel("Name").fill("Acme");
  await page.getByRole("button", { name: "Create" }).click();
  const row = page.getByRole("row", { name: /^Acme/ });
  await row.waitFor();
  await row.getByRole("button", { name: "Actions for Acme" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  const dialog = page.getByRole("dialog", { name: "Rename Acme" });
  const discard = page.getByRole("dialog", { name: "Discard your changes?" });
  await page.keyboard.press("Escape");
  await expect.poll(() => dialog.count()).toBe(0);
  await row.getByRole("button", { name: "Actions for Acme" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await dialog.getByLabel("Name").fill("Acme Ltd.");
  await expectAccessible(page);
  const expectKept = async () => {
    await discard.getByRole("button", { name: "Keep editing" }).click();
    await expect.poll(() => dialog.getByLabel("Name").evaluate((field) => field === document.activeElement)).toBe(true);
  };
  // Chromium lets no page cancel a repeated Escape, which closes the dialog like this.
  await dialog.evaluate((element) => element instanceof HTMLDialogElement && element.close());
  await expectKept();
  for (let presses = 1; presses <= 5; presses += 1) {
    await page.keyboard.press("Escape");
    await dialog.waitFor();
  }
  if (!(await discard.isVisible())) await page.keyboard.press("Escape");
  await expectKept();
  await page.keyboard.press("Control+k");
  expect(await page.getByRole("dialog", { name: "Search or jump to" }).count()).toBe(0);
  await dialog.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("link", { name: "Acme Ltd." }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  acme = /\/o\/([0-9a-f]+)/.exec(page.url())?.[1] ?? "";
  expect(own.complaints).toEqual([]);
});

/** Presses Enter, and holds the request to this path until the returned function is called. */
async function submitHeld(to: string): Promise<() => Promise<void>> {
  const { page } = own;
  const address = `**/api/v1${to}`;
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route(address, async (route) => {
    await released;
    await route.continue();
  });
  const sent = page.waitForRequest(address);
  await page.keyboard.press("Enter");
  await sent;
  return async () => {
    release();
    // Playwright does not await the end of a route with `times`, which can then remove the next route.
    await page.unrouteAll({ behavior: "wait" });
  };
}

test("Escape does not offer to discard what is being saved", async () => {
  const { page } = own;
  await page.goto(`${own.url}/organizations`);
  await page.getByRole("button", { name: "Actions for Acme Ltd." }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Acme Ltd.");
  const release = await submitHeld(`/organizations/${acme}`);
  await page.keyboard.press("Escape");
  expect(await page.getByRole("dialog", { name: "Discard your changes?" }).count()).toBe(0);
  await release();
  await page.getByText("Organization renamed").waitFor();
  await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  expect(own.complaints).toEqual([]);
});

test("a refusal that arrives after its dialog was closed is shown", async () => {
  const { page } = own;
  await page.goto(`${own.url}/users`);
  await page.getByRole("button", { name: "Actions for admin" }).click();
  await page.getByRole("menuitem", { name: "Reset password" }).click();
  await page.getByRole("dialog").getByLabel("New password").fill("abc");
  const release = await submitHeld("/users/admin");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await release();
  await page.getByText("Password must have at least").waitFor();
  await expectComplaints(own, "422");
});

test("an ADMIN creates a key with a scope, reveals and renames it, and types its beginning to delete it", async () => {
  const { page } = own;
  await own.open("/keys", "API keys", acme);
  await page.getByLabel("Scope").selectOption("EVALUATION");
  await page.getByRole("textbox", { name: "Name" }).fill("web shop");
  const sent: string[] = [];
  page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
  await page.getByRole("button", { name: "Create key" }).dblclick();
  await page
    .getByRole("status")
    .getByText(/^org_[0-9a-f]{64}$/)
    .waitFor();
  expect(sent).toHaveLength(1);
  const row = page.getByRole("row", { name: /EVALUATION/ });
  await row.getByText("web shop").waitFor();
  await row.getByText(/^org_[0-9a-f]{8}•+$/).waitFor();
  expect(await page.getByText("x-api-key: org_").count()).toBe(0);
  await row.getByRole("button", { name: "Show" }).click();
  await row.getByText(/^org_[0-9a-f]{64}$/).waitFor();
  const key = (await row.locator("code").textContent()) ?? "";
  expect(key).toMatch(/^org_[0-9a-f]{64}$/);
  await page.getByText("-H 'x-api-key: YOUR_KEY'").waitFor();
  await page.getByLabel("Show the key in the samples").check();
  await page.getByText(`-H 'x-api-key: ${key}'`).first().waitFor();
  expect(await own.call("GET", "/services", undefined, key)).toEqual([]);
  await expectAccessible(page);
  await row.getByRole("button", { name: "Actions for web shop" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  const dialog = page.getByRole("dialog");
  const rename = dialog.getByRole("button", { name: "Rename", exact: true });
  await expect.poll(() => dialog.getByLabel("Name").inputValue()).toBe("web shop");
  await expect.poll(() => rename.isDisabled()).toBe(true);
  await expectAccessible(page);
  await dialog.getByLabel("Name").fill("mobile app");
  await page.keyboard.press("Enter");
  await row.getByText("mobile app").waitFor();
  await page.getByRole("button", { name: "Undo" }).last().click();
  await row.getByText("web shop").waitFor();
  await row.getByRole("button", { name: "Actions for web shop" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByText("Programs that use web shop stop working at once.").waitFor();
  await page.getByLabel(`Type ${key.slice(0, 12)} to confirm`).fill(key.slice(0, 12));
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("Key deleted").waitFor();
  await expect.poll(() => page.getByRole("row", { name: /EVALUATION/ }).count()).toBe(0);
  expect(own.complaints).toEqual([]);
});

test("an ADMIN creates a user and adds a member, and the role matrix shows the server's own table", async () => {
  const { page } = own;
  await page.goto(`${own.url}/users`);
  await page.getByLabel("Username").fill("grace");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("row", { name: /^grace/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Actions for grace" }).click();
  await page.getByRole("menuitem", { name: "Link for a new password" }).click();
  const dialog = page.getByRole("dialog", { name: "Link for grace" });
  await dialog.getByRole("button", { name: "Create the link" }).click();
  const link = await dialog.getByText(/\/console\/recovery\/\S+/).textContent();
  // A page that came over http may not write the clipboard either.
  const session = await page.context().newCDPSession(page);
  await session.send("Browser.setPermission", { permission: { name: "clipboard-write" }, setting: "denied" });
  await dialog.getByRole("button", { name: /^Copy: / }).click();
  await dialog.getByRole("button", { name: /^Copied: / }).waitFor();
  await session.send("Browser.resetPermissions");
  await page.context().grantPermissions(["clipboard-read"]);
  expect(await page.evaluate("navigator.clipboard.readText()")).toBe(link);
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await own.open("/members", "Members", acme);
  await page.getByLabel("Username").fill("grace");
  await page.getByLabel("Role", { exact: true }).selectOption("EVALUATOR");
  await page.getByRole("form", { name: "Add a member" }).getByRole("button", { name: "Add" }).click();
  await page.getByLabel("Role of grace").selectOption("MANAGER");
  await page.getByText("grace is now Manager").waitFor();
  await page.getByRole("button", { name: "Undo" }).last().click();
  await page.getByText("grace is now Viewer").waitFor();
  await page.getByLabel("Role of grace").selectOption("MANAGER");
  await page.getByText("grace is now Manager").last().waitFor();
  const answersIn = async (region: string, row: string | RegExp) => {
    const cells = page.getByRole("region", { name: region }).getByRole("row", { name: row }).getByRole("img");
    return cells.evaluateAll((all) => all.map((each) => each.getAttribute("aria-label")));
  };
  const [roles, scopes] = ["What each role may do", "What a key of each scope may do"];
  await expect.poll(() => answersIn(roles, "Delete contracts")).toEqual(["Yes", "Yes", "No", "No"]);
  await expect
    .poll(() => answersIn(roles, "Create API keys that can do everything"))
    .toEqual(["Yes", "Yes", "No", "No"]);
  await expect.poll(() => answersIn(roles, "Delete the organization")).toEqual(["Yes", "No", "No", "No"]);
  await expect.poll(() => answersIn(scopes, "Create contracts and change them")).toEqual(["Yes", "Yes", "No"]);
  await page.getByText("Show the API calls").click();
  await expect
    .poll(() => answersIn("API calls that each role may make", /^DELETE \/contracts\/… /))
    .toEqual(["Yes", "Yes", "No", "No"]);
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("an OWNER transfers ownership to a chosen member after typing the organization's name", async () => {
  const { page } = own;
  await page.getByLabel("New owner").selectOption("grace");
  await page.getByRole("button", { name: "Transfer", exact: true }).click();
  await page.getByLabel("Type Acme Ltd. to confirm").fill("Acme Ltd.");
  await page.getByRole("dialog").getByRole("button", { name: "Transfer", exact: true }).click();
  await page.getByText("grace is now the owner").waitFor();
  await page.getByRole("row", { name: /grace.*Owner/ }).waitFor();
  await page.getByLabel("Role of admin").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a member with a lower role sees neither unmasked keys nor buttons without permission", async () => {
  const { page } = own;
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "grace",
    password: PASSWORD,
  });
  await own.call("POST", "/users", { username: "eva", password: PASSWORD });
  const to = `/organizations/${acme}/members`;
  await own.call("POST", to, { username: "eva", role: "EVALUATOR" }, apiKey);
  await page.getByRole("button", { name: "Account: admin" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await own.signIn("eva");
  await own.open("/keys", "API keys", acme);
  await page.getByText("Hidden for your role").waitFor();
  await expect.poll(() => page.getByRole("button", { name: /Create key|^Delete/ }).count()).toBe(0);
  await own.open("/contracts", "Contracts", acme);
  await page.getByText("0 contracts").waitFor();
  await expect.poll(() => page.getByRole("link", { name: "New contract" }).count()).toBe(0);
  await expect.poll(() => page.getByRole("link", { name: "Accounts" }).count()).toBe(0);
  expect(own.complaints).toEqual([]);
});

test("pages of platform ADMINs show a user no form that the server would refuse", async () => {
  const { page } = own;
  await page.goto(`${own.url}/users`);
  await page.getByText("Ask an owner or admin to do this").waitFor();
  expect(await page.getByRole("main").getByRole("textbox").count()).toBe(0);
  await expectAccessible(page);
  await expectComplaints(own, "403");
  await page.goto(`${own.url}/cache`);
  await page.getByText("Ask an owner or admin to do this").waitFor();
  expect(await page.getByRole("main").getByRole("textbox").count()).toBe(0);
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("a user saves an address, sees it without a new visit, and removes it", async () => {
  const { page } = own;
  const open = async () => {
    await page.goto(`${own.url}/account`);
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
  };
  await open();
  await page.getByLabel("Email").fill("eva@example.com");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Email saved").waitFor();
  await page.getByRole("link", { name: "Sessions" }).click();
  await page.goBack();
  await expect.poll(() => page.getByLabel("Email").inputValue()).toBe("eva@example.com");
  await open();
  expect(await page.getByLabel("Email").inputValue()).toBe("eva@example.com");
  await expectAccessible(page);
  await page.getByLabel("Email").fill("");
  const saved = page.waitForResponse((answer) => answer.request().method() === "PUT");
  await page.getByRole("button", { name: "Save" }).click();
  expect((await saved).status()).toBe(200);
  await open();
  expect(await page.getByLabel("Email").inputValue()).toBe("");
});

test("a new password asks for the current one", async () => {
  const { page } = own;
  await page.goto(`${own.url}/account`);
  await page.getByLabel("Current password").fill("not it");
  await page.getByLabel("New password").fill("longer-battery-staple-7");
  await page.getByText("Strong").waitFor();
  await page.getByRole("button", { name: "Change password" }).click();
  await page.getByRole("alert").getByText("Invalid credentials").waitFor();
  await expectAccessible(page);
  await page.getByLabel("Current password").fill(PASSWORD);
  await page.getByRole("button", { name: "Change password" }).click();
  await page.getByText("Password changed").waitFor();
  await own.call("POST", "/users/authenticate", { username: "eva", password: "longer-battery-staple-7" });
  await expectComplaints(own, "401");
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
});

test("replacing the key ends the old one, shows the new one, and stays signed in", async () => {
  const { page } = own;
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "eva",
    password: "longer-battery-staple-7",
  });
  await page.getByRole("button", { name: "Show key" }).click();
  await page.getByText(apiKey).waitFor();
  const replaceKey = async () => {
    await page.getByRole("button", { name: "Replace key" }).click();
    await page.getByLabel("Type eva to confirm").fill("eva");
    expect(await page.getByRole("alert").count()).toBe(0);
    await page.getByRole("dialog").getByRole("button", { name: "Replace key" }).click();
  };
  await page.route("**/api-key", (route) => route.abort());
  await replaceKey();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await expectComplaints(own, "ERR_FAILED");
  await page.unroute("**/api-key");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await replaceKey();
  await page.getByText("Key replaced").waitFor();
  await expect(own.call("GET", "/organizations", undefined, apiKey)).rejects.toThrow("401");
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("the list of sessions ends another browser's, and all others", async () => {
  const { page } = own;
  const elsewhere = await own.browser.newContext();
  const body = { username: "eva", password: "longer-battery-staple-7" };
  const headers = { origin: own.server.url };
  const begin = async () => {
    const answer = await elsewhere.request.post(`${own.server.url}/api/v1/sessions`, { data: body, headers });
    expect(answer.status()).toBe(201);
  };
  const statusElsewhere = async () => (await elsewhere.request.get(`${own.server.url}/api/v1/users/me`)).status();
  await begin();
  await page.getByRole("link", { name: "Sessions" }).click();
  await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
  await page.getByRole("row").getByText("This session").waitFor();
  await expectAccessible(page);
  await page.getByRole("row").getByRole("button", { name: "Sign out" }).first().click();
  await page.getByText("Session ended").waitFor();
  expect(await statusElsewhere()).toBe(401);
  await begin();
  await page.getByRole("button", { name: "Sign out everywhere else" }).click();
  await page.getByText("Signed out everywhere else").waitFor();
  expect(await statusElsewhere()).toBe(401);
  await page.reload();
  await expect.poll(() => page.getByRole("row").count()).toBe(2);
  await elsewhere.close();
  expect(own.complaints).toEqual([]);
});

test("every part of the design is accessible in both themes", async () => {
  const { page } = own;
  await page.goto(`${own.url}/design`);
  await page.getByRole("heading", { level: 1, name: "Design" }).waitFor();
  await expectAccessible(page);
  for (const name of ["Dialog", "Sheet"]) {
    await page.getByRole("button", { name, exact: true }).click();
    await expectAccessible(page);
    await page.keyboard.press("Escape");
  }
  await expectAccessible(page);
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("button", { name: "Toast" }).click();
  await page.getByText("Key renamed to CI").waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Undone").waitFor();
  expect(own.complaints).toEqual([]);
});
