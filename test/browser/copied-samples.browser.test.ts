import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { contract, upload } from "../support/contracting.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";

/* The sample wallet and team page with their back ends, as a team would copy them. */

const ROOT = resolve(import.meta.dirname, "../..");
const SAMPLES = join(ROOT, "src/samples");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let api: TestApi;
let server: RunningServer;
let browser: TestBrowser;
let page: Page;
let folder: string;
/** Addresses of the pages. */
let wallet: string;
let team: string;
const sites: Server[] = [];
const complaints: string[] = [];

async function bundle(file: string, platform: "browser" | "node"): Promise<string> {
  const built = await rolldown({
    input: join(SAMPLES, file),
    platform,
    logLevel: "silent",
    resolve: { alias: { "faregate/client": join(ROOT, "src/client/client.ts") } },
    ...(platform === "browser" ? { transform: { define: { "process.env.NODE_ENV": '"production"' } } } : {}),
  });
  const { output } = await built.generate({ format: "esm", codeSplitting: false });
  return output[0].code;
}

/** Serves a sample with its back end for one user. Returns the address of its page. */
async function serve(name: string, userId: string): Promise<string> {
  const backEnd = join(folder, `${name}.mjs`);
  writeFileSync(backEnd, await bundle(`${name}/back-end.mjs`, "node"));
  const handlers = (await import(pathToFileURL(backEnd).href)) as Record<
    string,
    (request: Request, userId: string) => Promise<Response>
  >;
  const files = new Map([
    ["/", ["text/html", readFileSync(join(SAMPLES, name, "index.html"), "utf8")]],
    ["/style.css", ["text/css", readFileSync(join(SAMPLES, name, "style.css"), "utf8")]],
    ["/page.js", ["text/javascript", await bundle(`${name}/page.jsx`, "browser")]],
  ] as const);
  const site = createServer(async (request, response) => {
    const [type, text] = files.get((request.url ?? "/") as "/") ?? ["text/plain", ""];
    if (request.url !== `/${name}`) return void response.setHeader("content-type", type).end(text);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = parts.length === 0 ? {} : { body: Buffer.concat(parts).toString("utf8") };
    const asked = new Request(`http://localhost/${name}`, { method: request.method ?? "GET", ...body });
    const answer = await handlers[name]?.(asked, userId);
    return void response
      .writeHead(answer?.status ?? 404, { "content-type": "application/json" })
      .end(await answer?.text());
  });
  sites.push(site);
  await new Promise<void>((listening) => site.listen(0, "127.0.0.1", listening));
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;
}

async function expectAccessible(): Promise<void> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(root: Document): Promise<{ violations: { id: string }[] }> };
    };
    return (await axe.run(document)).violations.map(({ id }) => id);
  });
  expect(found).toEqual([]);
}

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  [server, browser] = await Promise.all([startEventServer(api.database.url), launchChromium()]);
  const { key } = api.callers.all;
  const sample = (name: string) => readFileSync(join(SAMPLES, `${name}.yml`), "utf8");
  await upload(api, key, sample("scribe"), sample("huddle"));
  await contract(api, key, "zoe", {
    contractedServices: { scribe: "1.0.0" },
    subscriptionPlans: { scribe: "PRO" },
  });
  await contract(api, key, "acme", {
    contractedServices: { huddle: "1.0.0" },
    subscriptionPlans: { huddle: "DUO" },
  });
  process.env["FAREGATE_URL"] = server.url;
  process.env["FAREGATE_KEY"] = key;
  folder = mkdtempSync(join(tmpdir(), "samples-"));
  [wallet, team] = [await serve("wallet", "zoe"), await serve("team", "acme")];
  page = await browser.newPage();
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
}, 120_000);
afterAll(async () => {
  await browser.close();
  for (const site of sites) site.close();
  await server.stop();
  await api.close();
  rmSync(folder, { recursive: true });
  delete process.env["FAREGATE_URL"];
  delete process.env["FAREGATE_KEY"];
});

test("the wallet shows what is left, and what it is made of; a top-up adds to it", async () => {
  await page.goto(wallet);
  const region = page.getByRole("region", { name: "Wallet" });
  await region.getByText("1,000 of 1,000 left").waitFor();
  await region.getByText("1,000 from your plan, new on").waitFor();
  await region.getByRole("button", { name: "Top up" }).click();
  await region.getByText("1,500 of 1,500 left").waitFor();
  await region.getByText("Given to you: 500 left, no end").waitFor();
  await api.call("POST", "/features/zoe/scribe-write", {
    key: api.callers.all.key,
    body: { "scribe-credits": { picture: 300 } },
  });
  await page.reload();
  await region.getByText("300 of 1,500 left").waitFor();
  await region.getByText("Given to you: 300 left, no end").waitFor();
  await region.getByText("1,200 used").waitFor();
  expect(complaints).toEqual([]);
});

test("the wallet has no violation of accessibility, and shows that it could not be loaded", async () => {
  await expectAccessible();
  await page.route("**/wallet", (route) => route.fulfill({ status: 503, body: "" }));
  await page.reload();
  await page.getByRole("alert").getByText("The wallet could not be loaded (503).").waitFor();
  await expect.poll(() => complaints).toEqual([expect.stringContaining("503")]);
  complaints.splice(0);
});

test("the team page shows who has a seat and what they used, adds while seats are free, and removes", async () => {
  await page.goto(team);
  const region = page.getByRole("region", { name: "Team" });
  await region.getByText("0 of 2 seats").waitFor();
  const add = async (id: string, name: string) => {
    await region.getByLabel("Id").fill(id);
    await region.getByLabel("Name").fill(name);
    await page.keyboard.press("Enter");
  };
  await add("grace", "Grace");
  await region.getByText("1 of 2 seats").waitFor();
  await add("alan", "");
  await region.getByText("2 of 2 seats").waitFor();
  await add("edsger", "Edsger");
  await page.getByRole("alert").getByText("No seat is free: 2 of 2 are taken").waitFor();
  const spent = await fetch(`${server.url}/api/v1/features/acme/huddle-summarize?spender=grace%2Fnotes`, {
    method: "POST",
    headers: { "x-api-key": api.callers.all.key, "content-type": "application/json" },
    body: JSON.stringify({ "huddle-credits": 7 }),
  });
  expect(await spent.json()).toMatchObject({ eval: true });
  await page.reload();
  await region.getByRole("listitem").getByText("7 credits used").waitFor();
  await region.getByText("Nothing used yet").waitFor();
  await expectAccessible();
  await region.getByRole("button", { name: "Remove alan" }).click();
  await region.getByText("1 of 2 seats").waitFor();
  await expect.poll(() => region.getByRole("listitem").count()).toBe(1);
  await expect.poll(() => complaints).toEqual([expect.stringContaining("409")]);
});
