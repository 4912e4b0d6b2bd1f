import { Hono } from "hono";
import type { AppEnv } from "../route.ts";

export const userRoutes = new Hono<AppEnv>();
