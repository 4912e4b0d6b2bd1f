import { and, count, desc, eq, gt, lte, type SQL } from "drizzle-orm";
import type { ApprovalAction, ChangeRequestState } from "../../core/approvals.ts";
import { type Actor, withActors } from "../../db/queries/actors.ts";
import { isAnyOf } from "../../db/postgres/lists.ts";
import { changeRequests, users } from "../../db/schema.ts";
import type { Context } from "../context.ts";

export type RequestRow = typeof changeRequests.$inferSelect;

/** A change request in its wire format. */
export interface ChangeRequestView {
  id: string;
  action: ApprovalAction;
  author: Actor;
  createdAt: Date;
  expiresAt: Date;
  state: ChangeRequestState;
  summary: string;
  report: object;
  revision: number;
  decidedBy: string | null;
  decidedAt: Date | null;
  reason: string | null;
}

export const stateOf = (row: Pick<RequestRow, "state" | "expiresAt">, now: Date): ChangeRequestState =>
  row.state === "pending" && row.expiresAt.getTime() <= now.getTime() ? "expired" : row.state;

/** Condition for one request of an organization. */
export const isRequest = (organizationId: string, id: string) =>
  and(eq(changeRequests.organizationId, organizationId), eq(changeRequests.id, id));

/** Condition for requests in this state, which is `expired` for pending ones whose time is over. */
export function isInState(state: ChangeRequestState, now: Date): SQL | undefined {
  const { expiresAt } = changeRequests;
  if (state === "expired") return and(eq(changeRequests.state, "pending"), lte(expiresAt, now));
  return and(eq(changeRequests.state, state), state === "pending" ? gt(expiresAt, now) : undefined);
}

export async function countPending(ctx: Context, organizationId: string): Promise<number> {
  const [row] = await ctx.db
    .select({ number: count() })
    .from(changeRequests)
    .where(and(eq(changeRequests.organizationId, organizationId), isInState("pending", ctx.resources.now())));
  return row?.number ?? 0;
}

/** Reads the newest requests that match, newest first. */
export async function viewRequests(ctx: Context, where: SQL | undefined, limit: number): Promise<ChangeRequestView[]> {
  const rows = await ctx.db.select().from(changeRequests).where(where).orderBy(desc(changeRequests.id)).limit(limit);
  const decided = rows.flatMap(({ decidedBy }) => decidedBy ?? []);
  const [named, deciders] = await Promise.all([
    withActors(ctx.db, rows),
    ctx.db.select({ id: users.id, name: users.username }).from(users).where(isAnyOf(users.id, decided)),
  ]);
  const now = ctx.resources.now();
  return named.map((row) => ({
    id: row.id,
    action: row.action,
    author: row.actor,
    createdAt: row.createdAt,
    expiresAt: row.expiresAt,
    state: stateOf(row, now),
    summary: row.summary,
    report: row.report,
    revision: row.revision,
    decidedBy: deciders.find(({ id }) => id === row.decidedBy)?.name ?? null,
    decidedAt: row.decidedAt,
    reason: row.reason,
  }));
}
