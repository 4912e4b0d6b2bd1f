import { beforeAll, expect, test } from "vitest";
import { openReceiver } from "../events/webhook-receiver.ts";
import { PASSWORD, useConsole, expectAccessible, expectComplaints } from "./console.ts";

const own = useConsole({ environment: { WEBHOOK_ALLOWED_HOSTS: "127.0.0.1" } });

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "FREE");
  await own.call("PUT", "/contracts/ada/usageLevels", { tasker: { maxTasks: 20 } }, own.key);
});

test("the playground explains why a feature is off, as the server does, without counting usage", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("link", { name: "Check access" }).last().click();
  await page
    .getByRole("main")
    .getByRole("button", { name: /^Board/ })
    .click();
  await page.getByText("No. Max tasks is used up: 20 of 20.").waitFor();
  await page.getByText("true && 20 < 20").waitFor();
  await expectAccessible(page);
  await page.getByLabel("Try an amount of tasker-maxTasks").fill("5");
  await page.getByRole("button", { name: "Check on the server" }).click();
  await page.getByText('"eval": false').waitFor();
  await page.getByText(`-d '{"tasker-maxTasks":5}'`).waitFor();
  await page.getByRole("button", { name: /^Export/ }).click();
  await page.getByText("No. FREE does not include Export.").waitFor();
  const after = await own.call<{ usageLevels: object }>("GET", "/contracts/ada", undefined, own.key);
  expect(after.usageLevels).toMatchObject({ tasker: { maxTasks: { consumed: 20 } } });
  expect(own.complaints).toEqual([]);
});

test("the browser evaluates a configuration that nobody has", async () => {
  const { page } = own;
  await page.getByLabel("Who").selectOption("invented");
  await page.getByLabel("Version: Tasker").selectOption("1.0.0");
  await page.getByRole("radio", { name: /^PRO/ }).check();
  await page.getByRole("button", { name: "More Extra tasks" }).click();
  await page.getByLabel("Used of tasker-maxTasks").fill("299");
  await page.getByText("true && 299 < 300").waitFor();
  await page.getByText("Yes. PRO includes it.").waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("a token is issued, decoded, and verified by the server, which rejects a changed one", async () => {
  const { page } = own;
  await own.open("/tokens", "Token inspector");
  await page.getByLabel("User id").fill("ada");
  await page.getByRole("button", { name: "Issue a token" }).click();
  await page.getByRole("heading", { name: "ada" }).waitFor();
  await page.getByText("in 59 minutes").waitFor();
  await expect.poll(() => page.getByRole("row", { name: /tasker-board/ }).textContent()).toContain("20 of 20");
  await page.getByRole("button", { name: "Verify with the server" }).click();
  await page.getByText("Signed by this server, and valid.").waitFor();
  expect(await pairs()).toMatchObject({
    Issuer: expect.stringMatching(/^urn:faregate:[0-9a-f]{24}$/),
    Organization: `Tasker Inc. ${own.organizationId}`,
    Algorithm: "HS256",
  });
  expect(await pairs()).not.toHaveProperty("Key id");
  await expectAccessible(page);
  const field = page.getByLabel("Pricing token");
  await field.fill(`${(await field.inputValue()).split(".").slice(0, 2).join(".")}.AAAA`);
  await page.getByRole("button", { name: "Verify with the server" }).click();
  await page.getByText("The signature is not of this server").waitFor();
  await field.fill("nonsense");
  await page.getByText("Not a pricing token.").waitFor();
  expect(own.complaints).toEqual([]);
});

test("the browser verifies an EdDSA token with the public keys of the server, and sends it nowhere", async () => {
  const { page } = own;
  await own.open("/tokens", "Token inspector");
  await page.getByLabel("User id").fill("ada");
  await page.getByLabel("Signature").selectOption("EdDSA");
  await page.getByRole("button", { name: "Issue a token" }).click();
  await page.getByRole("heading", { name: "ada" }).waitFor();
  const requests: string[] = [];
  page.on("request", (request) => requests.push(new URL(request.url()).pathname));
  const field = page.getByLabel("Pricing token");
  const token = await field.inputValue();
  const [header = "", claims = "", signature = ""] = token.split(".");
  await page.getByText("Verified in this browser with the server's public keys.").waitFor();
  const { kid } = JSON.parse(atob(header)) as { kid: string };
  expect(await pairs()).toMatchObject({ Algorithm: "EdDSA", "Key id": kid });
  expect(await page.getByRole("button", { name: "Verify with the server" }).count()).toBe(0);
  await expectAccessible(page);
  await field.fill(`${header}.${claims}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`);
  await page.getByText("The signature does not match.").waitFor();
  await expectAccessible(page);
  const admin = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  const body = { name: "Elsewhere", owner: "admin" };
  const elsewhere = await own.call<{ id: string }>("POST", "/organizations", body, admin.apiKey);
  await own.open("/tokens", "Token inspector", elsewhere.id);
  await field.fill(token);
  await page.getByText("The token belongs to another organization.").waitFor();
  expect((await pairs())["Organization"]).toBe(own.organizationId);
  expect(requests.filter((path) => path.endsWith("/verify"))).toEqual([]);
  expect(own.complaints).toEqual([]);
});

/** Returns the facts that the token inspector shows. */
async function pairs(): Promise<Record<string, string>> {
  const list = own.page.locator("dl.pairs");
  const [names, values] = await Promise.all([list.locator("dt").allInnerTexts(), list.locator("dd").allInnerTexts()]);
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? ""]));
}

