import { Hono } from "hono";
import type { AppEnv } from "../route.ts";

export const contractRoutes = new Hono<AppEnv>();
