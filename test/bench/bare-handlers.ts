import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { CompactSign } from "jose";
import postgres from "postgres";
import { forDriver } from "../../src/db/postgres/address.ts";

/*
 * Baseline for Faregate in its own process: minimal handlers in Hono over postgres.js, with the same pool. `node
 * --import tsx test/bench/bare-handlers.ts <database url> <port>`.
 */

const [databaseUrl = "", port = ""] = process.argv.slice(2);
const sql = postgres(...forDriver(databaseUrl, { max: 10, onnotice: () => {} }));
await sql`create table if not exists bench_counters (id integer primary key, n numeric not null default 0)`;
await sql`insert into bench_counters (id) select generate_series(0, 9999) on conflict do nothing`;

const FEATURES = 30;
const answer = { eval: true, limit: null, used: null, error: null };
const plans = new Map([["key", { features: Array.from({ length: FEATURES }, (_, i) => i % 2 === 0) }]]);
/** Closures, like the engine's compiled expressions. */
const rules = Array.from({ length: FEATURES }, (_, i) => ({
  id: `meter-feature${i}`,
  run: (plan: { features: boolean[] }) => plan.features[i] === true,
}));
const tokenKey = await crypto.subtle.importKey(
  "raw",
  new Uint8Array(32).fill(7),
  { name: "HMAC", hash: "SHA-256" },
  false,
  ["sign"],
);
const values = Object.fromEntries(rules.map(({ id }, i) => [id, i % 2 === 0]));

serve(
  {
    fetch: new Hono()
      .get("/ready", (c) => c.json(answer))
      .post("/one", async (c) => {
        await c.req.json();
        return c.json(answer);
      })
      .post("/thirty", async (c) => {
        const plan = plans.get(c.req.header("x-api-key") ?? "");
        if (plan === undefined) return c.json({ error: "unknown key" }, 401);
        await c.req.json();
        const result: Record<string, boolean> = {};
        for (const { id, run } of rules) result[id] = run(plan);
        return c.json(result);
      })
      .post("/token", async (c) => {
        const features = Object.fromEntries(rules.map(({ id }) => [id, answer]));
        const iat = Math.floor(Date.now() / 1000);
        const payload = JSON.stringify({
          features,
          pricingContext: { features: values, usageLimits: {} },
          subscriptionContext: {},
          iat,
          exp: iat + 3600,
          sub: "user-1",
        });
        const token = await new CompactSign(new TextEncoder().encode(payload))
          .setProtectedHeader({ alg: "HS256" })
          .sign(tokenKey);
        return c.json({ pricingToken: token });
      })
      .post("/select/:id", async (c) => {
        await c.req.json();
        const [row] = await sql`select n from bench_counters where id = ${Number(c.req.param("id"))}`;
        return c.json({ used: Number(row?.["n"]) });
      })
      .post("/update/:id", async (c) => {
        const { amount } = await c.req.json<{ amount: number }>();
        const [row] = await sql`
          update bench_counters set n = n + ${amount} where id = ${Number(c.req.param("id"))} returning n`;
        return c.json({ used: Number(row?.["n"]) });
      }).fetch,
    port: Number(port),
    hostname: "127.0.0.1",
  },
  () => process.stdout.write("ready\n"),
);
