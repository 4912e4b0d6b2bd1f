import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
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

/*
 * Measures messages of a payment provider at a fixed rate, and evaluation beside them. Each message is the first one of its user
 * and therefore a new contract.
 */

const PER_SECOND = 300;
const TICK_MS = 20;
const EVALUATION_PACE_MS = 5;

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));
const p99 = (times: readonly number[]) =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;

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
    const end = new Date(now.getTime() + 30 * 86_400_000).toISOString();
    const signed = async (userId: string) => {
      const fields = { id: `sub_${userId}`, customer: `cus_${userId}`, metadata: { userId }, start, end };
      const body = JSON.stringify(
        eventOf("customer.subscription.created", subscriptionOf(fields), now, `evt_${userId}`),
      );
      return { body, headers: { "stripe-signature": await signStripe(body, now) } };
    };
    /** Sends a message; one that is refused for lack of room is not applied. */
    const send = async ({ body, headers }: Awaited<ReturnType<typeof signed>>) => {
      const begun = performance.now();
      const answer = await fetch(address, { method: "POST", headers, body });
      const { outcome } = (await answer.json()) as { outcome?: string };
      if (answer.status !== 503 && outcome !== "applied") throw new Error(`${answer.status} ${outcome}`);
      return { milliseconds: performance.now() - begun, isApplied: outcome === "applied" };
    };
    const warmUp = 200;
    const prepared = await Promise.all(
      Array.from({ length: warmUp + PER_SECOND * seconds }, (_, i) => signed(`user-${i}`)),
    );
    for (const message of prepared.slice(0, warmUp)) await send(message);

    const evaluateUntil = async (isOver: () => boolean) => {
      const times: number[] = [];
      for (; !isOver(); await pause(EVALUATION_PACE_MS)) {
        const begun = performance.now();
        const path = `/api/v1/features/user-${times.length % warmUp}/tasker-board`;
        const answer = await fetch(server.url + path, { method: "POST", headers: { "x-api-key": key } });
        await answer.text();
        times.push(performance.now() - begun);
      }
      return p99(times);
    };
    let isOver = false;
    setTimeout(() => (isOver = true), seconds * 1_000);
    const alone = await evaluateUntil(() => isOver);

    const begun = performance.now();
    const sent: ReturnType<typeof send>[] = [];
    let areAnswered = false;
    const beside = evaluateUntil(() => areAnswered);
    for (const [index, message] of prepared.slice(warmUp).entries()) {
      if (index % ((PER_SECOND * TICK_MS) / 1_000) === 0)
        await pause(Math.max(0, begun + (index * 1_000) / PER_SECOND - performance.now()));
      sent.push(send(message));
    }
    const done = await Promise.all(sent);
    const took = (performance.now() - begun) / 1_000;
    areAnswered = true;
    const [answered, evaluated] = [p99(done.map(({ milliseconds }) => milliseconds)), await beside];
    const applied = done.filter(({ isApplied }) => isApplied).length / took;
    return [
      {
        name: `messages applied a second, of ${PER_SECOND} sent`,
        value: applied,
        target: `>= ${PER_SECOND * 0.95}`,
        ok: applied >= PER_SECOND * 0.95,
      },
      { name: "answer to a message, p99 (ms)", value: answered, target: "<= 100", ok: answered <= 100 },
      {
        name: "evaluation beside these messages / alone, p99",
        detail: `${evaluated.toFixed(1)} ms of ${alone.toFixed(1)} ms`,
        value: evaluated / alone,
        target: "<= 1.5",
        ok: evaluated / alone <= 1.5,
      },
    ];
  } finally {
    await server.stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
