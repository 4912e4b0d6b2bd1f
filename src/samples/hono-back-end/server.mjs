import { serve } from "@hono/node-server";
import { Faregate } from "faregate";
import { Hono } from "hono";

/*
 * A back end that asks before it acts. The header stands in for your own sign-in: never take a user's id from a request
 * that you have not authenticated.
 */

const { features } = new Faregate({ url: process.env.FAREGATE_URL, apiKey: process.env.FAREGATE_KEY });
const app = new Hono();

/** Pricing token for the page, which holds no API key. */
app.get("/api/pricing-token", async (c) => c.text(await features.pricingToken(userOf(c))));

/** Counts the task and creates it, or says why not. */
app.post("/api/tasks", async (c) => {
  const use = { consumption: { "tasker-maxTasks": 1 }, strict: true };
  const { eval: isAllowed, remaining } = await features.evaluate(userOf(c), "tasker-board", use);
  if (!isAllowed) return c.json({ error: "You have used all tasks of this month." }, 402);
  return c.json({ created: true, remaining: remaining["tasker-maxTasks"] }, 201);
});

const userOf = (c) => c.req.header("x-user") ?? "ada";

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 4000) }, ({ port }) =>
  console.log(`The back end is listening on port ${port}`),
);
