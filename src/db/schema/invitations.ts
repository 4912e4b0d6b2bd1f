import { sql } from "drizzle-orm";
import { check, foreignKey, index, integer, pgTable, text, unique } from "drizzle-orm/pg-core";
import { organizations, users } from "./accounts.ts";
import { createdAt, moment } from "./columns.ts";

/** Invitations to an organization. Links contain a token, of which only the hash is stored. */
export const invitations = pgTable(
  "invitations",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    role: text("role").$type<"ADMIN" | "MANAGER" | "EVALUATOR">().notNull(),
    /** Receives the link by mail. It is no proof of who accepts: links can be passed on. */
    email: text("email"),
    /** SHA-256 of the link's token. */
    tokenHash: text("token_hash").notNull(),
    /** The invitation is void once this user may no longer add such a member. */
    inviterId: text("inviter_id").notNull(),
    createdAt: createdAt(),
    expiresAt: moment("expires_at").notNull(),
    acceptedAt: moment("accepted_at"),
    acceptedBy: text("accepted_by"),
    revokedAt: moment("revoked_at"),
  },
  (t) => [
    foreignKey({
      name: "invitations_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    foreignKey({ name: "invitations_inviter_fk", columns: [t.inviterId], foreignColumns: [users.id] }).onDelete(
      "cascade",
    ),
    index("invitations_organization_idx").on(t.organizationId, t.id),
    index("invitations_inviter_idx").on(t.inviterId, t.createdAt),
    unique("invitations_token_unique").on(t.tokenHash),
    check("invitations_role_known", sql`${t.role} in ('ADMIN', 'MANAGER', 'EVALUATOR')`),
  ],
);

/** Links that set a new password, by the hash of their token. */
export const recoveries = pgTable(
  "recoveries",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    tokenHash: text("token_hash").notNull(),
    createdAt: createdAt(),
    expiresAt: moment("expires_at").notNull(),
    usedAt: moment("used_at"),
  },
  (t) => [
    foreignKey({ name: "recoveries_user_fk", columns: [t.userId], foreignColumns: [users.id] }).onDelete("cascade"),
    index("recoveries_user_idx").on(t.userId, t.createdAt),
    unique("recoveries_token_unique").on(t.tokenHash),
  ],
);

/** Mails that an event server sends. Their text is composed for each attempt, so no row contains a link. */
export const mails = pgTable(
  "mails",
  {
    id: text("id").primaryKey(),
    kind: text("kind").$type<"invitation" | "recovery">().notNull(),
    invitationId: text("invitation_id"),
    userId: text("user_id"),
    /** Empty for mails about an account. */
    organizationId: text("organization_id").notNull(),
    language: text("language").$type<"en" | "de">().notNull(),
    /** `void`: its link was no longer valid when it was due. */
    status: text("status").$type<"pending" | "sent" | "failed" | "void">().notNull().default("pending"),
    attempts: integer("attempts").notNull().default(0),
    /** Time of the next attempt. During an attempt: expiry of its lease, after which another process may retry. */
    nextAttemptAt: moment("next_attempt_at").notNull(),
    lastAttemptAt: moment("last_attempt_at"),
    error: text("error"),
    createdAt: createdAt(),
  },
  (t) => [
    foreignKey({ name: "mails_invitation_fk", columns: [t.invitationId], foreignColumns: [invitations.id] }).onDelete(
      "cascade",
    ),
    foreignKey({ name: "mails_user_fk", columns: [t.userId], foreignColumns: [users.id] }).onDelete("cascade"),
    index("mails_due_idx")
      .on(t.nextAttemptAt)
      .where(sql`${t.status} = 'pending'`),
    index("mails_created_idx").on(t.createdAt),
    index("mails_invitation_idx").on(t.invitationId),
    index("mails_user_idx").on(t.userId),
    check("mails_kind_known", sql`${t.kind} in ('invitation', 'recovery')`),
    check("mails_status_known", sql`${t.status} in ('pending', 'sent', 'failed', 'void')`),
  ],
);
