import { Hono } from "hono";
import type { AppEnv } from "../route.ts";

export const featureRoutes = new Hono<AppEnv>();
