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
import type { ActorKind } from "../../core/access/caller.ts";
import type { RenewalUnit } from "../../core/period.ts";

import type { FeatureValue } from "../../core/pricing/model.ts";
import type { OverrideKind, OverrideMode } from "../../core/pricing/overrides.ts";
import type { StoredTrial } from "../../core/scheduled.ts";
import { organizations } from "./accounts.ts";
import { services, pricings } from "./catalog.ts";
import { createdAt, moment, updatedAt } from "./columns.ts";

/** Change that created a contract state. `record`: recording began after the contract was created. */
export type StateCause =
  | "creation"
  | "novation"
  | "archiving"
  | "removal"
  | "move"
  | "rename"
  | "billing"
  | "renewal"
  | "override"
  | "scheduled"
  | "budget"
  | "trialEnd"
  | "record";

/** A contracted service, with the hash that addresses its compiled pricing. */
export interface SnapshotService {
  serviceId: string;
  /** Service name in lower case. */
  key: string;
  disabled: boolean;
  pricingId: string;
  version: string;
  hash: string;
  plan: string | null;
  addOns: Record<string, number> | null;
}

export const contracts = pgTable(
  "contracts",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    /** The SaaS's id of the end user: opaque and case-sensitive. */
    userId: text("user_id").notNull(),
    username: text("username").notNull(),
    firstName: text("first_name"),
    lastName: text("last_name"),
    email: text("email"),
    phone: text("phone"),
    groupId: text("group_id"),
    startDate: moment("start_date").notNull(),
    endDate: moment("end_date").notNull(),
    autoRenew: boolean("auto_renew").notNull().default(false),
    renewalDays: integer("renewal_days").notNull().default(30),
    /** Period on the calendar, counted from `startDate`. Null: `renewalDays` counts. */
    renewalValue: integer("renewal_value"),
    renewalUnit: text("renewal_unit").$type<RenewalUnit>(),
    /** End date whose expiry event is recorded; see operations/contracts/expiry.ts. */
    expiryAnnounced: moment("expiry_announced"),
    /** Moment of the pending scheduled change, equal to its `at`; null without one. Evaluations read it with the contract. */
    changeAt: moment("change_at"),
    /** Number of the contract's members; see schema/members.ts. Evaluations for a spender read it with the contract. */
    memberCount: integer("member_count").notNull().default(0),
    /** True while the contract has budgets of its own. Others need not look for them. */
    hasBudgets: boolean("has_budgets").notNull().default(false),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    primaryKey({ name: "contracts_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "contracts_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    unique("contracts_user_unique").on(t.organizationId, t.userId),
    index("contracts_username_idx").on(t.organizationId, sql`${t.username} collate "C"`, t.id),
    index("contracts_group_idx").on(t.organizationId, t.groupId),
    index("contracts_user_idx").on(t.userId),
    check("contracts_renewal_unit_known", sql`${t.renewalUnit} in ('DAY', 'MONTH', 'YEAR')`),
    check("contracts_renewal_whole", sql`(${t.renewalValue} is null) = (${t.renewalUnit} is null)`),
    // Partial index of expiries without an event: past expiries do not slow down the query for new ones.
    index("contracts_expiry_idx")
      .on(t.endDate)
      .where(sql`not ${t.autoRenew} and ${t.expiryAnnounced} is distinct from ${t.endDate}`),
    // Partial index of contracts that renew automatically: the sweep reads only those that are due.
    index("contracts_renewal_idx")
      .on(t.endDate)
      .where(sql`${t.autoRenew}`),
    // Partial index of contracts with a pending change, which the sweep looks for every second.
    index("contracts_change_idx")
      .on(t.changeAt)
      .where(sql`${t.changeAt} is not null`),
  ],
);

/** One row per contracted service. Stores the contract's three maps with foreign keys. */
export const contractServices = pgTable(
  "contract_services",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    pricingId: text("pricing_id").notNull(),
    position: integer("position").notNull(),
    /** Plan in the caller's spelling; null if the service has no entry in `subscriptionPlans`. */
    plan: text("plan"),
    /** Add-on -> quantity, in the pricing's spelling; null if the service has no entry in `subscriptionAddOns`. */
    addOns: json("add_ons").$type<Record<string, number>>(),
  },
  (t) => [
    primaryKey({ name: "contract_services_pk", columns: [t.contractId, t.serviceId, t.organizationId] }),
    foreignKey({
      name: "contract_services_contract_fk",
      columns: [t.contractId, t.organizationId],
      foreignColumns: [contracts.id, contracts.organizationId],
    }).onDelete("cascade"),
    foreignKey({
      name: "contract_services_service_fk",
      columns: [t.serviceId, t.organizationId],
      foreignColumns: [services.id, services.organizationId],
    }),
    foreignKey({
      name: "contract_services_pricing_fk",
      columns: [t.pricingId, t.organizationId],
      foreignColumns: [pricings.id, pricings.organizationId],
    }),
    index("contract_services_service_idx").on(t.serviceId),
    index("contract_services_pricing_idx").on(t.pricingId),
  ],
);

