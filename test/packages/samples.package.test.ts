import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from "vitest";
import { freePort } from "../entries/launcher.ts";
import { launchChromium, type TestBrowser } from "../support/chromium.ts";
import { eventOf, PRICES, signStripe, STRIPE_SECRET, subscriptionOf } from "../support/billing.ts";
import { startStripeStandIn } from "../support/stripe-stand-in.ts";
import { environmentOf, execute, type Started, startProgram } from "./programs.ts";
import { type PackagedServer, startPackagedServer } from "./running-server.ts";

/*
 * The sample applications, built outside of this project with what the registry resolves. Their server runs from its own
 * tarball, and their pages are used in Chromium.
 */

const SAMPLES = resolve(import.meta.dirname, "../../src/samples");
let server: PackagedServer;
let browser: TestBrowser;
let env: Record<string, string>;
let page: Page;
let complaints: string[];
const folders: string[] = [];
const started: Started[] = [];

beforeAll(async () => {
  [server, browser] = await Promise.all([startPackagedServer(inject("tarballs").installation), launchChromium()]);
  await server.contract("ada");
  env = { ...(await environmentOf("Node 20")), FAREGATE_URL: server.url, FAREGATE_KEY: server.key };
});
afterAll(async () => {
  await Promise.all([server.stop(), browser.close()]);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  page = await browser.newPage();
  complaints = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
});
afterEach(async () => {
  // A stopped server waits for the connections that a browser opens ahead of its requests.
  await page.close();
  for (const program of started.splice(0)) await program.stop();
  expect(complaints).toEqual([]);
});

/** Installs a sample in a folder of its own, with the tarball in place of the published package. */
async function install(sample: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), `faregate-sample-`));
  folders.push(folder);
  cpSync(join(SAMPLES, sample), folder, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  manifest.dependencies.faregate = `file:${inject("tarballs").library}`;
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  await execute(["npm", "install", "--no-audit", "--no-fund", "--prefer-offline"], { cwd: folder, env });
  return folder;
}

/** Starts a program of a sample until the test ends. */
function start(folder: string, command: readonly string[], extra: Record<string, string> = {}): Started {
  const program = startProgram(command, { cwd: folder, env: { ...env, ...extra } });
  started.push(program);
  return program;
}

const used = async (): Promise<number> => {
  const answer = await fetch(`${server.url}/api/v1/contracts/ada`, { headers: { "x-api-key": server.key } });
  const contract = (await answer.json()) as { usageLevels: { tasker: { maxTasks: { consumed: number } } } };
  return contract.usageLevels.tasker.maxTasks.consumed;
};

test("Vite with React 19 shows the features of a token from a Hono back end, and the usage after each task", async () => {
  const [backEnd, front] = await Promise.all([install("hono-back-end"), install("vite-react")]);
  const [apiPort, port] = [await freePort(), await freePort()];
  await execute(["npm", "run", "-s", "build"], { cwd: front, env });
  const running = start(backEnd, ["node", "server.mjs"], { PORT: apiPort });
  await running.says(/listening/);
  const preview = ["node", "node_modules/vite/bin/vite.js", "preview", "--port", port, "--host", "127.0.0.1"];
  await start(front, preview, { BACK_END: `http://127.0.0.1:${apiPort}` }).says(/Local/);
  const before = await used();
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.getByRole("button", { name: `New task (${before} of 200)` }).click();
  await page.getByRole("button", { name: `New task (${before + 1} of 200)` }).waitFor();
  expect(await page.getByText("Export comes with BUSINESS.").count()).toBe(1);
  expect(await used()).toBe(before + 1);
  const refused = await fetch(`http://127.0.0.1:${apiPort}/api/tasks`, {
    method: "POST",
    headers: { "x-user": "nobody" },
  });
  expect(refused.ok).toBe(false);
}, 200_000);

