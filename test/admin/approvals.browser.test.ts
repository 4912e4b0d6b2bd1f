import { expect, test } from "vitest";
import { expectAccessible, expectComplaints, PASSWORD, useConsole } from "./console.ts";

const own = useConsole();

/** Signs the window in as another user. */
async function become(username: string): Promise<void> {
  await own.page.context().clearCookies();
  await own.page.goto(own.url);
  await own.signIn(username);
}

test("an owner invites somebody by a link, who creates an account with it and lands in the organization", async () => {
  const { page } = own;
  await own.open("/members", "Members");
  await page.getByLabel("Joins as").selectOption("ADMIN");
  await page.getByRole("button", { name: "Create link" }).click();
  const link = (await page.getByText(/\/console\/invitations\/[0-9a-f]{64}$/).textContent()) ?? "";
  await page.getByRole("row", { name: /^Link only/ }).waitFor();
  await expectAccessible(page);
  await page.context().clearCookies();
  await page.goto(link);
  await page.getByRole("heading", { name: /^Join / }).waitFor();
  await page.getByText("admin invites you as Admin.").waitFor();
  await expectAccessible(page);
  await page.getByLabel("Username").fill("grace");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Create an account and join" }).click();
  await page.waitForURL(new RegExp(`/o/${own.organizationId}$`));
  await page.goto(link);
  await page.getByRole("heading", { name: "This link is not valid" }).waitFor();
  await expectAccessible(page);
  await expectComplaints(own, "404");
});

test("an archiving waits for a second person, who sees its effect and approves it", async () => {
  const { page } = own;
  await become("admin");
  const text = own.sample("tasker");
  await own.upload(text);
  await own.upload(text.replace('version: "1.0.0"', 'version: "1.1.0"'), "Tasker");
  await own.contract("ada", "PRO");
  await own.open("/approvals", "Approvals");
  await page.getByText("No change is waiting.").waitFor();
  await page.getByLabel("Archive a version").check();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Approvals saved").waitFor();
  const fallback = { subscriptionPlan: "PRO", subscriptionAddOns: {} };
  await own.call("PUT", "/services/Tasker/pricings/1.0.0?availability=archived", fallback, own.key);
  await page.reload();
  await page.getByRole("heading", { name: "Archive 1.0.0 of Tasker" }).waitFor();
  await expectAccessible(page);
  await become("grace");
  await own.open("/approvals", "Approvals");
  await page.getByRole("row", { name: /^contracts 1$/ }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Approve: Archive 1.0.0 of Tasker" }).click();
  await page.getByText("Change approved and made").waitFor();
  await page.getByText("No change is waiting.").waitFor();
  await page.getByRole("row", { name: /^Archive 1.0.0 of Tasker Approved grace$/ }).waitFor();
});

test("an approver reads why a change can no longer be made, and rejects it", async () => {
  const { page } = own;
  const text = own.sample("tasker");
  await own.upload(text.replace('version: "1.0.0"', 'version: "1.2.0"'), "Tasker");
  await own.contract("bob", "FREE", {}, "1.1.0");
  const to = (query: string) => `/services/Tasker/pricings/1.1.0?availability=archived${query}`;
  const groups = [{ configuration: { plan: "FREE" }, target: { plan: "PRO" } }];
  await own.call("PUT", to(""), { subscriptionPlan: "PRO", subscriptionAddOns: {}, groups }, own.key);
  const day = new Date(Date.now() + 86_400_000).toISOString();
  await own.call("PUT", to(`&at=${day}`), { subscriptionPlan: "PRO", subscriptionAddOns: {} }, own.key);
  await own.call("DELETE", "/contracts/bob", undefined, own.key);
  await own.open("/approvals", "Approvals");
  const expiry = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" }).format(new Date(day));
  await page.getByText(`Expires on ${expiry}`).waitFor();
  await page.getByRole("button", { name: "Approve: Archive 1.1.0 of Tasker", exact: true }).click();
  await page.getByRole("alert").getByText("no contract has the configuration of groups[0] any more. Reject").waitFor();
  await expectAccessible(page);
  await expectComplaints(own, "409");
  await page.getByRole("button", { name: "Reject: Archive 1.1.0 of Tasker", exact: true }).click();
  await page.getByRole("row", { name: /^Archive 1.1.0 of Tasker Rejected/ }).waitFor();
});

test("a forgotten password is asked for, and set by a link, without a key in the page", async () => {
  const { page } = own;
  const credentials = { username: "admin", password: PASSWORD };
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", credentials);
  const made = await own.call<{ url: string }>("POST", "/users/grace/recovery", undefined, apiKey);
  await page.context().clearCookies();
  await page.goto(own.url);
  await page.getByRole("link", { name: "Forgot your password?" }).click();
  // The sign-in page has a field of the same name until the next page is loaded.
  await page.getByRole("heading", { name: "Forgot your password" }).waitFor();
  await page.getByLabel("Username").fill("grace");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Send the link" }).click();
  await page.getByText(/^If the account has an email address, a link is on its way/).waitFor();
  await page.goto(made.url);
  await page.getByLabel("New password", { exact: true }).fill("another-horse-battery");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByText("The password is set. Sign in with it.").waitFor();
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, document.body.innerHTML]));
  expect(kept).not.toMatch(/usr_|org_/);
});