/**
 * Exceptions of one contract to what its plan and add-ons grant, at most one per element. An override disappears with its
 * service: the foreign key cascades.
 */
export const contractOverrides = pgTable(
  "contract_overrides",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    kind: text("kind").$type<OverrideKind>().notNull(),
    name: text("name").notNull(),
    mode: text("mode").$type<OverrideMode>().notNull(),
    value: json("value").$type<FeatureValue>().notNull(),
    /** The override holds from here until just before `until`. */
    from: moment("starts_at").notNull(),
    /** Null: it never ends. */
    until: moment("ends_at"),
    reason: text("reason").notNull(),
    setAt: moment("set_at").notNull(),
    actorKind: text("actor_kind").$type<ActorKind>().notNull(),
    actorId: text("actor_id"),
    /** True once the event of its end is recorded. */
    endAnnounced: boolean("end_announced").notNull().default(false),
  },
  (t) => [
    primaryKey({
      name: "contract_overrides_pk",
      columns: [t.contractId, t.serviceId, t.kind, t.name, t.organizationId],
    }),
    foreignKey({
      name: "contract_overrides_contract_service_fk",
      columns: [t.contractId, t.serviceId, t.organizationId],
      foreignColumns: [contractServices.contractId, contractServices.serviceId, contractServices.organizationId],
    }).onDelete("cascade"),
    check("contract_overrides_kind_known", sql`${t.kind} in ('features', 'usageLimits')`),
    check("contract_overrides_mode_known", sql`${t.mode} in ('set', 'add')`),
    // Partial index of ends without an event, which the sweep looks for every second.
    index("contract_overrides_end_idx")
      .on(t.until)
      .where(sql`not ${t.endAnnounced}`),
    index("contract_overrides_service_idx").on(t.serviceId),
  ],
);

/** Past subscriptions of a contract, oldest first, with the names of that time. */
export const contractHistory = pgTable(
  "contract_history",
  {
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    startDate: moment("start_date").notNull(),
    endDate: moment("end_date").notNull(),
    contractedServices: json("contracted_services").$type<Record<string, string>>().notNull(),
    subscriptionPlans: json("subscription_plans").$type<Record<string, string>>().notNull(),
    subscriptionAddOns: json("subscription_add_ons").$type<Record<string, Record<string, number>>>().notNull(),
  },
  (t) => [
    primaryKey({ name: "contract_history_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "contract_history_contract_fk",
      columns: [t.contractId, t.organizationId],
      foreignColumns: [contracts.id, contracts.organizationId],
    }).onDelete("cascade"),
    index("contract_history_contract_idx").on(t.contractId, t.id),
  ],
);

/**
 * States of a contract, append-only, for evaluations of a past moment. A row holds from `since` until the next row and is
 * written in the transaction of the change. Balances come from the ledger; a trigger deletes states that ended before the
 * ledger begins when the contract's next row is written.
 */
export const contractStates = pgTable(
  "contract_states",
  {
    /** Ascends in the order of a contract's states: the writer holds the contract's row lock. */
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    since: moment("since").notNull(),
    cause: text("cause").$type<StateCause>().notNull(),
    startDate: moment("start_date").notNull(),
    endDate: moment("end_date").notNull(),
    autoRenew: boolean("auto_renew").notNull(),
    renewalDays: integer("renewal_days").notNull(),
    /** Period on the calendar; null without one. */
    renewalValue: integer("renewal_value"),
    renewalUnit: text("renewal_unit").$type<RenewalUnit>(),
    services: json("services").$type<SnapshotService[]>().notNull(),
    levels: json("levels").$type<object[]>().notNull(),
    /** All overrides, also those that had ended or had not begun. Null in states older than overrides. */
    overrides: json("overrides").$type<object[]>(),
    /** End and continuation of the trial; null without one. */
    trial: json("trial").$type<StoredTrial>(),
    /** The contract's own budgets. Null without any. */
    budgets: json("budgets").$type<object[]>(),
  },
  (t) => [
    primaryKey({ name: "contract_states_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "contract_states_contract_fk",
      columns: [t.contractId, t.organizationId],
      foreignColumns: [contracts.id, contracts.organizationId],
    }).onDelete("cascade"),
    index("contract_states_contract_idx").on(t.contractId, t.id),
  ],
);
