import { Hono } from "hono";
import { readWeek } from "../../operations/analytics.ts";
import { context, json, type AppEnv } from "../route.ts";

export const systemRoutes = new Hono<AppEnv>()
  .get("/healthcheck", (c) => json(c, { message: "Service is up and running!" }))
  .get("/analytics/api-calls", async (c) => json(c, await readWeek(context(c), "apiCalls")))
  .get("/analytics/evaluations", async (c) => json(c, await readWeek(context(c), "evaluations")))
  .get("/events/status", (c) => json(c, { status: "The WebSocket event service is active" }));
