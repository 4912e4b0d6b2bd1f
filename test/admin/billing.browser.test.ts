import { createHmac } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { eventOf, STRIPE_SECRET, type SubscriptionFields, subscriptionOf } from "../support/billing.ts";
import { expectAccessible, PASSWORD, useConsole } from "./console.ts";

const own = useConsole();
let userKey = "";

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  const { apiKey } = await own.call<{ apiKey: string }>("POST", "/users/authenticate", {
    username: "admin",
    password: PASSWORD,
  });
  userKey = apiKey;
});

/** Sends an event of Stripe, signed with the secret, and returns its outcome. */
async function send(fields: SubscriptionFields, id: string): Promise<string> {
  const [{ url } = { url: "" }] = await own.call<{ url: string }[]>(
    "GET",
    `/organizations/${own.organizationId}/billing`,
    undefined,
    userKey,
  );
  const now = new Date();
  const end = new Date(now.getTime() + 30 * 86_400_000);
  const subscription = subscriptionOf({ start: now.toISOString(), end: end.toISOString(), ...fields });
  const body = JSON.stringify(eventOf("customer.subscription.updated", subscription, now, id));
  const seconds = Math.floor(now.getTime() / 1000);
  const v1 = createHmac("sha256", STRIPE_SECRET).update(`${seconds}.${body}`).digest("hex");
  const answer = await fetch(url, {
    method: "POST",
    headers: { "stripe-signature": `t=${seconds},v1=${v1}` },
    body,
  });
  return ((await answer.json()) as { outcome: string }).outcome;
}

const section = (name: string) =>
  own.page.locator("section", { has: own.page.getByRole("heading", { level: 2, name, exact: true }) }).last();

test("an owner connects Stripe before its secret is known, copies the address and enters the secret", async () => {
  const { page } = own;
  await own.open("/billing", "Billing");
  await section("Connect Stripe").getByRole("button", { name: "Connect" }).click();
  await page.getByText("Stripe is connected").waitFor();
  await section("Connection").getByText("/api/v1/billing/").waitFor();
  await expectAccessible(page);
  await section("Connection").getByRole("button", { name: "Copy: Address for the provider's webhook" }).click();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Change secret" }).click();
  const dialog = page.getByRole("dialog", { name: "Change secret" });
  await dialog.getByLabel("Signing secret").fill(STRIPE_SECRET);
  await dialog.getByRole("button", { name: "Change secret" }).click();
  await section("Connection")
    .getByText(`whsec_…${STRIPE_SECRET.slice(-4)}`)
    .waitFor();
  await section("Connection").getByText("The previous secret is accepted until").waitFor();
  await expect.poll(() => page.content()).not.toContain(STRIPE_SECRET);
});

test("prices are mapped in a table that shows what is missing", async () => {
  const { page } = own;
  await section("Prices").getByText("No price id is mapped yet.").waitFor();
  await section("Prices").getByRole("button", { name: "Map a price", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Map a price" });
  await dialog.getByLabel("Plan, add-on or credits").selectOption({ label: "Tasker: PRO (plan)" });
  await dialog.getByLabel("Price id").fill("price_pro");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Map a price", exact: true }).click();
  await page.getByText("price_pro mapped").waitFor();
  await section("Prices").getByText("2 entries need attention").waitFor();
  await section("Prices")
    .getByRole("row", { name: /^BUSINESS Plan Tasker No price id/ })
    .waitFor();
  await section("Prices").getByRole("button", { name: "Map a price: Extra tasks" }).click();
  await dialog.getByLabel("Price id").fill("price_tasks");
  await dialog.getByLabel("Units per unit bought").fill("2");
  await dialog.getByRole("button", { name: "Map a price", exact: true }).click();
  await section("Prices")
    .getByRole("row", { name: /^Extra tasks Add-on, × 2 per unit Tasker .*price_tasks/ })
    .waitFor();
  await section("Prices").getByText("1 entry needs attention").waitFor();
  await expectAccessible(page);
  await section("Connection").getByRole("button", { name: "Settings" }).click();
  const settings = page.getByRole("dialog", { name: "Settings" });
  await settings.getByLabel("When a subscription to tasker ends").selectOption({ label: "tasker becomes FREE" });
  await settings.getByLabel("Days of grace").fill("3");
  await settings.getByRole("button", { name: "Save" }).click();
  await section("Connection").getByText("3 days of grace").waitFor();
});

/** The message that Stripe sent before anybody had mapped its price. */
const unmapped = () =>
  section("Messages").getByRole("row", { name: /hedy Price not mapped The price price_business is in no map/ });

test("a message that could not be applied stands in the overview", async () => {
  const { page } = own;
  expect(await send({}, "evt_ada")).toBe("applied");
  const hedy = { id: "sub_2", customer: "cus_2", metadata: { userId: "hedy" }, items: ["price_business"] };
  expect(await send(hedy, "evt_hedy")).toBe("unmapped");
  await own.open("", "Overview");
  await expectAccessible(page);
  await page.getByRole("link", { name: "Review: 1 message could not be applied" }).click();
  await page.getByRole("heading", { level: 1, name: "Billing" }).waitFor();
  await unmapped().waitFor();
  await expectAccessible(page);
});

test("a message is repeated once its price is mapped", async () => {
  const { page } = own;
  await section("Prices").getByRole("button", { name: "Map a price: BUSINESS" }).click();
  const dialog = page.getByRole("dialog", { name: "Map a price" });
  await dialog.getByLabel("Price id").fill("price_business");
  await dialog.getByRole("button", { name: "Map a price", exact: true }).click();
  await page.getByText("price_business mapped").waitFor();
  await expect.poll(() => section("Prices").getByText("attention").count()).toBe(0);
  await unmapped().getByRole("button", { name: "Repeat evt_hedy" }).click();
  await page.getByText("Repeated: Applied").waitFor();
  await section("Messages")
    .getByRole("row", { name: /hedy Applied/ })
    .waitFor();
  await section("Messages").getByRole("button", { name: "Outcome", exact: true }).click();
  await page.getByRole("menuitem", { name: "Failed" }).click();
  await page.getByText("No messages match").waitFor();
  await section("Messages").getByRole("button", { name: "Repeat all: Failed" }).click();
  await page.getByText("0 messages repeated").waitFor();
});

test("a contract says which subscription it follows, warns before a change by hand, and is detached", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByText(/^Follows Stripe subscription sub_1, active, renews \d+ \w+ \d{4}$/).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Change plan" }).first().click();
  const sheet = page.getByRole("dialog", { name: "Change plan" });
  await sheet.getByText("This contract follows Stripe subscription sub_1.").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Billing and contact" }).click();
  await page.getByText("A period of the calendar: every month.").waitFor();
  await page.getByRole("button", { name: "Detach" }).click();
  const dialog = page.getByRole("dialog", { name: "Detach ada from the subscription?" });
  await dialog.getByText("sub_1 never moves it again").waitFor();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Detach" }).click();
  await page.getByText("ada follows no subscription").waitFor();
  await expect.poll(() => page.getByText("Follows Stripe").count()).toBe(0);
});

test("a connection is ended only after its name was typed", async () => {
  const { page } = own;
  await own.open("/billing", "Billing");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Disconnect" }).click();
  const dialog = page.getByRole("dialog", { name: "Disconnect Stripe?" });
  await dialog.getByText("Type the name first.").waitFor();
  await dialog.getByRole("textbox").fill("Stripe");
  await dialog.getByRole("button", { name: "Disconnect" }).click();
  await section("Connect Stripe").waitFor();
  await page.getByText("Other provider").click();
  await section("Connect Other provider").waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});
