import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { launchChromium } from "../support/chromium.ts";
import { contract, upload } from "../support/contracting.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";

/* The sample wallet with its back end, as a team would copy both. */

const ROOT = resolve(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "src/samples/wallet");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let api: TestApi;
let server: RunningServer;
let browser: Browser;
let page: Page;
let site: Server;
let folder: string;
const complaints: string[] = [];

async function bundle(file: string, platform: "browser" | "node"): Promise<string> {
  const built = await rolldown({
    input: join(FOLDER, file),
    platform,
    logLevel: "silent",
    resolve: { alias: { "faregate/client": join(ROOT, "src/client/client.ts") } },
    ...(platform === "browser" ? { transform: { define: { "process.env.NODE_ENV": '"production"' } } } : {}),
  });
  const { output } = await built.generate({ format: "esm", codeSplitting: false });
  return output[0].code;
}

beforeAll(async () => {
  api = await createTestApi({ resources: { keyring: await testKeyring(), now: () => new Date() } });
  [server, browser] = await Promise.all([startEventServer(api.database.url), launchChromium()]);
  const { key } = api.callers.all;
  await upload(api, key, readFileSync(join(ROOT, "src/samples/scribe.yml"), "utf8"));
  await contract(api, key, "zoe", {
    contractedServices: { scribe: "1.0.0" },
    subscriptionPlans: { scribe: "PRO" },
  });
  process.env["FAREGATE_URL"] = server.url;
  process.env["FAREGATE_API_KEY"] = key;
  folder = mkdtempSync(join(tmpdir(), "wallet-"));
  const backEnd = join(folder, "back-end.mjs");
  writeFileSync(backEnd, await bundle("back-end.mjs", "node"));
  const { wallet } = (await import(pathToFileURL(backEnd).href)) as {
    wallet: (request: Request, userId: string) => Promise<Response>;
  };
  const files = new Map([
    ["/", ["text/html", readFileSync(join(FOLDER, "index.html"), "utf8")]],
    ["/style.css", ["text/css", readFileSync(join(FOLDER, "style.css"), "utf8")]],
    ["/page.js", ["text/javascript", await bundle("page.jsx", "browser")]],
  ] as const);
  site = createServer(async (request, response) => {
    const [type, text] = files.get((request.url ?? "/") as "/") ?? ["text/plain", ""];
    if (request.url !== "/wallet") return void response.setHeader("content-type", type).end(text);
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = parts.length === 0 ? {} : { body: Buffer.concat(parts).toString("utf8") };
    const answer = await wallet(
      new Request("http://localhost/wallet", { method: request.method ?? "GET", ...body }),
      "zoe",
    );
    return void response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  });
  await new Promise<void>((listening) => site.listen(0, "127.0.0.1", listening));
  page = await browser.newPage();
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
}, 120_000);
afterAll(async () => {
  await browser.close();
  site.close();
  await server.stop();
  await api.close();
  rmSync(folder, { recursive: true });
  delete process.env["FAREGATE_URL"];
  delete process.env["FAREGATE_API_KEY"];
});

test("the wallet shows what is left, and what it is made of; a top-up adds to it", async () => {
  const wallet = page.getByRole("region", { name: "Wallet" });
  await wallet.getByText("1,000 of 1,000 left").waitFor();
  await wallet.getByText("1,000 from your plan, new on").waitFor();
  await wallet.getByRole("button", { name: "Top up" }).click();
  await wallet.getByText("1,500 of 1,500 left").waitFor();
  await wallet.getByText("Given to you: 500 left, no end").waitFor();
  await api.call("POST", "/features/zoe/scribe-write", {
    key: api.callers.all.key,
    body: { "scribe-credits": { picture: 300 } },
  });
  await page.reload();
  await wallet.getByText("300 of 1,500 left").waitFor();
  await wallet.getByText("Given to you: 300 left, no end").waitFor();
  await wallet.getByText("1,200 used").waitFor();
  expect(complaints).toEqual([]);
});

test("the wallet has no violation of accessibility, and says when it cannot be loaded", async () => {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(root: Document): Promise<{ violations: { id: string }[] }> };
    };
    return (await axe.run(document)).violations.map(({ id }) => id);
  });
  expect(found).toEqual([]);
  await page.route("**/wallet", (route) => route.fulfill({ status: 503, body: "" }));
  await page.reload();
  await page.getByRole("alert").getByText("The wallet could not be loaded (503).").waitFor();
});
