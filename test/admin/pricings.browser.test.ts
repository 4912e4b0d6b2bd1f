import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { Request } from "playwright-core";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();

const newer = () =>
  own.sample("tasker").replace('version: "1.0.0"', 'version: "1.1.0"').replace("2025-03-01", "2025-06-01");

test("a first service is created from a file that is checked before it is saved", async () => {
  const { page } = own;
  await own.open("/services", "Services");
  await page.getByText("No services yet").waitFor();
  await page.getByRole("main").getByRole("link", { name: "Upload a pricing" }).first().click();
  await page.getByRole("heading", { level: 1, name: "Upload a pricing" }).waitFor();
  await page.getByLabel("Choose a file").setInputFiles({
    name: "tasker.yml",
    mimeType: "application/yaml",
    buffer: Buffer.from(`\uFEFF${own.sample("tasker")}`, "utf16le"),
  });
  await page.getByRole("alert").getByText("The file is encoded in UTF-16. Save it as UTF-8.").waitFor();
  const broken = own.sample("tasker").replace("type: GUARANTEE", "type: PROMISE").replace("price: 6", "price: [6]");
  await page.getByLabel("Choose a file").setInputFiles({
    name: "tasker.yml",
    mimeType: "application/yaml",
    buffer: Buffer.from(broken),
  });
  await page.getByText(/^Fix \d+ problems? to save it$/).waitFor();
  // The first problem is in view, in words for people.
  await expect.poll(() => page.locator(".yaml-editor .has-problem").first().textContent()).toContain("PROMISE");
  await page.getByText("The price field must be a number or a string").waitFor();
  await expect.poll(() => page.getByText("Error parsing").count()).toBe(0);
  const line = broken.split("\n").findIndex((text) => text.includes("price: [6]")) + 1;
  await page.getByRole("button", { name: `Line ${line}` }).click();
  await expect.poll(() => page.locator(".yaml-editor .active-line").textContent()).toContain("price: [6]");
  await expect.poll(() => page.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
  await expectAccessible(page);
  await page.getByLabel("Choose a file").setInputFiles({
    name: "tasker.yml",
    mimeType: "application/yaml",
    buffer: Buffer.from(own.sample("tasker")),
  });
  await page.getByText("Creates the service Tasker with version 1.0.0.").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { level: 1, name: "Tasker" }).waitFor();
  await page.getByRole("link", { name: "Open version 1.0.0" }).waitFor();
  await expectAccessible(page);
  expect(own.complaints).toEqual([]);
});

