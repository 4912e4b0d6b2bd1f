import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  customType,
  date,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  unique,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import type { ActorKind } from "../core/access/caller.ts";
import type {
  BillingContent,
  BillingOutcome,
  BillingProvider,
  SubscriptionStatus,
  Unread,
} from "../core/billing/message.ts";
import type { AppliedTarget } from "../core/billing/plan.ts";
import type { SubscriptionRegister } from "../core/billing/register.ts";
import type { PriceMap } from "../core/billing/terms.ts";
import type { GateRule, GateResult } from "../core/change/impact/gate.ts";
import type { EventDetails } from "../core/event-messages.ts";
import type { HeldAmount, HoldKind, HoldState, OnExpiry } from "../core/holds.ts";
import type { LeaseFacts } from "../core/leases.ts";
import type { OffReason } from "../core/ofrep.ts";
import type { RenewalUnit } from "../core/period.ts";
import type { FeatureValue, Pricing } from "../core/pricing/model.ts";
import type { OverrideKind, OverrideMode } from "../core/pricing/overrides.ts";
import type { ScheduledAvailability, ScheduledKind, ScheduledState, StoredTrial } from "../core/scheduled.ts";
import type { SpaceReport } from "../core/space/report.ts";
import type { StateCause } from "./queries/contract-states.ts";
import type { SnapshotService } from "./queries/contract-snapshots.ts";

/*
 * All tables. SQL is snake_case, table names are plural, moments are timestamptz, every foreign key is indexed. Every
 * constraint has a name, by which operations recognise its violation.
 * Tables that grow with customers have `organization_id` in every key, so that they can be distributed by it. Where a deleted
 * parent sets a reference to null, the migration names the column: ON DELETE SET NULL (service_id).
 * JSON that a client reads back is `json`, never `jsonb`, which reorders keys: the order of a pricing's keys is significant.
 */

const moment = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });
const createdAt = () => moment("created_at").notNull().defaultNow();
const updatedAt = () => moment("updated_at").notNull().defaultNow();

/** Exact decimal amounts: 0.1 + 0.2 is 0.3 in a balance. Read and written as JavaScript numbers. */
const amount = customType<{ data: number; driverData: string }>({
  dataType: () => "numeric",
  fromDriver: (value) => Number(value),
  toDriver: (value) => String(value),
});

const transactionId = customType<{ data: string }>({ dataType: () => "xid8" });

export const users = pgTable(
  "users",
  {
    id: text("id").primaryKey(),
    username: text("username").notNull(),
    /** UTS 39 skeleton of the name, shared by look-alike names. Null until `npm run migrate` fills it in. */
    usernameSkeleton: text("username_skeleton"),
    passwordHash: text("password_hash").notNull(),
    role: text("role").$type<"ADMIN" | "USER">().notNull(),
    /** HMAC-SHA-256 of the user key. Requests are looked up by it. */
    apiKeyHash: text("api_key_hash"),
    /** The user key encrypted with AES-256-GCM, because sign-in returns it again. */
    apiKeySealed: text("api_key_sealed"),
    /** Expiry of the key; null for never. */
    apiKeyExpiresAt: moment("api_key_expires_at"),
    /** Accurate to about a minute. */
    apiKeyLastUsedAt: moment("api_key_last_used_at"),
    /** Hash of the replaced key, which is valid until `previousApiKeyUntil`. */
    previousApiKeyHash: text("previous_api_key_hash"),
    previousApiKeyUntil: moment("previous_api_key_until"),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    unique("users_username_unique").on(t.username),
    unique("users_api_key_hash_unique").on(t.apiKeyHash),
    unique("users_previous_api_key_hash_unique").on(t.previousApiKeyHash),
    check("users_role_known", sql`${t.role} in ('ADMIN', 'USER')`),
    index("users_created_idx").on(t.createdAt, t.id),
    index("users_username_skeleton_idx").on(t.usernameSkeleton),
  ],
);

