import { and, desc, eq, gte, inArray, lt } from "drizzle-orm";
import { type Actor, withActors } from "../../db/queries/actors.ts";
import type { Database } from "../../db/postgres/connect.ts";
import { auditLog } from "../../db/schema.ts";
import { AUDIT_ACTIONS, auditTarget } from "../audit.ts";
import { type Context, clampPageSize } from "../context.ts";
import { DENIED_ACTION } from "../state/denied-attempts.ts";

export interface AuditEntry {
  id: number;
  at: Date;
  organizationId: string | null;
  actor: Actor;
  action: string;
  target: string;
  before: unknown;
  after: unknown;
  requestId: string | null;
}

/** Filters of an audit log query; an absent filter matches everything. */
export interface AuditQuery {
  /** An action, or its prefix before the dot. */
  action?: string | undefined;
  target?: string | undefined;
  actorId?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  /** Cursor: only entries with smaller ids. */
  before?: number | undefined;
  limit: number;
}

/** Selects one row more than the page, to detect a next page. Each filter has its own index. */
export function auditRows(db: Database, input: { organizationId: string | undefined; query: AuditQuery }) {
  const { action, target, actorId, from, to, before, limit } = input.query;
  const named = [...AUDIT_ACTIONS, DENIED_ACTION].filter((one) => one.split(".")[0] === action);
  return db
    .select()
    .from(auditLog)
    .where(
      and(
        input.organizationId === undefined ? undefined : eq(auditLog.organizationId, input.organizationId),
        action === undefined ? undefined : inArray(auditLog.action, [action, ...named]),
        target === undefined ? undefined : eq(auditLog.target, auditTarget(target)),
        actorId === undefined ? undefined : eq(auditLog.actorId, actorId),
        from === undefined ? undefined : gte(auditLog.at, from),
        to === undefined ? undefined : lt(auditLog.at, to),
        before === undefined ? undefined : lt(auditLog.id, before),
      ),
    )
    .orderBy(desc(auditLog.id))
    .limit(limit + 1);
}

/**
 * One page of the audit log, newest first. Without an organization it covers the whole instance; `next` is null on the
 * last page.
 */
export async function readAuditLog(
  ctx: Context,
  input: { organizationId: string | undefined; query: AuditQuery },
): Promise<{ data: AuditEntry[]; next: number | null }> {
  const limit = clampPageSize(ctx, input.query.limit);
  const rows = await auditRows(ctx.db, { ...input, query: { ...input.query, limit } });
  const page = rows.slice(0, limit).map((row) => ({
    ...row,
    organizationId: row.organizationId === "" ? null : row.organizationId,
  }));
  const data = await withActors(ctx.db, page);
  return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null };
}