test("a draft survives leaving the page, and a second version is added", async () => {
  const { page } = own;
  await own.contract("ada", "PRO");
  await page.getByRole("link", { name: "Add version" }).click();
  const editor = page.getByRole("textbox", { name: "Pricing2Yaml text" });
  await editor.click();
  await editor.fill(newer());
  await page.getByText("Adds version 1.1.0 to Tasker.").waitFor();
  await own.open("/services/Tasker", "Tasker");
  await page.getByText("Draft.", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Continue" }).click();
  await page.getByText("Adds version 1.1.0 to Tasker.").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("link", { name: "Open version 1.1.0" }).waitFor();
  await expect.poll(() => page.getByText("Draft.", { exact: true }).count()).toBe(0);
  await page.getByRole("link", { name: "Open version 1.0.0" }).getByText("1 contract").waitFor();
  expect(own.complaints).toEqual([]);
});

test("a version that exists is refused before it is saved, with a link to it", async () => {
  const { page } = own;
  await own.open("/upload?service=Tasker", "Upload a pricing");
  await page.getByRole("textbox", { name: "Pricing2Yaml text" }).fill(newer());
  await page.getByText("Tasker 1.1.0 already exists.").waitFor();
  await page.getByRole("link", { name: "Open version" }).click();
  await page.getByRole("heading", { name: "Plans in 1.1.0" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("a version shows its plans, add-ons, features and uploaded text", async () => {
  const { page } = own;
  await page.getByRole("link", { name: "Open version 1.0.0" }).click();
  const matrix = page.getByRole("region", { name: "What each plan includes" });
  await matrix.getByRole("columnheader", { name: "BUSINESS" }).waitFor();
  await expect.poll(() => matrix.getByRole("columnheader", { name: "BUSINESS" }).textContent()).toContain("€12");
  await expect.poll(() => matrix.getByRole("row", { name: /maxTasks/ }).textContent()).toContain("2,000");
  await expectAccessible(page);
  await page.getByRole("tab", { name: "Add-ons" }).click();
  await page.getByText("Max tasks: 100").waitFor();
  await page.getByRole("tab", { name: "Features" }).click();
  await page.getByText("tasker-board", { exact: true }).waitFor();
  await expectAccessible(page);
  await page.getByRole("tab", { name: "YAML" }).click();
  await page.locator(".yaml-editor").getByText("Tasker: a small task manager", { exact: false }).waitFor();
  await expectAccessible(page);
  await page.reload();
  await page.locator(".yaml-editor").waitFor();
  expect(own.complaints).toEqual([]);
});

test("valid but useless parts of a pricing are listed with their lines before it is saved", async () => {
  const { page } = own;
  await own.open("/upload", "Upload a pricing");
  const text = own.sample("beacon");
  await page
    .getByLabel("Choose a file")
    .setInputFiles({ name: "beacon.yml", mimeType: "application/yaml", buffer: Buffer.from(text) });
  await page.getByText("Creates the service").waitFor();
  await expect.poll(() => page.getByText("Ready to save").count()).toBe(0);
  const found = page.locator("section", { hasText: "Before you save" });
  await found.getByText("Warning", { exact: true }).waitFor();
  await found.getByText("Note", { exact: true }).waitFor();
  const line = text.split("\n").findIndex((each) => each.startsWith("  apiCalls:")) + 1;
  await found.getByRole("button", { name: `Line ${line}` }).click();
  await expect.poll(() => page.locator(".yaml-editor .active-line").textContent()).toContain("apiCalls:");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("link", { name: "Open version 2025.1" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("a version with errors is compared with the active one, and saved only after an explicit consent", async () => {
  const { page } = own;
  const text = own
    .sample("tasker")
    .replace('version: "1.0.0"', 'version: "1.2.0"')
    .replace("2025-03-01", "2025-07-01")
    .replace("defaultValue: 20", "defaultValue: 10")
    .replace("=== '99.9%'", "=== '99.99%'");
  await own.open("/upload?service=Tasker", "Upload a pricing");
  await page
    .getByLabel("Choose a file")
    .setInputFiles({ name: "tasker.yml", mimeType: "application/yaml", buffer: Buffer.from(text) });
  const found = page.locator("section", { hasText: "Before you save" });
  await found.getByText("Error", { exact: true }).waitFor();
  await page.getByRole("heading", { name: "Compared with 1.1.0" }).waitFor();
  await page.getByText("20 → 10").first().waitFor();
  const save = page.getByRole("button", { name: "Save", exact: true });
  const consent = page.getByLabel("Save anyway, with 1 error");
  expect(await save.isDisabled()).toBe(true);
  await expectAccessible(page);
  await consent.check();
  await expect.poll(() => save.isDisabled()).toBe(false);
  await page.getByLabel("Expectations (optional)").setInputFiles({
    name: "tasker.expect.yml",
    mimeType: "application/yaml",
    buffer: Buffer.from("expectations:\n  - name: FREE exports\n    plan: FREE\n    features: { export: true }\n"),
  });
  await found.getByText("1 of 1 expectations are not met", { exact: false }).waitFor();
  await page.getByLabel("Save anyway, with 2 errors").waitFor();
  // Consent to fewer errors is no consent to more.
  expect(await save.isDisabled()).toBe(true);
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await consent.check();
  await save.click();
  await page.getByRole("link", { name: "Open version 1.2.0" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("the console shows a very large pricing", async () => {
  const { page } = own;
  await own.upload(own.sample("atlas"));
  await own.open("/services", "Services");
  await page.getByLabel("Find a service").fill("atl");
  await expect.poll(() => page.url()).toContain("q=atl");
  await page.getByRole("link", { name: "Atlas Workspace" }).waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Atlas Workspace" }).click();
  await page.getByRole("region", { name: "What each plan includes" }).waitFor();
  expect(own.complaints).toEqual([]);
});

test("a service is downloaded as files, with the expectations that its page shows", async () => {
  const { page } = own;
  const form = new FormData();
  form.append("pricing", new Blob([own.sample("tasker").replace("saasName: Tasker", "saasName: Folder")]), "p.yml");
  const expectations = "expectations:\n  - { plan: PRO, features: { board: true } }\n";
  form.append("expectations", new Blob([expectations]), "e.yml");
  await own.call("POST", "/services", form, own.key);
  await own.open("/services/Folder", "Folder");
  await page.getByRole("tab", { name: "YAML" }).click();
  await page.getByRole("heading", { name: "Expectations" }).waitFor();
  await expect.poll(() => page.locator(".yaml-editor").count()).toBe(2);
  await expect.poll(() => page.locator(".yaml-editor").last().textContent()).toContain("plan: PRO, features");
  await expectAccessible(page);
  await page.getByRole("button", { name: "More actions" }).click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("menuitem", { name: "Download as files" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("folder.zip");
  const archive = await readFile(await download.path(), "utf8");
  expect(archive).toContain("- { file: folder/1.0.0.yml, expectations: folder/1.0.0.expectations.yml }");
  expect(archive).toContain(expectations);
  expect(own.complaints).toEqual([]);
});

test("a service is renamed, and disabled only after typing its name", async () => {
  const { page } = own;
  await own.open("/services/Atlas%20Workspace", "Atlas Workspace");
  await page.getByLabel("Name").fill("Globe");
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("heading", { level: 1, name: "Globe" }).waitFor();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Disable service" }).click();
  await page.getByText("The service has no contracts. Disabling it affects nobody.").waitFor();
  await page.getByRole("button", { name: "Disable Globe" }).click();
  const dialog = page.getByRole("dialog");
  const confirm = dialog.getByRole("button", { name: "Disable Globe" });
  await expect.poll(() => confirm.isDisabled()).toBe(true);
  await expectAccessible(page);
  await dialog.getByLabel("Type Globe to confirm").fill("Globe");
  await confirm.click();
  await page.getByRole("link", { name: "Back to the services" }).click();
  await page.getByRole("heading", { level: 1, name: "Services" }).waitFor();
  await expect.poll(() => page.getByRole("link", { name: "Globe" }).count()).toBe(0);
  expect(own.complaints).toEqual([]);
});

test("a draft with illegal keys shows what they become, and renames them everywhere in its text", async () => {
  const { page } = own;
  await own.open("/upload", "Upload a pricing");
  const text = page.getByLabel("Pricing2Yaml text");
  const illegal = own
    .sample("tasker")
    .replace("saasName: Tasker", "saasName: Support")
    .replaceAll("darkMode", "24/7support")
    .replaceAll("BUSINESS", '"Business+"');
  await text.fill(illegal);
  await page.getByText('Allowed are A-Z, a-z, 0-9, "_" and "-", such as "support247".').waitFor();
  await page.getByRole("row", { name: "24/7support support247 4" }).waitFor();
  await page.getByRole("row", { name: "Business+ Business_Plus 2" }).waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Rename 2 keys" }).click();
  await page.getByText("Ready to save. Creates the service Support with version 1.0.0.").waitFor();
  await expect.poll(() => page.getByText("Rename these keys?").count()).toBe(0);
  await text.fill(illegal.replace("  export:\n", "  support247:\n"));
  await page.getByText("These keys must be renamed by hand.").waitFor();
  await page.getByText('"24/7support" in features would become "support247", which another key has.').waitFor();
  await text.fill("");
  expect(own.complaints).toEqual([]);
});

test("a list of many services requests the counts of one page only", async () => {
  const { page } = own;
  for (let number = 10; number < 70; number += 1)
    await own.upload(own.sample("tasker").replace("saasName: Tasker", `saasName: Many${number}`));
  let counts = 0;
  const onRequest = (request: Request) => void (counts += request.url().includes("/contracts?limit=1&") ? 1 : 0);
  page.on("request", onRequest);
  await own.open("/services", "Services");
  await page.getByRole("link", { name: "Many10" }).waitFor();
  await page.getByText(/^1–50 of /).waitFor();
  await expect.poll(() => page.getByRole("cell", { name: "…" }).count()).toBe(0);
  expect(counts).toBeLessThanOrEqual(50);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("link", { name: "Many69" }).waitFor();
  await page.getByLabel("Find a service").fill("many1");
  await page.getByRole("link", { name: "Many19" }).waitFor();
  expect(await page.getByRole("row").count()).toBe(11);
  page.off("request", onRequest);
});
