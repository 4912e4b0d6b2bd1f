import { Hono } from "hono";
import { readLocalEvaluation } from "../../operations/reports/local-evaluation.ts";
import { type AppEnv, context } from "../context.ts";
import { organizationOf } from "../params.ts";
import { json } from "../reply.ts";

/** Local evaluation under way in one organization. */
export const localEvaluationRoutes = new Hono<AppEnv>().get("/", async (c) =>
  json(c, await readLocalEvaluation(context(c), organizationOf(c))),
);
