import { Hono } from "hono";
import { type AuditQuery, readAuditLog } from "../../operations/reports/audit-log.ts";
import { type AppEnv, context, type AppContext } from "../context.ts";
import { instantOf, cursorPage, queryParameter, scope } from "../params.ts";
import { json } from "../reply.ts";

function queryOf(c: AppContext): AuditQuery {
  const text = (name: string) => queryParameter(c, name);
  return {
    action: text("action"),
    target: text("target"),
    actorId: text("actorId"),
    from: instantOf(c, "from"),
    to: instantOf(c, "to"),
    ...cursorPage(c),
  };
}

/** Audit log of one organization, for its OWNER, ADMINs and keys of scope ALL; of everything, for a platform ADMIN. */
export const auditLogRoutes = new Hono<AppEnv>().get("/", async (c) =>
  json(c, await readAuditLog(context(c), { organizationId: scope(c), query: queryOf(c) })),
);
