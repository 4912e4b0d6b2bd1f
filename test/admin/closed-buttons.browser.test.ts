import { beforeAll, expect, test } from "vitest";
import { useConsole } from "./console.ts";

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.upload(own.sample("tasker").replace('version: "1.0.0"', 'version: "2.0.0"'), "Tasker");
  await own.contract("ada", "PRO");
});

/** Lists what is closed on the page with its reason: the visible text that describes it. */
async function closed(): Promise<[name: string, reason: string][]> {
  const { page } = own;
  await expect.poll(() => page.getByRole("status", { name: "Loading…" }).count()).toBe(0);
  return page.evaluate(() =>
    // Bounds of a stepper and of a pager stand beside them.
    [...document.querySelectorAll<HTMLButtonElement>("main :is(button, select):disabled")]
      .filter((element) => element.closest(".step, .pager") === null)
      .map((element) => {
        const reason = document.querySelector<HTMLElement>(`[id="${element.getAttribute("aria-describedby")}"]`);
        return [element.getAttribute("aria-label") ?? element.innerText, reason?.innerText.trim() ?? ""];
      }),
  );
}

test.each([
  ["/services/Tasker", /Tasker/, "Rename", "Enter a new name."],
  ["/services/Tasker/novate", /./, "Move 0 contracts to 1.0.0", "No contract is affected."],
  ["/gate", /./, undefined, ""],
  ["/upload", "Upload a pricing", "Save", "Write or drop a pricing first."],
  ["/contracts", "Contracts", undefined, ""],
  ["/contracts/ada?tab=billing", "ada", "Save", "Nothing has changed yet."],
  ["/new-contract", "New contract", "Create contract", "Choose a plan of Tasker."],
  ["/usage", "Usage", undefined, ""],
  ["/keys", "API keys", undefined, ""],
  ["/webhooks", "Webhooks", undefined, ""],
  ["/tokens", "Token inspector", undefined, ""],
  ["/members", "Members", undefined, ""],
] as const)("what is closed on %s has its reason beside it", async (path, heading, name, reason) => {
  await own.open(path, heading);
  await expect.poll(closed).toEqual(name === undefined ? [] : expect.arrayContaining([[name, reason]]));
  expect((await closed()).filter(([, text]) => text === "")).toEqual([]);
});

test("a value of the cache, and the own role, say why they cannot be saved", async () => {
  const { page } = own;
  await page.goto(`${own.url}/cache`);
  await expect.poll(closed).toEqual([["Write", "Enter a value in JSON."]]);
  await page.getByLabel("Value, as JSON").fill("{");
  await expect.poll(closed).toEqual([["Write", "Enter a value in JSON."]]);
  await page.getByLabel("Value, as JSON").fill("{}");
  await expect.poll(closed).toEqual([]);
  await page.goto(`${own.url}/users`);
  await expect.poll(closed).toEqual([["Platform role of admin", "Another admin can change your role."]]);
});

test("a pricing that cannot be saved says what to do first", async () => {
  const { page } = own;
  await own.open("/upload", "Upload a pricing");
  const text = page.getByLabel("Pricing2Yaml text");
  await text.fill("saasName: [");
  await expect.poll(closed).toEqual([["Save", "Fix the problems first."]]);
  await text.fill(own.sample("tasker"));
  await expect.poll(closed).toEqual([["Save", "Change the name or the version first."]]);
  await text.fill(own.sample("beacon"));
  await expect.poll(closed).toEqual([]);
});

test("a confirmation and a change of plan say what is missing", async () => {
  const { page } = own;
  await own.open("/contracts/ada", "ada");
  await page.getByRole("button", { name: "Change plan" }).first().click();
  await expect.poll(async () => (await closed())[0]?.[1]).toBe("Choose another plan, version or quantity.");
  await page.getByRole("radio", { name: /^BUSINESS/ }).check();
  await page.getByRole("radio", { name: "On a day" }).check();
  await expect.poll(async () => (await closed())[0]?.[1]).toBe("Choose a day.");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete contract" }).click();
  await expect.poll(closed).toEqual([["Delete contract", "Type the name first."]]);
  expect(own.complaints).toEqual([]);
});
