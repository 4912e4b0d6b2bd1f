import { sql } from "drizzle-orm";
import {
  boolean,
  check,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import type { ActorKind } from "../../core/access/caller.ts";
import type { ScheduledAvailability, ScheduledKind, ScheduledState } from "../../core/scheduled.ts";
import { organizations } from "./accounts.ts";
import { services, pricings } from "./catalog.ts";
import { contracts } from "./contracts.ts";
import { moment } from "./columns.ts";

/**
 * Changes of contracts and versions for later. A contract has at most one pending change, and its row repeats the moment in
 * `change_at`. See operations/due-changes.ts and operations/changes/scheduled-availability.ts.
 */
export const scheduledChanges = pgTable(
  "scheduled_changes",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    kind: text("kind").$type<ScheduledKind>().notNull(),
    state: text("state").$type<ScheduledState>().notNull(),
    /** Contract of a novation or trial. */
    contractId: text("contract_id"),
    /** Service and version of an availability; null once they are deleted. */
    serviceId: text("service_id"),
    pricingId: text("pricing_id"),
    availability: json("availability").$type<ScheduledAvailability>(),
    at: moment("at").notNull(),
    /** True if `at` follows the end of the billing period. */
    atPeriodEnd: boolean("at_period_end").notNull().default(false),
    /** True for a trial that ends its contract. */
    endsContract: boolean("ends_contract").notNull().default(false),
    /** TRIAL_ENDING is recorded so many days before the end; 0 for never, null for other kinds. */
    remindDays: integer("remind_days"),
    /** Moment of the next TRIAL_ENDING; null once it is recorded. */
    remindAt: moment("remind_at"),
    autoRenew: boolean("auto_renew"),
    reason: text("reason"),
    effectiveAt: moment("effective_at"),
    why: text("why"),
    createdAt: moment("created_at").notNull(),
    actorKind: text("actor_kind").$type<ActorKind>().notNull(),
    actorId: text("actor_id"),
  },
  (t) => [
    primaryKey({ name: "scheduled_changes_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "scheduled_changes_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    foreignKey({
      name: "scheduled_changes_contract_fk",
      columns: [t.contractId, t.organizationId],
      foreignColumns: [contracts.id, contracts.organizationId],
    }).onDelete("cascade"),
    foreignKey({
      name: "scheduled_changes_service_fk",
      columns: [t.serviceId, t.organizationId],
      foreignColumns: [services.id, services.organizationId],
    }).onDelete("set null"),
    foreignKey({
      name: "scheduled_changes_pricing_fk",
      columns: [t.pricingId, t.organizationId],
      foreignColumns: [pricings.id, pricings.organizationId],
    }).onDelete("set null"),
    check("scheduled_changes_kind_known", sql`${t.kind} in ('novation', 'trialEnd', 'availability')`),
    check("scheduled_changes_state_known", sql`${t.state} in ('pending', 'done', 'cancelled', 'blocked')`),
    uniqueIndex("scheduled_changes_pending_unique")
      .on(t.contractId, t.organizationId)
      .where(sql`${t.state} = 'pending'`),
    index("scheduled_changes_contract_idx").on(t.contractId, t.id),
    index("scheduled_changes_service_idx").on(t.serviceId, t.id),
    index("scheduled_changes_pricing_idx").on(t.pricingId),
    index("scheduled_changes_organization_idx").on(t.organizationId, t.state, t.at, t.id),
    index("scheduled_changes_state_idx").on(t.state, t.at, t.id),
    // Partial index of reminders that are not recorded, which the sweep looks for every second.
    index("scheduled_changes_reminder_idx")
      .on(t.remindAt)
      .where(sql`${t.state} = 'pending' and ${t.remindAt} is not null`),
  ],
);

/** The subscription that a scheduled change gives its contract: one row per service. */
export const scheduledSubscriptions = pgTable(
  "scheduled_subscriptions",
  {
    changeId: text("change_id").notNull(),
    organizationId: text("organization_id").notNull(),
    /** Contract of the change. A trigger fills it where a process of the release before leaves it out. */
    contractId: text("contract_id"),
    position: integer("position").notNull(),
    /** Null once the service is deleted or in another organization. */
    serviceId: text("service_id"),
    /** Null where the service is, once the version is deleted, and for a trial. A trial keeps the version of its contract. */
    pricingId: text("pricing_id"),
    /** Names at the time of scheduling, for what is deleted. */
    serviceName: text("service_name").notNull(),
    version: text("version").notNull(),
    plan: text("plan"),
    addOns: json("add_ons").$type<Record<string, number>>(),
  },
  (t) => [
    primaryKey({ name: "scheduled_subscriptions_pk", columns: [t.changeId, t.position, t.organizationId] }),
    foreignKey({
      name: "scheduled_subscriptions_change_fk",
      columns: [t.changeId, t.organizationId],
      foreignColumns: [scheduledChanges.id, scheduledChanges.organizationId],
    }).onDelete("cascade"),
    foreignKey({
      name: "scheduled_subscriptions_service_fk",
      columns: [t.serviceId, t.organizationId],
      foreignColumns: [services.id, services.organizationId],
    }).onDelete("set null"),
    foreignKey({
      name: "scheduled_subscriptions_pricing_fk",
      columns: [t.pricingId, t.organizationId],
      foreignColumns: [pricings.id, pricings.organizationId],
    }).onDelete("set null"),
    index("scheduled_subscriptions_service_idx").on(t.serviceId),
    index("scheduled_subscriptions_pricing_idx").on(t.pricingId),
  ],
);

/** Services of which end users have had a trial in this organization, also in deleted contracts. */
export const givenTrials = pgTable(
  "given_trials",
  {
    organizationId: text("organization_id").notNull(),
    userId: text("user_id").notNull(),
    serviceId: text("service_id").notNull(),
  },
  (t) => [
    primaryKey({ name: "given_trials_pk", columns: [t.organizationId, t.userId, t.serviceId] }),
    // No foreign key on the service, which may move to another organization: the trial stays given in this one.
    foreignKey({
      name: "given_trials_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    index("given_trials_service_idx").on(t.serviceId),
  ],
);
