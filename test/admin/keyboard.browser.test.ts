import { beforeAll, expect, test } from "vitest";
import { jump, PASSWORD, useConsole } from "./console.ts";

const own = useConsole({ isSignedIn: false });
const MAX_TABS = 120;

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO");
});

const press = async (...keys: string[]) => {
  for (const key of keys) await own.page.keyboard.press(key);
};
const heading = (name: string) => own.page.getByRole("heading", { level: 1, name }).waitFor();

async function openPalette(): Promise<void> {
  await press("Control+k");
  await own.page.getByRole("combobox", { name: "Search or jump to" }).waitFor();
}

/** Presses Tab until an element whose name or text begins with `name` has the focus. */
async function tabTo(name: string): Promise<void> {
  const passed: string[] = [];
  for (let tabs = 0; tabs < MAX_TABS; tabs += 1) {
    await press("Tab");
    const focused = await own.page.evaluate(() => {
      const element = document.activeElement as HTMLInputElement | null;
      const label = element?.labels?.[0]?.textContent;
      return (element?.getAttribute("aria-label") ?? label ?? element?.textContent ?? "").trim();
    });
    if (focused.startsWith(name)) return;
    passed.push(focused.slice(0, 40));
  }
  throw new Error(`Tab does not reach ${name}: ${passed.join(" | ")}`);
}

test("by keyboard alone: sign in, upload a version, archive the old one, change a plan", async () => {
  const { page } = own;
  await page.goto(own.url);
  await heading("Sign in");
  await page.keyboard.type("admin");
  await press("Tab");
  await page.keyboard.type(PASSWORD);
  await press("Enter");
  await heading("Overview");

  await jump(page, "s", "Services");
  await press("/");
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("type"))).toBe("search");
  await page.keyboard.type("Task");
  await tabTo("Tasker");
  await press("Enter");
  await heading("Tasker");
  await tabTo("Add version");
  await press("Enter");
  await heading("Upload a pricing");
  await page.getByRole("textbox", { name: "Pricing2Yaml text" }).waitFor();
  await tabTo("Pricing2Yaml text");
  const text = own.sample("tasker").replace('version: "1.0.0"', 'version: "2.0.0"').replace("2025-03-01", "2025-06-01");
  await page.keyboard.insertText(text);
  await page.getByText("Adds version 2.0.0 to Tasker.").waitFor();
  await expect.poll(() => page.getByRole("button", { name: "Save" }).isEnabled()).toBe(true);
  await tabTo("Save");
  await press("Enter");

  await heading("Tasker");
  await tabTo("Open version 1.0.0");
  await press("Enter");
  await page.getByRole("link", { name: "Archive", exact: true }).waitFor();
  await tabTo("Archive");
  await press("Enter");
  const archive = "Archive 1.0.0 and move 1 contract";
  await expect.poll(() => page.getByRole("button", { name: archive }).isEnabled()).toBe(true);
  await tabTo(archive);
  await press("Enter");
  await page.getByRole("dialog").waitFor();
  await tabTo("Type 1.0.0 to confirm");
  await page.keyboard.type("1.0.0");
  await tabTo(archive);
  await press("Enter");
  await page.getByText("1.0.0 archived, 1 contract moved").waitFor();

  await openPalette();
  await page.keyboard.type("ada");
  const changePlan = page.getByRole("option", { name: "Change the plan of ada" });
  await changePlan.waitFor();
  await expect.poll(() => page.getByRole("option").first().getAttribute("aria-selected")).toBe("true");
  await press("ArrowDown", "ArrowDown");
  await expect.poll(() => changePlan.getAttribute("aria-selected")).toBe("true");
  await press("Enter");
  await page.getByRole("dialog", { name: /Change plan/ }).waitFor();
  await tabTo("PRO");
  await press("ArrowDown");
  const move = page.getByRole("dialog").getByRole("button", { name: /^Move to BUSINESS/ });
  await expect.poll(() => move.isEnabled()).toBe(true);
  await tabTo("Move to BUSINESS");
  await press("Enter");
  await page.getByText("ada is on BUSINESS").waitFor();
  const after = await own.call<object>("GET", "/contracts/ada", undefined, own.key);
  expect(after).toMatchObject({ subscriptionPlans: { tasker: "BUSINESS" }, contractedServices: { tasker: "2.0.0" } });
  expect(own.complaints).toEqual([]);
});

test("the palette answers whether a person may use a feature, and opens results in a new tab", async () => {
  const { page } = own;
  await openPalette();
  await page.keyboard.type("ada exp");
  await page.getByRole("option", { name: "ada, Export: Yes. BUSINESS includes it." }).waitFor();
  const [opened] = await Promise.all([page.context().waitForEvent("page"), press("Control+Enter")]);
  await opened.waitForURL(/\/playground\?user=ada&feature=tasker-export$/);
  await opened.close();
  expect(own.complaints).toEqual([]);
});

test("keys typed into a field are no shortcuts", async () => {
  const { page } = own;
  await own.open("/contracts", "Contracts");
  await press("/");
  await page.keyboard.type("gs/");
  await expect.poll(() => page.getByRole("searchbox").first().inputValue()).toBe("gs/");
  await heading("Contracts");
  expect(own.complaints).toEqual([]);
});
