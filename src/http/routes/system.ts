import { zValidator } from "@hono/zod-validator";
import { Hono } from "hono";
import { readWeek } from "../../operations/reports/analytics.ts";
import { readCache, writeCache } from "../../operations/reports/cache.ts";
import { Failure } from "../../operations/errors.ts";
import { requireTestEvents, sendTestEvent } from "../../operations/messaging/events.ts";
import { verifyPricingToken } from "../../operations/evaluation/pricing-tokens.ts";
import { testEvent } from "../../wire/events.ts";
import { cacheEntry, cacheQueryParameters, tokenToVerify } from "../../wire/system.ts";
import { type AppEnv, context } from "../context.ts";
import { bodyOf, fieldsOf } from "../body.ts";
import { json, reply } from "../reply.ts";
import { queryParameter } from "../params.ts";
import { channelPage, CHANNEL_SCRIPT } from "./events-page.ts";

const cacheQuery = zValidator("query", cacheQueryParameters, (result) => {
  if (!result.success) throw new Failure("invalid", "Missing key query parameter");
});

export const systemRoutes = new Hono<AppEnv>()
  .post("/pricing-tokens/verify", async (c) =>
    json(c, await verifyPricingToken(context(c), bodyOf(c, tokenToVerify).token)),
  )
  .get("/healthcheck", (c) => json(c, { message: "Service is up and running!" }))
  .get("/analytics/api-calls", async (c) => json(c, await readWeek(context(c), "apiCalls")))
  .get("/analytics/evaluations", async (c) => json(c, await readWeek(context(c), "evaluations")))
  .get("/cache/get", cacheQuery, async (c) => json(c, await readCache(context(c), c.req.valid("query").key)))
  .post("/cache/set", async (c) => {
    const entry = cacheEntry.safeParse(fieldsOf(c));
    if (!entry.success) throw new Failure("invalid", entry.error.issues[0]?.message ?? "INVALID DATA");
    await writeCache(context(c), entry.data);
    return json(c, { message: "Cache set successfully" });
  })
  .get("/events/status", (c) => json(c, { status: "The WebSocket event service is active" }))
  .get("/events/client", (c) => c.html(channelPage("client.js")))
  .get("/events/client.js", (c) => reply(c, CHANNEL_SCRIPT, 200, { "Content-Type": "text/javascript; charset=utf-8" }))
  .post("/events/test-event", async (c) => {
    requireTestEvents(context(c));
    const event = testEvent.safeParse(c.get("body"));
    if (!event.success) throw new Failure("invalid", "The fields serviceName and pricingVersion are required");
    await sendTestEvent(context(c), { ...event.data, organizationId: queryParameter(c, "organizationId") });
    return json(c, { success: true, message: "Event sent successfully" });
  });
