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
import type {
  BillingContent,
  BillingOutcome,
  BillingProvider,
  SubscriptionStatus,
  Unread,
} from "../../core/billing/message.ts";
import type { AppliedTarget } from "../../core/billing/plan.ts";
import type { SubscriptionRegister } from "../../core/billing/register.ts";
import type { PriceMap } from "../../core/billing/terms.ts";
import { organizations } from "./accounts.ts";
import { contracts } from "./contracts.ts";
import { moment, createdAt, updatedAt } from "./columns.ts";

/** Connections to payment providers, at most one per organization and provider. */
export const billingConnections = pgTable(
  "billing_connections",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    provider: text("provider").$type<BillingProvider>().notNull(),
    /** Signing secret, encrypted like API keys. The previous one is accepted too until `previousSecretUntil`. */
    secretSealed: text("secret_sealed").notNull(),
    previousSecretSealed: text("previous_secret_sealed"),
    previousSecretUntil: moment("previous_secret_until"),
    /** The last four characters of the secret, which answers show. */
    secretEnd: text("secret_end").notNull(),
    prices: json("prices").$type<PriceMap>().notNull(),
    userIdRule: text("user_id_rule").notNull(),
    ended: json("ended").$type<Record<string, string | null>>().notNull(),
    graceDays: integer("grace_days").notNull(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    primaryKey({ name: "billing_connections_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "billing_connections_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    unique("billing_connections_provider_unique").on(t.organizationId, t.provider),
    check("billing_connections_provider_known", sql`${t.provider} in ('stripe', 'standard')`),
  ],
);

/** The known state of each subscription of a connection; see core/billing/register.ts. */
export const billingSubscriptions = pgTable(
  "billing_subscriptions",
  {
    connectionId: text("connection_id").notNull(),
    organizationId: text("organization_id").notNull(),
    subscription: text("subscription").notNull(),
    userId: text("user_id").notNull(),
    register: json("register").$type<SubscriptionRegister>().notNull(),
    /** True if the contract was detached from it: its messages change nothing. */
    isDetached: boolean("is_detached").notNull().default(false),
  },
  (t) => [
    primaryKey({
      name: "billing_subscriptions_pk",
      columns: [t.connectionId, t.subscription, t.organizationId],
    }),
    foreignKey({
      name: "billing_subscriptions_connection_fk",
      columns: [t.connectionId, t.organizationId],
      foreignColumns: [billingConnections.id, billingConnections.organizationId],
    }).onDelete("cascade"),
    index("billing_subscriptions_user_idx").on(t.organizationId, t.userId),
    index("billing_subscriptions_customer_idx").on(t.connectionId, sql`(${t.register} ->> 'customer')`),
  ],
);

/** End users of subscriptions and customers, where a message of its own names them. */
export const billingLinks = pgTable(
  "billing_links",
  {
    connectionId: text("connection_id").notNull(),
    organizationId: text("organization_id").notNull(),
    kind: text("kind").$type<"subscription" | "customer">().notNull(),
    /** Id of the subscription or customer. */
    name: text("name").notNull(),
    userId: text("user_id").notNull(),
    /** Moment of the message: the newest counts. */
    linkedAt: moment("linked_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "billing_links_pk", columns: [t.connectionId, t.kind, t.name, t.organizationId] }),
    foreignKey({
      name: "billing_links_connection_fk",
      columns: [t.connectionId, t.organizationId],
      foreignColumns: [billingConnections.id, billingConnections.organizationId],
    }).onDelete("cascade"),
    check("billing_links_kind_known", sql`${t.kind} in ('subscription', 'customer')`),
  ],
);

/** Received messages with their outcome, retained for 90 days. `content` has no personal data but the user's id. */
export const billingMessages = pgTable(
  "billing_messages",
  {
    /** Order of arrival. */
    seq: bigint("seq", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    connectionId: text("connection_id").notNull(),
    organizationId: text("organization_id").notNull(),
    messageId: text("message_id").notNull(),
    type: text("type").notNull(),
    subscription: text("subscription"),
    customer: text("customer"),
    /** Null: unknown. */
    userId: text("user_id"),
    createdAt: moment("created_at").notNull(),
    receivedAt: moment("received_at").notNull(),
    content: json("content").$type<BillingContent | Unread>().notNull(),
    outcome: text("outcome").$type<BillingOutcome>().notNull(),
    reason: text("reason"),
  },
  (t) => [
    primaryKey({ name: "billing_messages_pk", columns: [t.connectionId, t.messageId, t.organizationId] }),
    foreignKey({
      name: "billing_messages_connection_fk",
      columns: [t.connectionId, t.organizationId],
      foreignColumns: [billingConnections.id, billingConnections.organizationId],
    }).onDelete("cascade"),
    index("billing_messages_seq_idx").on(t.connectionId, t.seq),
    // Partial index of messages that an operator or another message can make apply.
    index("billing_messages_open_idx")
      .on(t.connectionId, t.outcome, t.seq)
      .where(sql`${t.outcome} in ('waiting', 'unmapped', 'failed')`),
    index("billing_messages_received_idx").on(t.receivedAt),
  ],
);

/** The subscription that a contract follows, and the target that was applied last. */
export const contractBilling = pgTable(
  "contract_billing",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    applied: json("applied").$type<AppliedTarget>().notNull(),
    /** Of the subscription that the contract shows; all null once none is open. */
    connectionId: text("connection_id"),
    provider: text("provider").$type<BillingProvider>(),
    subscription: text("subscription"),
    customer: text("customer"),
    status: text("status").$type<SubscriptionStatus>(),
    since: moment("since"),
  },
  (t) => [
    primaryKey({ name: "contract_billing_pk", columns: [t.contractId, t.organizationId] }),
    foreignKey({
      name: "contract_billing_contract_fk",
      columns: [t.contractId, t.organizationId],
      foreignColumns: [contracts.id, contracts.organizationId],
    }).onDelete("cascade"),
    index("contract_billing_connection_idx").on(t.connectionId),
  ],
);
