import { serve } from "@hono/node-server";
import { Hono } from "hono";
import postgres from "postgres";

/*
 * What Faregate is measured against, in a process of its own: Hono over postgres.js with the same pool, one bare atomic
 * statement a request and nothing else. `node --import tsx test/bench/bare-handlers.ts <database url> <port>`.
 */

const [databaseUrl = "", port = ""] = process.argv.slice(2);
const sql = postgres(databaseUrl, { max: 10, onnotice: () => {} });
await sql`create table if not exists bench_counters (id integer primary key, n numeric not null default 0)`;
await sql`insert into bench_counters (id) select generate_series(0, 9999) on conflict do nothing`;

const app = new Hono()
  .get("/json", (c) => c.json({ eval: true, limit: null, used: null, error: null }))
  .post("/select/:id", async (c) => {
    const [row] = await sql`select n from bench_counters where id = ${Number(c.req.param("id"))}`;
    return c.json({ used: Number(row?.["n"]) });
  })
  .post("/update/:id", async (c) => {
    const { amount } = await c.req.json<{ amount: number }>();
    const [row] = await sql`
      update bench_counters set n = n + ${amount} where id = ${Number(c.req.param("id"))} returning n`;
    return c.json({ used: Number(row?.["n"]) });
  });

serve({ fetch: app.fetch, port: Number(port), hostname: "127.0.0.1" }, () => process.stdout.write("ready\n"));
