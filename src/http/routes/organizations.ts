import { Hono } from "hono";
import type { AppEnv } from "../route.ts";

export const organizationRoutes = new Hono<AppEnv>();
