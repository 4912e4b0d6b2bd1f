import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  unique,
} from "drizzle-orm/pg-core";
import type { EventDetails } from "../../core/event-messages.ts";
import { organizations } from "./accounts.ts";
import { moment, createdAt, updatedAt, transactionId } from "./columns.ts";

/** Stored responses to calls with an Idempotency-Key, written in the call's transaction; see operations/idempotency.ts. */
export const idempotencyKeys = pgTable(
  "idempotency_keys",
  {
    /** Owner of the key: an organization's id, or `user:` and the id of a user without one. */
    scope: text("scope").notNull(),
    /** Empty for a call outside of all organizations. */
    organizationId: text("organization_id").notNull(),
    key: text("key").notNull(),
    /** SHA-256 of the request: reusing the key with a different request is rejected. */
    fingerprint: text("fingerprint").notNull(),
    /** Null only within the transaction that is still processing the call. */
    status: integer("status").$type<200 | 201 | 204>(),
    /** Response body as sent; null if empty. */
    body: text("body"),
    createdAt: moment("created_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "idempotency_keys_pk", columns: [t.scope, t.key, t.organizationId] }),
    index("idempotency_keys_created_idx").on(t.createdAt),
  ],
);

/** Numbered events, in commit order; see db/queries/outbox.ts. */
export const outbox = pgTable(
  "outbox",
  {
    id: bigint("id", { mode: "number" }).primaryKey(),
    organizationId: text("organization_id"),
    code: text("code").notNull(),
    details: json("details").$type<EventDetails>().notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    index("outbox_created_idx").on(t.createdAt),
    // Serves the overview's count of reached limits.
    index("outbox_limits_idx")
      .on(t.organizationId, t.createdAt)
      .where(sql`${t.code} = 'USAGE_LIMIT_REACHED'`),
  ],
);

/**
 * Committed events that have no id yet. Their writers found the counter locked and did not wait for it; readers of the outbox
 * move them there. Usually empty.
 */
export const outboxStaged = pgTable("outbox_staged", {
  /** Ascends in the order of writing. Two events of one contract have the order of its row lock. */
  seq: bigint("seq", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
  organizationId: text("organization_id"),
  code: text("code").notNull(),
  details: json("details").$type<EventDetails>().notNull(),
  createdAt: createdAt(),
});

/** One row: the id of the last numbered event. Whoever assigns ids holds its row lock until commit. */
export const outboxCounter = pgTable(
  "outbox_counter",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    lastId: bigint("last_id", { mode: "number" }).notNull().default(0),
    /** Events staged up to this seq are numbered or rolled back. */
    settledSeq: bigint("settled_seq", { mode: "number" }).notNull().default(1),
    /** The next `settledSeq`, once all transactions before this id have ended. */
    settlingSeq: bigint("settling_seq", { mode: "number" }).notNull().default(1),
    settlingUntil: transactionId("settling_until").notNull().default("0"),
  },
  (t) => [check("outbox_counter_one_row", sql`${t.singleton}`)],
);

/** Webhook endpoints of an organization. */
export const webhookEndpoints = pgTable(
  "webhook_endpoints",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    url: text("url").notNull(),
    description: text("description"),
    /** Event codes to send. Null: all. */
    codes: json("codes").$type<string[]>(),
    /** `disabled` by a user, or `suspended` by the server after a long time of failures. */
    state: text("state").$type<"enabled" | "disabled" | "suspended">().notNull(),
    suspendedAt: moment("suspended_at"),
    suspendedReason: text("suspended_reason"),
    /** Signing secret, encrypted like API keys. The previous one signs too until `previousSecretUntil`. */
    secretSealed: text("secret_sealed").notNull(),
    previousSecretSealed: text("previous_secret_sealed"),
    previousSecretUntil: moment("previous_secret_until"),
    /** Failed attempts since the last success, and the time of the first. */
    failures: integer("failures").notNull().default(0),
    failingSince: moment("failing_since"),
    /** The endpoint receives only events after this id. */
    afterEventId: bigint("after_event_id", { mode: "number" }).notNull(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    primaryKey({ name: "webhook_endpoints_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "webhook_endpoints_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    index("webhook_endpoints_organization_idx").on(t.organizationId),
    check("webhook_endpoints_state_known", sql`${t.state} in ('enabled', 'disabled', 'suspended')`),
  ],
);

/** Delivery of one event to one endpoint, with the result of its attempts. */
export const webhookDeliveries = pgTable(
  "webhook_deliveries",
  {
    /** The `webhook-id` header of every attempt is a prefix and this id. */
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    endpointId: text("endpoint_id").notNull(),
    organizationId: text("organization_id").notNull(),
    eventId: bigint("event_id", { mode: "number" }).notNull(),
    code: text("code").notNull(),
    /** Request body, identical in every attempt. */
    payload: text("payload").notNull(),
    status: text("status").$type<"pending" | "delivered" | "failed">().notNull().default("pending"),
    attempts: integer("attempts").notNull().default(0),
    /** Time of the next attempt. During an attempt: expiry of its lease, after which another process may retry. */
    nextAttemptAt: moment("next_attempt_at").notNull(),
    lastAttemptAt: moment("last_attempt_at"),
    /** HTTP status of the last attempt. */
    responseStatus: integer("response_status"),
    durationMs: integer("duration_ms"),
    error: text("error"),
    createdAt: createdAt(),
  },
  (t) => [
    primaryKey({ name: "webhook_deliveries_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "webhook_deliveries_endpoint_fk",
      columns: [t.endpointId, t.organizationId],
      foreignColumns: [webhookEndpoints.id, webhookEndpoints.organizationId],
    }).onDelete("cascade"),
    unique("webhook_deliveries_event_unique").on(t.endpointId, t.eventId, t.organizationId),
    index("webhook_deliveries_due_idx")
      .on(t.endpointId, t.nextAttemptAt)
      .where(sql`${t.status} = 'pending'`),
    index("webhook_deliveries_created_idx").on(t.createdAt),
    check("webhook_deliveries_status_known", sql`${t.status} in ('pending', 'delivered', 'failed')`),
  ],
);

/** One row: id of the last event with deliveries created. Its row lock selects the process that creates the next ones. */
export const webhookCursor = pgTable(
  "webhook_cursor",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    lastId: bigint("last_id", { mode: "number" }).notNull(),
  },
  (t) => [check("webhook_cursor_one_row", sql`${t.singleton}`)],
);