/** Identity of the installation: one immutable row, inserted by the migration that created the table. */
export const instances = pgTable(
  "instances",
  {
    /** 24 hex digits: names the issuer of pricing tokens where PUBLIC_URL is not set. */
    id: text("id").primaryKey(),
    onlyOne: boolean("only_one").notNull().default(true),
  },
  (t) => [unique("instances_only_one_unique").on(t.onlyOne), check("instances_only_one_true", sql`${t.onlyOne}`)],
);

/** Ed25519 keys that sign pricing tokens. Keys that are no longer published are deleted. */
export const tokenKeys = pgTable("token_keys", {
  /** RFC 7638 thumbprint of the public half. */
  kid: text("kid").primaryKey(),
  /** Order of creation. */
  position: bigint("position", { mode: "number" }).notNull().unique().generatedAlwaysAsIdentity(),
  /** Public half in base64url. */
  x: text("x").notNull(),
  /** Private half, encrypted under API_KEYS_SECRET. */
  privateSealed: text("private_sealed").notNull(),
  createdAt: moment("created_at").notNull(),
  signsFrom: moment("signs_from").notNull(),
  /** Null until the key is replaced. */
  publishedUntil: moment("published_until"),
});

export const organizations = pgTable(
  "organizations",
  {
    id: text("id").primaryKey(),
    name: text("name").notNull(),
    ownerId: text("owner_id").notNull(),
    isDefault: boolean("is_default").notNull().default(false),
    /** Gate rules: forbidden effects of pricing changes on contracts. Null: no rules. */
    gateRules: json("gate_rules").$type<GateRule[]>(),
    /** Shares of a limit that raise an event, in percent, ascending. Null: the default ones. */
    usageThresholds: json("usage_thresholds").$type<number[]>(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    foreignKey({ name: "organizations_owner_fk", columns: [t.ownerId], foreignColumns: [users.id] }),
    index("organizations_owner_idx").on(t.ownerId),
    uniqueIndex("organizations_one_default_per_owner")
      .on(t.ownerId)
      .where(sql`${t.isDefault}`),
    index("organizations_created_idx").on(t.createdAt, t.id),
  ],
);

export const members = pgTable(
  "members",
  {
    organizationId: text("organization_id").notNull(),
    userId: text("user_id").notNull(),
    role: text("role").$type<"ADMIN" | "MANAGER" | "EVALUATOR">().notNull(),
    /** Order of joining, which decides who inherits the organization. */
    position: bigint("position", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
  },
  (t) => [
    primaryKey({ name: "members_pk", columns: [t.organizationId, t.userId] }),
    foreignKey({
      name: "members_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    foreignKey({ name: "members_user_fk", columns: [t.userId], foreignColumns: [users.id] }).onDelete("cascade"),
    index("members_user_idx").on(t.userId),
    check("members_role_known", sql`${t.role} in ('ADMIN', 'MANAGER', 'EVALUATOR')`),
  ],
);

export const organizationKeys = pgTable(
  "organization_keys",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    scope: text("scope").$type<"ALL" | "MANAGEMENT" | "EVALUATION">().notNull(),
    /** Display name; null until it is set. */
    name: text("name"),
    keyHash: text("key_hash").notNull(),
    keySealed: text("key_sealed").notNull(),
    /** Expiry of the key; null for never. */
    expiresAt: moment("expires_at"),
    /** Accurate to about a minute. */
    lastUsedAt: moment("last_used_at"),
    position: bigint("position", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    createdAt: createdAt(),
  },
  (t) => [
    foreignKey({
      name: "organization_keys_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    index("organization_keys_organization_idx").on(t.organizationId),
    unique("organization_keys_hash_unique").on(t.keyHash),
    check("organization_keys_scope_known", sql`${t.scope} in ('ALL', 'MANAGEMENT', 'EVALUATION')`),
  ],
);

export const services = pgTable(
  "services",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    name: text("name").notNull(),
    /** Lower-case name, used in contracts, feature ids and lookups. */
    nameKey: text("name_key").notNull(),
    disabled: boolean("disabled").notNull().default(false),
    /** False until a version is archived or the service re-enabled; until then responses omit `archivedPricings`. */
    hasArchive: boolean("has_archive").notNull().default(false),
    /** True if everybody may read the service's offer, without a key. */
    offerPublished: boolean("offer_published").notNull().default(false),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    primaryKey({ name: "services_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "services_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    unique("services_name_unique").on(t.organizationId, t.nameKey),
  ],
);

export const pricings = pgTable(
  "pricings",
  {
    id: text("id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    version: text("version").notNull(),
    /** Version with `_` replaced by `.`: both spellings address one version. */
    versionKey: text("version_key").notNull(),
    availability: text("availability").$type<"active" | "archived">().notNull(),
    /** Order of upload within the service. */
    position: bigint("position", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    /** URL from which the pricing was fetched once, at upload; null for an uploaded file. */
    url: text("url"),
    /** Path below the host under which the uploaded text is public; null for a pricing given by URL. */
    yamlPath: text("yaml_path"),
    /** Uploaded text, unchanged. */
    source: text("source").notNull(),
    /** Text of the expectations, unchanged; null without any. */
    expectations: text("expectations"),
    model: json("model").$type<Pricing>().notNull(),
    /** SHA-256 of the stored model, the cache key of its compiled form. */
    modelHash: text("model_hash").notNull(),
    /** `createdAt` of the file. Contracts of an archived version move to the newest one. */
    declaredAt: moment("declared_at").notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    primaryKey({ name: "pricings_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "pricings_service_fk",
      columns: [t.serviceId, t.organizationId],
      foreignColumns: [services.id, services.organizationId],
    }).onDelete("cascade"),
    unique("pricings_version_unique").on(t.serviceId, t.versionKey, t.organizationId),
    unique("pricings_yaml_path_unique").on(t.yamlPath, t.organizationId),
    check("pricings_availability_known", sql`${t.availability} in ('active', 'archived')`),
  ],
);

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

/** Models of deleted versions, which past states of contracts still reference. */
export const deletedPricings = pgTable(
  "deleted_pricings",
  {
    /** Id of the deleted version. */
    id: text("id").notNull(),
    serviceId: text("service_id").notNull(),
    organizationId: text("organization_id").notNull(),
    model: json("model").$type<Pricing>().notNull(),
    modelHash: text("model_hash").notNull(),
    deletedAt: moment("deleted_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "deleted_pricings_pk", columns: [t.id, t.organizationId] }),
    foreignKey({
      name: "deleted_pricings_service_fk",
      columns: [t.serviceId, t.organizationId],
      foreignColumns: [services.id, services.organizationId],
    }).onDelete("cascade"),
    index("deleted_pricings_service_idx").on(t.serviceId),
  ],
);

/** Balance of one tracked limit of one contract. Each change is one atomic UPDATE with a ledger row. */
export const usageLevels = pgTable(
  "usage_levels",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    position: integer("position").notNull(),
    consumed: amount("consumed").notNull().default(0),
    /** Highest threshold raised since the last reset, in percent, and the limit's value then. Null: none. */
    alertedThreshold: integer("alerted_threshold"),
    alertedLimit: amount("alerted_limit"),
    /** Sum of what open holds hold of this limit; see db/queries/holds.ts. */
    held: amount("held").notNull().default(0),
    /** Number of these holds. */
    openHolds: integer("open_holds").notNull().default(0),
    /** None of them ends before this moment. Null without open holds. */
    holdDue: moment("hold_due"),
    /** Start of the first period. Boundaries are anchor + n periods, so that month ends do not drift. Null: never resets. */
    anchor: moment("anchor"),
    resetAt: moment("reset_at"),
    periodValue: amount("period_value"),
    periodUnit: text("period_unit").$type<"SEC" | "MIN" | "HOUR" | "DAY" | "MONTH" | "YEAR">(),
    /**
     * Value of the limit in the contract's plan and add-ons, without overrides; Infinity if consumption cannot approach it.
     * Null until `npm run migrate` fills it in.
     */
    limitValue: amount("limit_value"),
    /** Tenths of `limit_value` that are consumed: 0 to 10. A trigger maintains it; see faregate_used_tenths. */
    usedTenths: smallint("used_tenths"),
    /** Start of the running period: usage before it is late. Null: the level is older than this column. */
    runningSince: moment("running_since"),
  },
  (t) => [
    // Finds balances near their limit. Consumption within a tenth stays a HOT update: it changes no indexed column.
    index("usage_levels_near_idx")
      .on(t.serviceId, t.usedTenths)
      .where(sql`${t.usedTenths} > 0`),
    index("usage_levels_unfilled_idx")
      .on(t.serviceId)
      .where(sql`${t.limitValue} is null`),
    primaryKey({ name: "usage_levels_pk", columns: [t.contractId, t.serviceId, t.limitName, t.organizationId] }),
    foreignKey({
      name: "usage_levels_contract_service_fk",
      columns: [t.contractId, t.serviceId, t.organizationId],
      foreignColumns: [contractServices.contractId, contractServices.serviceId, contractServices.organizationId],
    }).onDelete("cascade"),
    check("usage_levels_consumed_not_negative", sql`${t.consumed} >= 0`),
    check("usage_levels_held_not_negative", sql`${t.held} >= 0`),
    check("usage_levels_held_whole", sql`(${t.openHolds} = 0) = (${t.holdDue} is null)`),
    check(
      "usage_levels_renewable_whole",
      sql`(${t.anchor} is null) = (${t.resetAt} is null) and (${t.resetAt} is null) = (${t.periodUnit} is null) and (${t.periodUnit} is null) = (${t.periodValue} is null)`,
    ),
  ],
);

/**
 * Amounts of one feature's limits set aside for a contract, until they are settled, released or expire: holds, and what is
 * left of leases. The row of each level repeats the sums of its open rows. An ended hold never changes again; a lease may
 * give back what its end counted.
 */
export const holds = pgTable(
  "holds",
  {
    id: text("id").notNull(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    kind: text("kind").$type<HoldKind>().notNull().default("hold"),
    /** `<service>-<feature>`; follows renames of the service while the hold is open. */
    featureId: text("feature_id").notNull(),
    /** In the order of the request. */
    amounts: json("amounts").$type<HeldAmount[]>().notNull(),
    onExpiry: text("on_expiry").$type<OnExpiry>().notNull(),
    /** `open` until the end is written, which may be after `until`. */
    state: text("state").$type<HoldState>().notNull(),
    createdAt: moment("created_at").notNull(),
    until: moment("until").notNull(),
    endedAt: moment("ended_at"),
    /** By limit id: what was counted at the end. Null if nothing was. */
    counted: json("counted").$type<Record<string, number>>(),
    /** Of a lease, whose `amounts` are what is left of it. Null for a hold. */
    lease: json("lease").$type<LeaseFacts>(),
  },
  (t) => [
    primaryKey({ name: "holds_pk", columns: [t.id, t.organizationId] }),
    // No foreign key on the contract, as for the ledger. A trigger deletes the rows with their contract.
    index("holds_contract_idx").on(t.contractId, t.id),
    index("holds_open_idx")
      .on(t.contractId, t.until)
      .where(sql`${t.state} = 'open'`),
    // Partial index of ends to write, which the sweep looks for every second.
    index("holds_due_idx")
      .on(t.until)
      .where(sql`${t.state} = 'open'`),
    check("holds_kind_known", sql`${t.kind} in ('hold', 'lease')`),
    check("holds_state_known", sql`${t.state} in ('open', 'settled', 'released', 'expired')`),
    check("holds_expiry_known", sql`${t.onExpiry} in ('release', 'consume')`),
    check("holds_ended_whole", sql`(${t.state} = 'open') = (${t.endedAt} is null)`),
    check("holds_lease_whole", sql`(${t.kind} = 'lease') = (${t.lease} is not null)`),
  ],
);

/**
 * Streams of changes that local evaluators have open, per process and organization. A row counts only while its process holds the
 * advisory lock of `session`, which Postgres releases with the connection; see db/queries/evaluators.ts.
 */
export const evaluators = pgTable(
  "evaluators",
  {
    organizationId: text("organization_id").notNull(),
    session: integer("session").notNull(),
    streams: integer("streams").notNull(),
  },
  (t) => [
    primaryKey({ name: "evaluators_pk", columns: [t.organizationId, t.session] }),
    foreignKey({
      name: "evaluators_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
  ],
);

/**
 * Movements of all balances, append-only: for each usage level, `consumed` equals the sum of `delta`.
 * The delta of a renewal or reset returns the balance to zero; earlier consumption is then no longer revertible.
 */
export const usageLedger = pgTable(
  "usage_ledger",
  {
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    kind: text("kind").$type<"consume" | "revert" | "adjust" | "reset" | "renew" | "remove" | "late">().notNull(),
    /** `<service>-<feature>` of a consumption, of its revert, or of late usage, as it was counted; null for other kinds. */
    featureId: text("feature_id"),
    /** Groups the rows of one call, which are applied and reverted together. Of a batch item: its key. */
    operationId: text("operation_id").notNull(),
    delta: amount("delta").notNull(),
    /** New reset moment set by a renewal or reset. */
    resetAt: moment("reset_at"),
    /** Moment of recording. */
    createdAt: moment("created_at").notNull(),
    revertedAt: moment("reverted_at"),
    /** Moment of use, of a batch item that states one. Null: `createdAt`. */
    usedAt: moment("used_at"),
    /** Amount of late usage, which moves no balance: its `delta` is 0. Null for other kinds. */
    lateAmount: amount("late_amount"),
    /** Id by which a revert finds the feature, after its service was renamed. Null: `featureId`. */
    renamedFeatureId: text("renamed_feature_id"),
  },
  (t) => [
    primaryKey({ name: "usage_ledger_pk", columns: [t.id, t.organizationId] }),
    // No foreign key on the contract: it would repeat a lookup per row although every writer holds the contract's row lock.
    // A trigger deletes the rows with their contract.
    index("usage_ledger_level_idx").on(t.contractId, t.serviceId, t.limitName, t.id),
    // Lets a revert find one feature's last two minutes without scanning the ledger.
    index("usage_ledger_feature_idx")
      .on(t.contractId, t.featureId, t.createdAt)
      .where(sql`${t.featureId} is not null`),
    // Holds the consumption of the last two minutes before a rename.
    index("usage_ledger_renamed_idx")
      .on(t.contractId, t.renamedFeatureId)
      .where(sql`${t.renamedFeatureId} is not null`),
    // Finds the last reset or compacted sum, from which a past balance is computed.
    index("usage_ledger_zero_idx")
      .on(t.contractId, t.serviceId, t.limitName, t.createdAt, t.id)
      .where(sql`${t.kind} in ('reset', 'renew', 'remove') or ${t.operationId} = 'carried'`),
    check(
      "usage_ledger_kind_known",
      sql`${t.kind} in ('consume', 'revert', 'adjust', 'reset', 'renew', 'remove', 'late')`,
    ),
  ],
);

/** Newest reset moment of each balance, if compaction deleted the movement that set it. */
export const usageResets = pgTable(
  "usage_resets",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    /** Time of that movement. */
    at: moment("at").notNull(),
    resetAt: moment("reset_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "usage_resets_pk", columns: [t.contractId, t.serviceId, t.limitName, t.organizationId] }),
    foreignKey({
      name: "usage_resets_contract_fk",
      columns: [t.contractId, t.organizationId],
      foreignColumns: [contracts.id, contracts.organizationId],
    }).onDelete("cascade"),
  ],
);

/** One row: movements up to this moment may be compacted into sums. Null: none are. */
export const usageLedgerStart = pgTable(
  "usage_ledger_start",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    at: moment("at"),
  },
  (t) => [check("usage_ledger_start_one_row", sql`${t.singleton}`)],
);

/** Sums of a level, per bucket of the moment of use. `entries` counts the movements that are counted or late. */
const usageSums = () => ({
  counted: amount("counted").notNull(),
  cleared: amount("cleared").notNull(),
  late: amount("late").notNull(),
  entries: bigint("entries", { mode: "number" }).notNull(),
});

/** One row: the sums per hour and day hold exactly the movements up to this id. See queries/usage-rollup.ts. */
export const usageRollUp = pgTable(
  "usage_rollup",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    upTo: bigint("up_to", { mode: "number" }).notNull().default(0),
  },
  (t) => [check("usage_rollup_one_row", sql`${t.singleton}`)],
);

/** Sums per hour. A trigger deletes them with their contract. */
export const usageHours = pgTable(
  "usage_hours",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    hour: moment("hour").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    ...usageSums(),
  },
  (t) => [
    primaryKey({ name: "usage_hours_pk", columns: [t.contractId, t.hour, t.serviceId, t.limitName, t.organizationId] }),
    index("usage_hours_hour_idx").on(t.hour),
  ],
);

/** Sums per day and feature. A trigger deletes them with their contract. */
export const usageDays = pgTable(
  "usage_days",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    day: moment("day").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    /** Empty for movements without feature. */
    featureId: text("feature_id").notNull(),
    ...usageSums(),
  },
  (t) => [
    primaryKey({
      name: "usage_days_pk",
      columns: [t.contractId, t.day, t.serviceId, t.limitName, t.featureId, t.organizationId],
    }),
    index("usage_days_day_idx").on(t.day),
  ],
);

/** Keys of recorded batch items, each taken in the transaction of its movements. */
export const usageKeys = pgTable(
  "usage_keys",
  {
    // No foreign key: it would lock the organization's row for each item. Keys are pruned by age.
    organizationId: text("organization_id").notNull(),
    key: text("key").notNull(),
    /** SHA-256 of the item in canonical form: the key of another item is rejected. */
    fingerprint: text("fingerprint").notNull(),
    takenAt: moment("taken_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "usage_keys_pk", columns: [t.organizationId, t.key] }),
    index("usage_keys_taken_idx").on(t.takenAt),
  ],
);

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

/** What is known of each subscription of a connection; see core/billing/register.ts. */
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

/** Calls and evaluations of the whole instance per UTC day. */
export const analyticsDays = pgTable("analytics_days", {
  day: date("day", { mode: "string" }).primaryKey(),
  apiCalls: bigint("api_calls", { mode: "number" }).notNull().default(0),
  evaluations: bigint("evaluations", { mode: "number" }).notNull().default(0),
});

/** Denied evaluations per organization, hour, feature and reason; retained for 31 days. */
export const denials = pgTable(
  "denials",
  {
    organizationId: text("organization_id")
      .notNull()
      .references(() => organizations.id, { onDelete: "cascade" }),
    /** Start of the hour, in UTC. */
    hour: moment("hour").notNull(),
    /** `<service>-<feature>`, as requested. */
    featureId: text("feature_id").notNull(),
    reason: text("reason").$type<OffReason>().notNull(),
    count: bigint("count", { mode: "number" }).notNull(),
  },
  (t) => [
    primaryKey({ name: "denials_pk", columns: [t.organizationId, t.hour, t.featureId, t.reason] }),
    index("denials_hour_idx").on(t.hour),
  ],
);

/** Entries of the cache endpoints. Only platform ADMINs use them; the server itself reads none. */
export const cacheEntries = pgTable("cache_entries", {
  key: text("key").primaryKey(),
  value: json("value").notNull(),
  expiresAt: moment("expires_at").notNull(),
});

/**
 * Audit log, append-only, written in the transaction of each change. Has no foreign keys, because it outlives its targets.
 * Contains no secrets and no hashes of secrets.
 */
export const auditLog = pgTable(
  "audit_log",
  {
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    at: moment("at").notNull(),
    /** Empty for changes of the whole instance, such as accounts. */
    organizationId: text("organization_id").notNull(),
    actorKind: text("actor_kind").$type<ActorKind>().notNull(),
    /** Id of the user or key. */
    actorId: text("actor_id"),
    /** Resource kind and verb, such as `contract.novate`. */
    action: text("action").notNull(),
    /** Public name or id of the target, cut to the maximum size of an index entry. */
    target: text("target").notNull(),
    before: json("before"),
    after: json("after"),
    requestId: text("request_id"),
  },
  (t) => [
    primaryKey({ name: "audit_log_pk", columns: [t.id, t.organizationId] }),
    index("audit_log_organization_idx").on(t.organizationId, t.id),
    index("audit_log_at_idx").on(t.at),
    index("audit_log_action_idx").on(t.organizationId, t.action, t.id),
    index("audit_log_target_idx").on(t.target, t.id),
    index("audit_log_actor_idx").on(t.actorId, t.id),
    check("audit_log_actor_known", sql`${t.actorKind} in ('user', 'key', 'anonymous', 'billing')`),
  ],
);

/** Decision to change a pricing: the impact report, the gate's results, and the author of an override. */
export const pricingDecisions = pgTable(
  "pricing_decisions",
  {
    id: bigint("id", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    serviceId: text("service_id").notNull(),
    /** The organization whose gate decided; a service that moves away leaves its decisions behind. */
    organizationId: text("organization_id").notNull(),
    /** Archived, activated, or where contracts went; null for a whole service. */
    pricingId: text("pricing_id"),
    /** Name of the version at that time. */
    version: text("version"),
    action: text("action").$type<"archive" | "activate" | "disable" | "novation">().notNull(),
    at: moment("at").notNull(),
    actorKind: text("actor_kind").$type<ActorKind>().notNull(),
    actorId: text("actor_id"),
    rules: json("rules").$type<GateResult[]>().notNull(),
    /** Reason given for overriding a gate rule; null if no rule was broken. */
    overrideReason: text("override_reason"),
    report: json("report").$type<Record<string, unknown>>().notNull(),
  },
  (t) => [
    primaryKey({ name: "pricing_decisions_pk", columns: [t.id, t.organizationId] }),
    // No foreign keys on service and version, which may move to another organization.
    foreignKey({
      name: "pricing_decisions_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    index("pricing_decisions_organization_idx").on(t.organizationId),
    index("pricing_decisions_service_idx").on(t.serviceId, t.id),
    index("pricing_decisions_pricing_idx").on(t.pricingId),
  ],
);

/** Rate-limit counters per minute; see db/queries/rate-counters.ts. Unlogged: a crash of Postgres empties the table. */
export const rateCounters = pgTable(
  "rate_counters",
  {
    /** Limited action and subject, such as `sign-up 192.0.2.7`. */
    bucket: text("bucket").notNull(),
    /** Minutes since 1970. */
    minute: integer("minute").notNull(),
    count: integer("count").notNull(),
  },
  (t) => [primaryKey({ name: "rate_counters_pk", columns: [t.bucket, t.minute] })],
);

/** One row: the import of a SPACE dump and its progress; see operations/imports/space.ts. */
export const spaceImports = pgTable(
  "space_imports",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    /** SHA-256 of the dump's files: only the same dump continues an unfinished import. */
    dumpHash: text("dump_hash").notNull(),
    /** The import's clock, which a repeated run uses again. */
    startedAt: moment("started_at").notNull(),
    /** Batches that are committed. */
    batches: integer("batches").notNull(),
    /** Pricings fetched at the beginning, by address. */
    fetched: json("fetched").$type<Record<string, { text: string } | { error: string }>>().notNull(),
    /** The ADMIN of the empty database that made room; null if it stayed. */
    seededAdmin: json("seeded_admin").$type<{ id: string; username: string }>(),
    /** The result; null until the import is finished. */
    report: json("report").$type<SpaceReport>(),
    /** True once the result is printed. */
    reported: boolean("reported").notNull().default(false),
  },
  (t) => [check("space_imports_one_row", sql`${t.singleton}`)],
);
