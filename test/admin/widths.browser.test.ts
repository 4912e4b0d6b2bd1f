import type { Locator } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { useConsole } from "./console.ts";

const own = useConsole();
/** The narrowest screen that the console supports, and the narrowest on which tables do not scroll. */
const WIDTHS = [320, 1080];

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.upload(
    own.sample("tasker").replace('version: "1.0.0"', 'version: "2.0.0"').replace("2025-03-01", "2025-06-01"),
    "Tasker",
  );
  await own.contract(USER, "PRO", { extraTasks: 2 });
});

/** Browsers break no line in it by themselves. */
const USER = `user${"0123456789abcdef".repeat(4)}`;

test.each([
  "",
  "/services",
  "/services/Tasker",
  "/services/Tasker/versions/1.0.0",
  "/services/Tasker/price-page",
  "/services/Tasker/compare?from=1.0.0&to=2.0.0",
  "/services/Tasker/archive/1.0.0",
  "/services/Tasker/novate",
  "/services/Tasker/decisions",
  "/gate",
  "/approvals",
  "/upload",
  "/contracts",
  `/contracts/${USER}`,
  `/contracts/${USER}?tab=usage`,
  "/new-contract",
  "/overrides",
  "/credits",
  "/billing",
  "/upcoming",
  "/usage",
  "/denials",
  `/playground?user=${USER}`,
  "/keys",
  "/webhooks",
  "/events",
  "/tokens",
  "/members",
  "/audit",
])("the page %s is not wider than its screen", async (path) => {
  await own.open(path, /./);
  await expectNarrow();
});

test.each([
  "/account",
  "/organizations",
  "/users",
  "/analytics",
  "/health",
  "/cache",
  "/docs",
  "/docs/operate",
  "/design",
])("the page %s is not wider than its screen", async (path) => {
  await own.page.goto(own.url + path);
  await own.page.getByRole("heading", { level: 1 }).waitFor();
  await expectNarrow();
});

test.each([
  [1280, 800],
  [1280, 480],
  [390, 640],
  [844, 390],
])("at %d × %d the sidebar keeps the account in view and its list scrolls to every page", async (width, height) => {
  const { page } = own;
  await page.setViewportSize({ width, height });
  await page.goto(`${own.url}/cache`);
  await page.getByRole("heading", { level: 1, name: "Cache" }).waitFor();
  if (width < 760) await page.getByRole("button", { name: "Open the menu" }).click();
  const sidebar = page.locator("#navigation");
  const account = sidebar.getByRole("button", { name: /^Account/ });
  const current = sidebar.locator("[aria-current=page]");
  const first = sidebar.getByRole("link", { name: "Overview" });
  await expect.poll(() => bottomOf(account)).toBeLessThanOrEqual(height);
  // The current page is the last one of the list.
  await expect.poll(() => bottomOf(current)).toBeLessThanOrEqual(await topOf(account));
  await first.scrollIntoViewIfNeeded();
  expect(await topOf(first)).toBeGreaterThanOrEqual(await bottomOf(sidebar.getByRole("button", { name: /^Search/ })));
  expect(await bottomOf(account)).toBeLessThanOrEqual(height);
  expect(own.complaints).toEqual([]);
});

const topOf = async (place: Locator): Promise<number> => (await place.boundingBox())?.y ?? Number.NaN;

async function bottomOf(place: Locator): Promise<number> {
  const box = await place.boundingBox();
  return box === null ? Number.NaN : box.y + box.height;
}

async function expectNarrow(): Promise<void> {
  const { page } = own;
  // The design page shows a skeleton forever.
  const skeletons = page.url().endsWith("/design") ? 1 : 0;
  await expect.poll(() => page.getByRole("status", { name: "Loading…" }).count()).toBe(skeletons);
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 640 });
    const tooWide = (most: number) => {
      // Matrices and code scroll inside of their own boxes.
      const isClipped = (element: Element | null): boolean =>
        element !== null &&
        element.tagName !== "MAIN" &&
        (getComputedStyle(element).overflowX !== "visible" || isClipped(element.parentElement));
      return [...document.querySelectorAll("main *")]
        .filter((element) => element.getBoundingClientRect().right > most && !isClipped(element.parentElement))
        .map((element) => `${element.tagName}.${element.className}: ${element.textContent?.slice(0, 30)}`)
        .slice(0, 3);
    };
    await expect.poll(() => page.evaluate(tooWide, width), { message: `at ${width}` }).toEqual([]);
  }
  expect(own.complaints).toEqual([]);
}