test("the events page shows past events and receives new ones live", async () => {
  const { page } = own;
  await own.open("/events", "Events");
  await page.getByText("Live", { exact: true }).waitFor();
  await page
    .getByRole("listitem")
    .filter({ hasText: /Version added.*Tasker 1.0.0/ })
    .waitFor();
  await own.contract("bob", "FREE");
  await page
    .getByRole("listitem")
    .filter({ hasText: /Contract created.*bob/ })
    .waitFor();
  await expectAccessible(page);
  await page.getByLabel("Show", { exact: true }).selectOption("CONTRACT_CREATED");
  await page.getByRole("listitem").filter({ hasText: "Version added" }).first().waitFor({ state: "hidden" });
  expect(own.complaints).toEqual([]);
});

test("a webhook is added, its secret shown once, its deliveries logged and sent again, and it is deleted", async () => {
  const { page } = own;
  const receiver = await openReceiver();
  await own.open("/webhooks", "Webhooks");
  await page.getByLabel("URL").fill(receiver.url);
  await page.getByLabel("Contract created").check();
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page
    .getByRole("dialog")
    .getByText(/^whsec_/)
    .waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Close" }).click();
  await own.contract("carol", "FREE");
  await page.getByRole("button", { name: "Deliveries" }).click();
  await expect
    .poll(async () => {
      await page.getByRole("button", { name: "Refresh" }).click();
      return page.getByRole("row", { name: /Contract created.*Delivered/ }).count();
    })
    .toBe(1);
  await page.getByText("1 of the last 1 delivered").waitFor();
  await page.getByRole("button", { name: "Show what was sent" }).click();
  await page.getByText('"type": "CONTRACT_CREATED"').waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Send again" }).click();
  await expect.poll(() => receiver.received.length).toBe(2);
  const { host } = new URL(receiver.url);
  const row = page.getByRole("row", { name: new RegExp(receiver.url) });
  await page.getByRole("button", { name: `Actions for ${host}` }).click();
  await page.getByRole("menuitem", { name: "Pause" }).click();
  await row.getByText("Paused").waitFor();
  await page.getByRole("status").getByRole("button", { name: "Undo" }).click();
  await row.getByText("Healthy").waitFor();
  await receiver.close();
  await own.contract("frank", "FREE");
  await expect
    .poll(async () => (await own.call<{ failures: number }[]>("GET", "/webhooks", undefined, own.key))[0]?.failures, {
      timeout: 20_000,
    })
    .toBeGreaterThan(0);
  await page.reload();
  await row.getByText("Failing").waitFor();
  // The second attempt comes after four to six seconds.
  await row.getByText(/^(?:1 attempt|\d+ attempts) failed, the first /).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: `Actions for ${host}` }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByLabel(`Type ${host} to confirm`).fill(host);
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("No webhooks yet.").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a webhook for http names the setting that allows it", async () => {
  const { page } = own;
  await own.open("/webhooks", "Webhooks");
  await page.getByLabel("URL").fill("http://localhost:9000/hook");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("alert").getByText("The url must begin with https://. WEBHOOK_ALLOWED_HOSTS").waitFor();
  await expectComplaints(own, "400");
});

test("each page leads to its guide, and the guides are searched", async () => {
  const { page } = own;
  await own.open("/webhooks", "Webhooks");
  await page.getByRole("link", { name: "Help" }).click();
  await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
  await expectAccessible(page);
  await page.getByLabel("Search the guides").fill("impact");
  await page
    .getByRole("link", { name: /^Change a pricing/ })
    .first()
    .click();
  await page.getByRole("heading", { level: 1, name: "Change a pricing" }).waitFor();
  await page.getByRole("navigation", { name: "Where you are" }).getByRole("link", { name: "Guides" }).click();
  await page.getByRole("link", { name: "Operate" }).waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});
