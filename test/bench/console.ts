import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BrowserContext, Page } from "playwright-core";
import { migrate } from "../../src/db/migrate.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { openConsole, PASSWORD } from "../admin/console.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures the console in a browser: the first page on a processor four times slower, and the list of 2,000 contracts.
 * Medians of several rounds; the browser's cache is empty for the first page only.
 */

const ROUNDS = 7;
/** Speed of the phone that Lighthouse means by "four times slower": a quarter of a fast desktop's benchmark index. */
const PHONE_INDEX = 500;
const CONTRACTS = 2_000;
const AT_ONCE = 8;
/** Time after which every page is loaded; nothing is asked of it before. */
const SETTLED_MS = 4_000;

type Console = Awaited<ReturnType<typeof openConsole>>;

const median = (values: readonly number[]): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Returns a context of a signed-in user with an empty cache. */
async function signedIn(own: Console): Promise<BrowserContext> {
  const context = await own.browser.newContext({ reducedMotion: "reduce" });
  await context.request.post(`${own.server.url}/api/v1/sessions`, { data: { username: "admin", password: PASSWORD } });
  await context.addInitScript(
    ([organization]) => {
      localStorage.setItem("faregate-was-signed-in", "true");
      localStorage.setItem("faregate-organization", organization);
      new PerformanceObserver((list) => {
        for (const task of list.getEntries())
          (globalThis as { lastTask?: number }).lastTask = task.startTime + task.duration;
      }).observe({ type: "longtask", buffered: true });
    },
    [own.organizationId] as const,
  );
  return context;
}

/** Milliseconds from the navigation until the text is shown and no task of 50 ms runs any more. */
async function interactiveAfter(page: Page, url: string, text: string): Promise<number> {
  // Polling would draw a frame each time, which takes longer than the page does.
  await page.addInitScript((wanted) => {
    new MutationObserver((_, observer) => {
      if (document.querySelector("main")?.textContent?.includes(wanted) !== true) return;
      observer.disconnect();
      (globalThis as { shownAt?: number }).shownAt = performance.now();
    }).observe(document, { childList: true, subtree: true, characterData: true });
  }, text);
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForTimeout(SETTLED_MS);
  const at = await page.evaluate(() => (globalThis as { shownAt?: number }).shownAt ?? Number.NaN);
  const lastTask = await page.evaluate(() => (globalThis as { lastTask?: number }).lastTask ?? 0);
  return Math.max(at, lastTask);
}

/** Lighthouse's benchmark index of this machine: thousands of character appends per second. */
async function benchmarkIndex(own: Console): Promise<number> {
  const page = await own.browser.newPage();
  const indexes: number[] = [];
  for (let round = 0; round < 5; round += 1)
    indexes.push(
      await page.evaluate(() => {
        const since = performance.now();
        let texts = 0;
        while (performance.now() - since < 500) {
          let text = "";
          for (let length = 0; length < 10_000; length += 1) text += "a";
          if (text.length === 10_000) texts += 1;
        }
        return texts / 10 / ((performance.now() - since) / 1000);
      }),
    );
  await page.close();
  return median(indexes);
}

async function firstPages(own: Console, slower: number, path: string, text: string): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const context = await signedIn(own);
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: slower });
    times.push(await interactiveAfter(page, own.url + path, text));
    await context.close();
  }
  return times;
}

/** Milliseconds from the click on Contracts until the rows are shown. */
async function lists(own: Console): Promise<number[]> {
  const context = await signedIn(own);
  const page = await context.newPage();
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await page.goto(`${own.url}/o/${own.organizationId}/services`);
    await page.getByRole("heading", { level: 1, name: "Services" }).waitFor();
    times.push(
      await page.evaluate(
        (count) =>
          new Promise<number>((done) => {
            const since = performance.now();
            const observer = new MutationObserver(() => {
              if (document.querySelector("main")?.textContent?.includes(count) !== true) return;
              observer.disconnect();
              requestAnimationFrame(() => done(performance.now() - since));
            });
            observer.observe(document.body, { childList: true, subtree: true, characterData: true });
            document.querySelector<HTMLElement>(".nav a[href$='/contracts']")?.click();
          }),
        "2,000 contracts",
      ),
    );
  }
  await context.close();
  return times;
}

const row = (name: string, times: readonly number[], most: number): BenchRow => ({
  name,
  value: median(times),
  target: `<= ${most} ms`,
  ok: median(times) <= most,
  detail: `${Math.round(Math.min(...times))} to ${Math.round(Math.max(...times))} ms in ${times.length} rounds`,
});

/** Measures the console in Chromium. */
export async function run(): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const { url, stop } = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  await migrate(url, fileURLToPath(new URL("../../src/db/migrations", import.meta.url)));
  const connection = connect(url);
  const own = await openConsole({}, { url, connection, drop: () => connection.close(0) });
  try {
    await own.upload(own.sample("tasker"));
    for (let user = 0; user < CONTRACTS; user += AT_ONCE)
      await Promise.all(Array.from({ length: AT_ONCE }, (_, next) => own.contract(`user-${user + next}`, "PRO")));
    const index = await benchmarkIndex(own);
    const phone = Math.max(1, index / PHONE_INDEX);
    const overview = async (slower: number) => firstPages(own, slower, "/", "Recent activity");
    return [
      row(`sign-in, interactive on a phone (${phone.toFixed(1)} times slower)`, await signInTimes(own, phone), 1_500),
      row(`overview, interactive on a phone (${phone.toFixed(1)} times slower)`, await overview(phone), 1_500),
      row("overview, interactive at a quarter of this machine's speed", await overview(4), 1_500),
      row(`list of ${CONTRACTS} contracts, from the click to the rows`, await lists(own), 300),
    ];
  } finally {
    await own.close();
    await stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function signInTimes(own: Console, slower: number): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const context = await own.browser.newContext();
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: slower });
    times.push(await interactiveAfter(page, own.url, "Sign in"));
    await context.close();
  }
  return times;
}