test("Next 15 renders a server component with the answers, hydrates without a complaint, and shows new usage", async () => {
  const folder = await install("next");
  await execute(["npm", "run", "-s", "build"], { cwd: folder, env });
  const port = await freePort();
  const next = ["node", "node_modules/next/dist/bin/next", "start", "--port", port, "--hostname", "127.0.0.1"];
  await start(folder, next).says(/Ready/);
  const before = await used();
  const html = await (await fetch(`http://127.0.0.1:${port}/`)).text();
  expect(html.replaceAll("<!-- -->", "")).toContain(`Rendered with ${before} of 200 tasks.`);
  expect(html.replaceAll("<!-- -->", "")).toContain(`New task (${before} of 200)`);
  expect(html).toContain("Export comes with BUSINESS.");
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.getByRole("button", { name: `New task (${before} of 200)` }).click();
  await page.getByRole("button", { name: `New task (${before + 1} of 200)` }).waitFor();
  expect(await used()).toBe(before + 1);
}, 200_000);

test("a Worker consumes, and answers with the usage", async () => {
  const folder = await install("worker");
  writeFileSync(join(folder, ".dev.vars"), `FAREGATE_URL=${server.url}\nFAREGATE_KEY=${server.key}\n`);
  const port = await freePort();
  const wrangler = ["node", "node_modules/wrangler/bin/wrangler.js", "dev", "--port", port, "--ip", "127.0.0.1"];
  const quiet = { CLOUDFLARE_CF_FETCH_ENABLED: "false", WRANGLER_SEND_METRICS: "false" };
  await start(folder, wrangler, quiet).says(/Ready on/);
  const before = await used();
  const made = await fetch(`http://127.0.0.1:${port}/`, { method: "POST" });
  expect([made.status, await made.json()]).toEqual([201, { created: true }]);
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).json()).toMatchObject({ used: before + 1, limit: 200 });
}, 200_000);

test("a checkout buys what unlocks a feature or what a price page shows, and Stripe's messages move the contract", async () => {
  const folder = await install("checkout");
  const stripe = await startStripeStandIn();
  const api = `${server.url}/api/v1`;
  const connected = await fetch(`${api}/organizations/${server.organizationId}/billing/stripe`, {
    method: "PUT",
    headers: { "x-api-key": server.userKey, "content-type": "application/json" },
    body: JSON.stringify({ secret: STRIPE_SECRET, prices: PRICES }),
  });
  const { url } = (await connected.json()) as { url: string };
  const port = await freePort();
  await start(folder, ["node", "server.mjs"], {
    PORT: port,
    STRIPE_KEY: "sk_test_none",
    STRIPE_SECRET,
    STRIPE_HOST: "127.0.0.1",
    STRIPE_PORT: stripe.port,
  }).says(/listening/);
  const ask = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", ...init });
    return { status: answer.status, body: (await answer.json()) as { url?: string } };
  };
  expect(await ask("/api/unlock/tasker-export")).toEqual({
    status: 201,
    body: { url: "https://checkout.example/cs_1" },
  });
  expect(await ask("/api/plans/BUSINESS")).toMatchObject({ status: 201 });
  expect(await ask("/api/portal", { body: JSON.stringify({ customer: "cus_1" }) })).toMatchObject({ status: 201 });
  const [unlocked, planned, portal] = stripe.sessions;
  for (const session of [unlocked, planned]) {
    expect(session?.get("line_items[0][price]")).toBe("price_business");
    expect(session?.get("client_reference_id")).toBe("ada");
  }
  expect(portal?.get("customer")).toBe("cus_1");
  const now = new Date();
  const deliver = async (address: string, event: object) => {
    const body = JSON.stringify(event);
    const headers = { "stripe-signature": await signStripe(body, now) };
    return (await fetch(address, { method: "POST", headers, body })).json();
  };
  const period = { start: now.toISOString(), end: new Date(now.getTime() + 30 * 86_400_000).toISOString() };
  const subscription = subscriptionOf({ ...period, items: ["price_business"] });
  expect(await deliver(url, eventOf("customer.subscription.created", subscription, now))).toMatchObject({
    outcome: "applied",
  });
  const done = eventOf("checkout.session.completed", { mode: "subscription", client_reference_id: "ada" }, now);
  expect(await deliver(`http://127.0.0.1:${port}/webhooks/stripe`, done)).toEqual({ received: true });
  const contract = await fetch(`${api}/contracts/ada`, { headers: { "x-api-key": server.key } });
  expect(await contract.json()).toMatchObject({ subscriptionPlans: { tasker: "BUSINESS" } });
  stripe.close();
}, 200_000);

