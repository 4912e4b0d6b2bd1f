import { sql } from "drizzle-orm";
import { check, foreignKey, index, integer, json, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import type { ActorKind } from "../../core/access/caller.ts";
import type { ApprovalAction, ApprovedOperation } from "../../core/approvals.ts";
import { organizations } from "./accounts.ts";
import { createdAt, moment } from "./columns.ts";

/** Changes that wait for a second person, or did. A pending one past `expires_at` counts as expired. */
export const changeRequests = pgTable(
  "change_requests",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    action: text("action").$type<ApprovalAction>().notNull(),
    /** The stored call: the operation with its input, and the route by which the author reached it. */
    operation: text("operation").$type<ApprovedOperation>().notNull(),
    input: json("input").$type<object>().notNull(),
    method: text("method").$type<"PUT" | "POST" | "DELETE">().notNull(),
    path: text("path").notNull(),
    /** SHA-256 of author and call: a repeated call finds its pending request. */
    fingerprint: text("fingerprint").notNull(),
    actorKind: text("actor_kind").$type<ActorKind>().notNull(),
    actorId: text("actor_id"),
    summary: text("summary").notNull(),
    report: json("report").$type<object>().notNull(),
    /** JSON of the facts that must be unchanged when the change is approved. */
    basis: text("basis").notNull(),
    /** Counts the reports of this request, from 1. */
    revision: integer("revision").notNull().default(1),
    state: text("state").$type<"pending" | "approved" | "rejected" | "withdrawn">().notNull().default("pending"),
    createdAt: createdAt(),
    expiresAt: moment("expires_at").notNull(),
    decidedBy: text("decided_by"),
    decidedAt: moment("decided_at"),
    reason: text("reason"),
  },
  (t) => [
    primaryKey({ name: "change_requests_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "change_requests_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    index("change_requests_organization_idx").on(t.organizationId, t.state, t.id),
    index("change_requests_expires_idx").on(t.expiresAt),
    check("change_requests_state_known", sql`${t.state} in ('pending', 'approved', 'rejected', 'withdrawn')`),
  ],
);
