import { Hono } from "hono";
import type { Handler } from "hono";
import type { AppEnv } from "../route.ts";

export const serviceRoutes = new Hono<AppEnv>();
export const publicPricing: Handler<AppEnv> = (c) => c.notFound();