/** Stands in for the gateway's model: offline, with the usage that a provider reports. It breaks at the prompt "Break". */
const OFFLINE_MODEL = `
import { simulateReadableStream } from "ai";
import { MockLanguageModelV3 } from "ai/test";
const usage = {
  inputTokens: { total: 100, noCache: 100, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 100, text: 100, reasoning: 0 },
};
const isBroken = (prompt) => JSON.stringify(prompt).includes("Break");
export const model = new MockLanguageModelV3({
  doStream: async ({ prompt }) => ({
    stream: simulateReadableStream({
      chunks: [
        { type: "text-start", id: "1" },
        ...["We ship ", "on Friday."].map((delta) => ({ type: "text-delta", id: "1", delta })),
        ...(isBroken(prompt)
          ? [{ type: "error", error: new Error("overloaded") }]
          : [
              { type: "text-end", id: "1" },
              { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
            ]),
      ],
    }),
  }),
});`;

test("a chat spends credits by the rates of the model, within a budget of each conversation", async () => {
  const folder = await install("ai-chat");
  writeFileSync(join(folder, "model.mjs"), OFFLINE_MODEL);
  const api = `${server.url}/api/v1`;
  const form = new FormData();
  form.append("pricing", new Blob([readFileSync(join(SAMPLES, "scribe.yml"))]), "scribe.yml");
  const headers = { "x-api-key": server.key };
  expect((await fetch(`${api}/services`, { method: "POST", headers, body: form })).status).toBe(201);
  const port = await freePort();
  await start(folder, ["node", "server.mjs"], { PORT: port }).says(/listening/);
  const post = (path: string, body: object) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-user": "acme" },
      body: JSON.stringify(body),
    });
  const chat = (conversation: string, prompt = "When?") =>
    post(`/api/chat/${conversation}`, { prompt, person: "grace" });
  const consumed = async () => {
    const contract = (await (await fetch(`${api}/contracts/acme`, { headers })).json()) as {
      usageLevels: { scribe: { credits: { consumed: number } } };
    };
    return contract.usageLevels.scribe.credits.consumed;
  };
  expect((await post("/api/customers", { userId: "acme" })).status).toBe(201);

  const first = await chat("chat-1");
  expect([first.status, await first.text()]).toEqual([200, "We ship on Friday."]);
  expect(await consumed()).toBe(1.2);
  let answer = first;
  for (let more = 0; more < 9 && answer.status === 200; more += 1) {
    answer = await chat("chat-1");
    if (answer.status === 200) await answer.text();
  }
  expect([answer.status, await answer.json()]).toEqual([
    402,
    {
      error: "This conversation has spent its credits. Begin another one.",
      budget: expect.objectContaining({ name: "conversation", spender: "grace/chat-1", amount: 5 }),
    },
  ]);
  const spent = await consumed();
  expect(spent).toBeGreaterThan(4);
  expect(spent).toBeLessThanOrEqual(5);

  expect((await chat("chat-2")).status).toBe(200);
  const broken = await chat("chat-broken", "Break");
  expect([broken.status, await broken.text()]).toEqual([200, "We ship on Friday.\nThe model stopped answering."]);
  const rest = { method: "POST", headers: { ...headers, "content-type": "application/json" } };
  const use = JSON.stringify({ "scribe-credits": { "small.input": 5_000_000 } });
  expect((await fetch(`${api}/features/acme/scribe-write`, { ...rest, body: use })).status).toBe(200);
  const denied = await chat("chat-3");
  expect([denied.status, await denied.json()]).toMatchObject([402, { error: "Your credits of this month are spent." }]);
}, 200_000);
