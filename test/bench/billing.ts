import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../../src/db/migrate.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { eventOf, PRICES, signStripe, STRIPE_SECRET, subscriptionOf } from "../support/billing.ts";
import { startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { yamlUpload } from "../support/uploads.ts";
import type { BenchRow } from "./pricing.ts";
import { cpuMsOf, postmasterOf } from "./processes.ts";
import { exchange } from "../support/exchange.ts";

/*
 * Measures messages of a payment provider at a fixed rate, and evaluation beside them. In the first load each message is the first
 * one of its user and therefore a new contract; in the second load each begins the next period of one of these contracts.
 */

const PER_SECOND = 300;
const TICK_MS = 20;
const EVALUATION_PACE_MS = 5;
/** Load before the measurement, so that the compilers of the server and the statistics of new tables are ready. */
const WARM_UP_SECONDS = 8;
/** Users that are evaluated. */
const EVALUATED = 200;

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const p99 = (times: readonly number[]) =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;

/** Connections of the provider, and of callers that evaluate. */
const [provider, callers] = [64, 1].map((maxSockets) => new Agent({ keepAlive: true, maxSockets }));

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const seconds = quick ? 3 : 20;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  await migrate(database.url, MIGRATIONS);
  const server = await startRestServer(await builtRestOn("Node 20"), database.url);
  try {
    const post = async <T>(path: string, body: object, key = "", method = "POST"): Promise<T> => {
      const isForm = body instanceof FormData;
      const headers = { "x-api-key": key, ...(isForm ? {} : { "content-type": "application/json" }) };
      const init = { method, headers, body: isForm ? body : JSON.stringify(body) };
      const answer = await fetch(`${server.url}/api/v1${path}`, init);
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    };
    const { apiKey } = await post<{ apiKey: string }>("/users", {
      username: "owner",
      password: "a-password-nobody-has",
    });
    const { id, apiKeys } = await post<{ id: string; apiKeys: { key: string }[] }>(
      "/organizations",
      { name: "Billed Inc.", owner: "owner" },
      apiKey,
    );
    const key = apiKeys[0]?.key ?? "";
    await post("/services", yamlUpload(readFileSync("src/samples/tasker.yml", "utf8")), key);
    const { url } = await post<{ url: string }>(
      `/organizations/${id}/billing/stripe`,
      { secret: STRIPE_SECRET, prices: PRICES },
      apiKey,
      "PUT",
    );
    const address = `${server.url}${new URL(url).pathname}`;
    const now = new Date();
    const start = now.toISOString();
    const days = (count: number) => new Date(now.getTime() + count * 86_400_000).toISOString();
    /** Signs messages of users ahead, so that signing takes no processor time from the server. */
    const signed = async (what: "created" | "updated", userIds: readonly string[]) =>
      Promise.all(
        userIds.map(async (userId) => {
          const period = what === "created" ? { start, end: days(30) } : { start: days(30), end: days(60) };
          const fields = { id: `sub_${userId}`, customer: `cus_${userId}`, metadata: { userId }, ...period };
          const subscription = subscriptionOf({ ...fields, created: Math.floor(now.getTime() / 1_000) });
          const sentAt = new Date();
          const body = JSON.stringify(
            eventOf(`customer.subscription.${what}`, subscription, sentAt, `evt_${what}_${userId}`),
          );
          return { body, headers: { "stripe-signature": await signStripe(body, sentAt) } };
        }),
      );
    /** Sends a message; one that is refused for lack of room is not applied. */
    const send = async ({ body, headers }: Awaited<ReturnType<typeof signed>>[number]) => {
      const begun = performance.now();
      const { status, text } = await exchange(address, { method: "POST", agent: provider, headers }, body);
      const { outcome } = JSON.parse(text || "{}") as { outcome?: string };
      if (status !== 503 && outcome !== "applied") throw new Error(`${status} ${outcome}`);
      return { milliseconds: performance.now() - begun, isApplied: outcome === "applied" };
    };
    /** Sends messages at the fixed rate. Returns what became of each. */
    const sendPaced = async (messages: Awaited<ReturnType<typeof signed>>) => {
      const begun = performance.now();
      const sent: ReturnType<typeof send>[] = [];
      for (const [index, message] of messages.entries()) {
        if (index % ((PER_SECOND * TICK_MS) / 1_000) === 0)
          await pause(Math.max(0, begun + (index * 1_000) / PER_SECOND - performance.now()));
        sent.push(send(message));
      }
      return Promise.all(sent);
    };
    const warmUp = PER_SECOND * WARM_UP_SECONDS;
    const userIds = Array.from({ length: warmUp + PER_SECOND * seconds }, (_, i) => `user-${i}`);
    await sendPaced(await signed("created", userIds.slice(0, warmUp)));

    const evaluateUntil = async (isOver: () => boolean) => {
      const times: number[] = [];
      for (; !isOver(); await pause(EVALUATION_PACE_MS)) {
        const begun = performance.now();
        const path = `/api/v1/features/user-${times.length % EVALUATED}/tasker-board`;
        await exchange(server.url + path, { method: "POST", agent: callers, headers: { "x-api-key": key } });
        times.push(performance.now() - begun);
      }
      return p99(times);
    };
    let isOver = false;
    setTimeout(() => (isOver = true), seconds * 1_000);
    const alone = await evaluateUntil(() => isOver);

    const postmaster = postmasterOf(folder);
    /** Sends messages at the fixed rate, evaluates beside them, and reports both. */
    const load = async (name: string, messages: Awaited<ReturnType<typeof signed>>): Promise<BenchRow[]> => {
      const processorTimes = () => {
        const { user, system } = process.cpuUsage();
        return [cpuMsOf(server.process.pid), cpuMsOf(postmaster), (user + system) / 1_000];
      };
      const before = processorTimes();
      const begun = performance.now();
      let areAnswered = false;
      const beside = evaluateUntil(() => areAnswered);
      const done = await sendPaced(messages);
      const took = (performance.now() - begun) / 1_000;
      areAnswered = true;
      const [answered, evaluated] = [p99(done.map(({ milliseconds }) => milliseconds)), await beside];
      const applied = done.filter(({ isApplied }) => isApplied).length / took;
      const spent = processorTimes().map((time, i) => ((time - (before[i] ?? 0)) / messages.length).toFixed(2));
      return [
        {
          name: `${name} applied a second, of ${PER_SECOND} sent`,
          detail: `processor time per message, evaluations included: REST ${spent[0]}, Postgres ${spent[1]}, this generator ${spent[2]} ms`,
          value: applied,
          target: `>= ${PER_SECOND * 0.95}`,
          ok: applied >= PER_SECOND * 0.95,
        },
        { name: `answer to one of ${name}, p99 (ms)`, value: answered, target: "<= 100", ok: answered <= 100 },
        {
          name: `evaluation beside ${name} / alone, p99`,
          detail: `${evaluated.toFixed(1)} ms of ${alone.toFixed(1)} ms`,
          value: evaluated / alone,
          target: "<= 1.5",
          ok: evaluated / alone <= 1.5,
        },
      ];
    };
    const measured = userIds.slice(warmUp);
    const created = await load("new contracts", await signed("created", measured));
    return [...created, ...(await load("new periods", await signed("updated", measured)))];
  } finally {
    await server.stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
