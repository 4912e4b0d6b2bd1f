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
  text,
  timestamp,
  unique,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import type { GateRule, GateResult } from "../core/change/impact/gate.ts";
import type { EventDetails } from "../core/event-messages.ts";
import type { OffReason } from "../core/ofrep.ts";
import type { Pricing } from "../core/pricing/model.ts";
import type { StateCause } from "./queries/contract-states.ts";
import type { SnapshotService } from "./queries/contract-snapshots.ts";

/*
 * Every table. SQL is snake_case, names are plural, moments are timestamptz, every foreign key is indexed, and every
 * constraint has a name because the name is what operations recognise a violation by.
 * JSON that a client reads back is `json`, never `jsonb`: the latter reorders keys, and the order of a pricing means something.
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

export const users = pgTable(
  "users",
  {
    id: text("id").primaryKey(),
    username: text("username").notNull(),
    /** UTS 39 skeleton of the name, which look-alikes share; null until `npm run migrate` has filled it in. */
    usernameSkeleton: text("username_skeleton"),
    passwordHash: text("password_hash").notNull(),
    role: text("role").$type<"ADMIN" | "USER">().notNull(),
    /** Keyed hash (HMAC-SHA-256) of the user key: what a request is looked up by. */
    apiKeyHash: text("api_key_hash"),
    /** The user key sealed with AES-256-GCM: clients are shown it again at sign-in. */
    apiKeySealed: text("api_key_sealed"),
    /** From when on the key is refused; null for never. */
    apiKeyExpiresAt: moment("api_key_expires_at"),
    /** To the minute, or a little later. */
    apiKeyLastUsedAt: moment("api_key_last_used_at"),
    /** The key before this one, which works until then. */
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

/** The installation itself: one row, written by the migration that made the table. Nothing changes it. */
export const instances = pgTable(
  "instances",
  {
    /** 24 hex digits: names the issuer of pricing tokens where PUBLIC_URL is not set. */
    id: text("id").primaryKey(),
    onlyOne: boolean("only_one").notNull().default(true),
  },
  (t) => [unique("instances_only_one_unique").on(t.onlyOne), check("instances_only_one_true", sql`${t.onlyOne}`)],
);

export const organizations = pgTable(
  "organizations",
  {
    id: text("id").primaryKey(),
    name: text("name").notNull(),
    ownerId: text("owner_id").notNull(),
    isDefault: boolean("is_default").notNull().default(false),
    /** What changes of pricings must not do to contracts; null is no rule. */
    gateRules: json("gate_rules").$type<GateRule[]>(),
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
    /** Order of joining; inheritance of an organization follows it. */
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
    /** What people call it; null until somebody says. */
    name: text("name"),
    keyHash: text("key_hash").notNull(),
    keySealed: text("key_sealed").notNull(),
    /** From when on the key is refused; null for never. */
    expiresAt: moment("expires_at"),
    /** To the minute, or a little later. */
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
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    name: text("name").notNull(),
    /** The name in lower case: the key of contracts and feature ids, and what look-ups compare. */
    nameKey: text("name_key").notNull(),
    disabled: boolean("disabled").notNull().default(false),
    /** False until a version has been archived or the service re-enabled: the wire omits `archivedPricings` till then. */
    hasArchive: boolean("has_archive").notNull().default(false),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
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
    id: text("id").primaryKey(),
    serviceId: text("service_id").notNull(),
    version: text("version").notNull(),
    /** The version with `_` written as `.`: both spellings address the same version. */
    versionKey: text("version_key").notNull(),
    availability: text("availability").$type<"active" | "archived">().notNull(),
    /** Order of upload within the service. */
    position: bigint("position", { mode: "number" }).notNull().generatedAlwaysAsIdentity(),
    /** The address a pricing was fetched from, once, at upload; null for an uploaded file. */
    url: text("url"),
    /** Path below the host under which the uploaded text is public; null for a pricing given by URL. */
    yamlPath: text("yaml_path"),
    /** The text exactly as uploaded. */
    source: text("source").notNull(),
    model: json("model").$type<Pricing>().notNull(),
    /** SHA-256 of the stored model: the key under which its compiled form is cached, for ever. */
    modelHash: text("model_hash").notNull(),
    /** `createdAt` of the file: the newest one is where archived contracts go. */
    declaredAt: moment("declared_at").notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    foreignKey({ name: "pricings_service_fk", columns: [t.serviceId], foreignColumns: [services.id] }).onDelete(
      "cascade",
    ),
    unique("pricings_version_unique").on(t.serviceId, t.versionKey),
    unique("pricings_yaml_path_unique").on(t.yamlPath),
    check("pricings_availability_known", sql`${t.availability} in ('active', 'archived')`),
  ],
);

export const contracts = pgTable(
  "contracts",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    /** The end user, in the words of the SaaS: opaque and case-sensitive. */
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
    /** The end date whose passing has been announced; see operations/contracts/expiry.ts. */
    expiryAnnounced: moment("expiry_announced"),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    foreignKey({
      name: "contracts_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    unique("contracts_user_unique").on(t.organizationId, t.userId),
    index("contracts_username_idx").on(t.organizationId, sql`${t.username} collate "C"`, t.id),
    index("contracts_group_idx").on(t.organizationId, t.groupId),
    index("contracts_user_idx").on(t.userId),
    // What is to be announced, and nothing else: past expiries do not slow down the look for new ones.
    index("contracts_expiry_idx")
      .on(t.endDate)
      .where(sql`not ${t.autoRenew} and ${t.expiryAnnounced} is distinct from ${t.endDate}`),
    // What renews automatically, by when: the sweep reads what is due and nothing else.
    index("contracts_renewal_idx")
      .on(t.endDate)
      .where(sql`${t.autoRenew}`),
  ],
);

/** One row a contracted service: the contract's three maps, with references that cannot dangle. */
export const contractServices = pgTable(
  "contract_services",
  {
    contractId: text("contract_id").notNull(),
    serviceId: text("service_id").notNull(),
    pricingId: text("pricing_id").notNull(),
    position: integer("position").notNull(),
    /** The plan as the caller spelled it; null when the service has no entry in `subscriptionPlans`. */
    plan: text("plan"),
    /** Add-on -> quantity, in the pricing's spelling; null when the service has no entry in `subscriptionAddOns`. */
    addOns: json("add_ons").$type<Record<string, number>>(),
  },
  (t) => [
    primaryKey({ name: "contract_services_pk", columns: [t.contractId, t.serviceId] }),
    foreignKey({
      name: "contract_services_contract_fk",
      columns: [t.contractId],
      foreignColumns: [contracts.id],
    }).onDelete("cascade"),
    foreignKey({
      name: "contract_services_service_fk",
      columns: [t.serviceId],
      foreignColumns: [services.id],
    }),
    foreignKey({
      name: "contract_services_pricing_fk",
      columns: [t.pricingId],
      foreignColumns: [pricings.id],
    }),
    index("contract_services_service_idx").on(t.serviceId),
    index("contract_services_pricing_idx").on(t.pricingId),
  ],
);

/** Past subscriptions of a contract, oldest first; names as they were then. */
export const contractHistory = pgTable(
  "contract_history",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    contractId: text("contract_id").notNull(),
    startDate: moment("start_date").notNull(),
    endDate: moment("end_date").notNull(),
    contractedServices: json("contracted_services").$type<Record<string, string>>().notNull(),
    subscriptionPlans: json("subscription_plans").$type<Record<string, string>>().notNull(),
    subscriptionAddOns: json("subscription_add_ons").$type<Record<string, Record<string, number>>>().notNull(),
  },
  (t) => [
    foreignKey({
      name: "contract_history_contract_fk",
      columns: [t.contractId],
      foreignColumns: [contracts.id],
    }).onDelete("cascade"),
    index("contract_history_contract_idx").on(t.contractId, t.id),
  ],
);

/**
 * What decides evaluations of a contract, as it was from `since` until the next row: written in the transaction of each such
 * change, append-only, so that a past moment can be asked about. Balances of that moment are in the ledger; what was over
 * before the ledger begins goes with the contract's next row (a trigger).
 */
export const contractStates = pgTable(
  "contract_states",
  {
    /** Ascending in the order in which a contract came into its states: it is locked meanwhile. */
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    contractId: text("contract_id").notNull(),
    since: moment("since").notNull(),
    cause: text("cause").$type<StateCause>().notNull(),
    startDate: moment("start_date").notNull(),
    endDate: moment("end_date").notNull(),
    autoRenew: boolean("auto_renew").notNull(),
    renewalDays: integer("renewal_days").notNull(),
    services: json("services").$type<SnapshotService[]>().notNull(),
    levels: json("levels").$type<object[]>().notNull(),
  },
  (t) => [
    foreignKey({
      name: "contract_states_contract_fk",
      columns: [t.contractId],
      foreignColumns: [contracts.id],
    }).onDelete("cascade"),
    index("contract_states_contract_idx").on(t.contractId, t.id),
  ],
);

/** Models of deleted versions, because past states of contracts speak of them. */
export const deletedPricings = pgTable(
  "deleted_pricings",
  {
    /** The version's own. */
    id: text("id").primaryKey(),
    serviceId: text("service_id").notNull(),
    model: json("model").$type<Pricing>().notNull(),
    modelHash: text("model_hash").notNull(),
    deletedAt: moment("deleted_at").notNull(),
  },
  (t) => [
    foreignKey({
      name: "deleted_pricings_service_fk",
      columns: [t.serviceId],
      foreignColumns: [services.id],
    }).onDelete("cascade"),
    index("deleted_pricings_service_idx").on(t.serviceId),
  ],
);

/** The balance of one tracked limit of one contract. Every change is one atomic UPDATE, together with a ledger row. */
export const usageLevels = pgTable(
  "usage_levels",
  {
    contractId: text("contract_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    position: integer("position").notNull(),
    consumed: amount("consumed").notNull().default(0),
    /** Start of the first period; boundaries are anchor + n periods, so that month ends do not drift. Null: never resets. */
    anchor: moment("anchor"),
    resetAt: moment("reset_at"),
    periodValue: amount("period_value"),
    periodUnit: text("period_unit").$type<"SEC" | "MIN" | "HOUR" | "DAY" | "MONTH" | "YEAR">(),
  },
  (t) => [
    primaryKey({ name: "usage_levels_pk", columns: [t.contractId, t.serviceId, t.limitName] }),
    foreignKey({
      name: "usage_levels_contract_service_fk",
      columns: [t.contractId, t.serviceId],
      foreignColumns: [contractServices.contractId, contractServices.serviceId],
    }).onDelete("cascade"),
    check("usage_levels_consumed_not_negative", sql`${t.consumed} >= 0`),
    check(
      "usage_levels_renewable_whole",
      sql`(${t.anchor} is null) = (${t.resetAt} is null) and (${t.resetAt} is null) = (${t.periodUnit} is null) and (${t.periodUnit} is null) = (${t.periodValue} is null)`,
    ),
  ],
);

/**
 * Every movement of every balance, append-only: for each usage level, `consumed` equals the sum of `delta`.
 * A renewal or reset is a row whose delta takes the balance back to zero, and voids what could be reverted before it.
 */
export const usageLedger = pgTable(
  "usage_ledger",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    contractId: text("contract_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    kind: text("kind").$type<"consume" | "revert" | "adjust" | "reset" | "renew" | "remove">().notNull(),
    /** `<service>-<feature>` of the evaluation that consumed; null for other kinds. */
    featureId: text("feature_id"),
    /** Groups the rows of one call: they were applied, and can be reverted, together. */
    operationId: text("operation_id").notNull(),
    delta: amount("delta").notNull(),
    /** The reset moment that a renewal or reset gave the balance. */
    resetAt: moment("reset_at"),
    createdAt: moment("created_at").notNull(),
    revertedAt: moment("reverted_at"),
  },
  (t) => [
    // Without a foreign key, which would look the contract up again for each row that its lock was taken for: whoever writes
    // here holds the contract's row, and a trigger takes the rows away with it.
    index("usage_ledger_level_idx").on(t.contractId, t.serviceId, t.limitName, t.id),
    // What a revert looks for: one feature's last two minutes, in a ledger that only grows.
    index("usage_ledger_feature_idx")
      .on(t.contractId, t.featureId, t.createdAt)
      .where(sql`${t.featureId} is not null`),
    // Where balances began at zero, and the sums of what is not kept: from there a past balance is added up.
    index("usage_ledger_zero_idx")
      .on(t.contractId, t.serviceId, t.limitName, t.createdAt, t.id)
      .where(sql`${t.kind} in ('reset', 'renew', 'remove') or ${t.operationId} = 'carried'`),
    check("usage_ledger_kind_known", sql`${t.kind} in ('consume', 'revert', 'adjust', 'reset', 'renew', 'remove')`),
  ],
);

/** The newest reset moment of each balance whose movement is not kept any more. */
export const usageResets = pgTable(
  "usage_resets",
  {
    contractId: text("contract_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    /** When that movement was. */
    at: moment("at").notNull(),
    resetAt: moment("reset_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "usage_resets_pk", columns: [t.contractId, t.serviceId, t.limitName] }),
    foreignKey({
      name: "usage_resets_contract_fk",
      columns: [t.contractId],
      foreignColumns: [contracts.id],
    }).onDelete("cascade"),
  ],
);

/** One row: up to which moment movements may have been replaced by sums. Null: never. */
export const usageLedgerStart = pgTable(
  "usage_ledger_start",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    at: moment("at"),
  },
  (t) => [check("usage_ledger_start_one_row", sql`${t.singleton}`)],
);

/** Answers to calls that carried an Idempotency-Key, written in the transaction of what they answer; see operations/idempotency.ts. */
export const idempotencyKeys = pgTable(
  "idempotency_keys",
  {
    /** Whose keys these are: an organization's id, or `user:` and the id of a user without one. */
    scope: text("scope").notNull(),
    key: text("key").notNull(),
    /** SHA-256 of the request: the same key with another request is refused. */
    fingerprint: text("fingerprint").notNull(),
    /** Null only inside the transaction that is still working on the answer. */
    status: integer("status").$type<200 | 204>(),
    /** The answer's text exactly as sent; null for an empty one. */
    body: text("body"),
    createdAt: moment("created_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "idempotency_keys_pk", columns: [t.scope, t.key] }),
    index("idempotency_keys_created_idx").on(t.createdAt),
  ],
);

/** What happened, in commit order; see db/outbox.ts. */
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
    // What the overview counts.
    index("outbox_limits_idx")
      .on(t.organizationId, t.createdAt)
      .where(sql`${t.code} = 'USAGE_LIMIT_REACHED'`),
  ],
);

/** One row: the id of the last event. Its row lock is what makes ids follow commit order. */
export const outboxCounter = pgTable(
  "outbox_counter",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    lastId: bigint("last_id", { mode: "number" }).notNull().default(0),
  },
  (t) => [check("outbox_counter_one_row", sql`${t.singleton}`)],
);

/** Where an organization wants its events sent. */
export const webhookEndpoints = pgTable(
  "webhook_endpoints",
  {
    id: text("id").primaryKey(),
    organizationId: text("organization_id").notNull(),
    url: text("url").notNull(),
    description: text("description"),
    /** Codes to send; null is all of them. */
    codes: json("codes").$type<string[]>(),
    /** `disabled` by somebody, `suspended` by the server because nothing arrived for long. */
    state: text("state").$type<"enabled" | "disabled" | "suspended">().notNull(),
    /** When and why it was suspended. */
    suspendedAt: moment("suspended_at"),
    suspendedReason: text("suspended_reason"),
    /** The signing secret, sealed like API keys; the previous one signs too until then. */
    secretSealed: text("secret_sealed").notNull(),
    previousSecretSealed: text("previous_secret_sealed"),
    previousSecretUntil: moment("previous_secret_until"),
    /** Attempts that failed since the last one that did not, and when they began to. */
    failures: integer("failures").notNull().default(0),
    failingSince: moment("failing_since"),
    /** Events up to this one were before its time. */
    afterEventId: bigint("after_event_id", { mode: "number" }).notNull(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    foreignKey({
      name: "webhook_endpoints_organization_fk",
      columns: [t.organizationId],
      foreignColumns: [organizations.id],
    }).onDelete("cascade"),
    index("webhook_endpoints_organization_idx").on(t.organizationId),
    check("webhook_endpoints_state_known", sql`${t.state} in ('enabled', 'disabled', 'suspended')`),
  ],
);

/** One event on its way to one endpoint, and how that went. */
export const webhookDeliveries = pgTable(
  "webhook_deliveries",
  {
    /** Without its prefix, the webhook-id of every attempt. */
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    endpointId: text("endpoint_id").notNull(),
    eventId: bigint("event_id", { mode: "number" }).notNull(),
    code: text("code").notNull(),
    /** The body, the same in every attempt. */
    payload: text("payload").notNull(),
    status: text("status").$type<"pending" | "delivered" | "failed">().notNull().default("pending"),
    attempts: integer("attempts").notNull().default(0),
    /** When it is due; while an attempt is under way, when others may take it to be lost. */
    nextAttemptAt: moment("next_attempt_at").notNull(),
    lastAttemptAt: moment("last_attempt_at"),
    /** Of the last attempt. */
    responseStatus: integer("response_status"),
    durationMs: integer("duration_ms"),
    error: text("error"),
    createdAt: createdAt(),
  },
  (t) => [
    foreignKey({
      name: "webhook_deliveries_endpoint_fk",
      columns: [t.endpointId],
      foreignColumns: [webhookEndpoints.id],
    }).onDelete("cascade"),
    unique("webhook_deliveries_event_unique").on(t.endpointId, t.eventId),
    index("webhook_deliveries_due_idx")
      .on(t.endpointId, t.nextAttemptAt)
      .where(sql`${t.status} = 'pending'`),
    index("webhook_deliveries_created_idx").on(t.createdAt),
    check("webhook_deliveries_status_known", sql`${t.status} in ('pending', 'delivered', 'failed')`),
  ],
);

/** One row: the event up to which deliveries have been made. Its row lock decides which process makes the next ones. */
export const webhookCursor = pgTable(
  "webhook_cursor",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    lastId: bigint("last_id", { mode: "number" }).notNull(),
  },
  (t) => [check("webhook_cursor_one_row", sql`${t.singleton}`)],
);

/** Calls and evaluations a UTC day, counted over the whole instance. */
export const analyticsDays = pgTable("analytics_days", {
  day: date("day", { mode: "string" }).primaryKey(),
  apiCalls: bigint("api_calls", { mode: "number" }).notNull().default(0),
  evaluations: bigint("evaluations", { mode: "number" }).notNull().default(0),
});

/** How often an organization's callers were told that an end user may not use a feature, by hour; kept for eight days. */
export const denials = pgTable(
  "denials",
  {
    organizationId: text("organization_id")
      .notNull()
      .references(() => organizations.id, { onDelete: "cascade" }),
    /** The moment at which the hour begins, in UTC. */
    hour: moment("hour").notNull(),
    /** `<service>-<feature>`, as it was asked for. */
    featureId: text("feature_id").notNull(),
    reason: text("reason").$type<OffReason>().notNull(),
    count: bigint("count", { mode: "number" }).notNull(),
  },
  (t) => [
    primaryKey({ name: "denials_pk", columns: [t.organizationId, t.hour, t.featureId, t.reason] }),
    index("denials_hour_idx").on(t.hour),
  ],
);

/** Entries of the cache endpoints: values of the platform ADMIN's own, which nothing in the server reads. */
export const cacheEntries = pgTable("cache_entries", {
  key: text("key").primaryKey(),
  value: json("value").notNull(),
  expiresAt: moment("expires_at").notNull(),
});

/**
 * Who changed what, append-only, written in the transaction of the change. References nothing: it outlives what it speaks
 * of. Never holds a secret or a hash of one.
 */
export const auditLog = pgTable(
  "audit_log",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    at: moment("at").notNull(),
    /** Null for what belongs to the whole instance, such as accounts. */
    organizationId: text("organization_id"),
    actorKind: text("actor_kind").$type<"user" | "key" | "anonymous">().notNull(),
    /** Id of the user or of the key. */
    actorId: text("actor_id"),
    /** What was done to what kind of thing, such as `contract.novate`. */
    action: text("action").notNull(),
    /** Which one, by the name that the interface knows it by, no longer than an entry of an index may be. */
    target: text("target").notNull(),
    before: json("before"),
    after: json("after"),
    requestId: text("request_id"),
  },
  (t) => [
    index("audit_log_organization_idx").on(t.organizationId, t.id),
    index("audit_log_at_idx").on(t.at),
    index("audit_log_action_idx").on(t.organizationId, t.action, t.id),
    index("audit_log_target_idx").on(t.target, t.id),
    index("audit_log_actor_idx").on(t.actorId, t.id),
    check("audit_log_actor_known", sql`${t.actorKind} in ('user', 'key', 'anonymous')`),
  ],
);

/** What was known of a change of pricings when it was made: what it does, what the gate's rules said, who passed over them. */
export const pricingDecisions = pgTable(
  "pricing_decisions",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    serviceId: text("service_id").notNull(),
    /** The organization whose gate decided; a service that moves away leaves its decisions behind. */
    organizationId: text("organization_id"),
    /** Archived, activated, or where contracts went; null for a whole service, and when the version is gone. */
    pricingId: text("pricing_id"),
    /** The version as it was called then. */
    version: text("version"),
    action: text("action").$type<"archive" | "activate" | "disable" | "novation">().notNull(),
    at: moment("at").notNull(),
    actorKind: text("actor_kind").$type<"user" | "key" | "anonymous">().notNull(),
    actorId: text("actor_id"),
    rules: json("rules").$type<GateResult[]>().notNull(),
    /** Why it was done against a rule; null when none was broken. */
    overrideReason: text("override_reason"),
    report: json("report").$type<Record<string, unknown>>().notNull(),
  },
  (t) => [
    foreignKey({
      name: "pricing_decisions_service_fk",
      columns: [t.serviceId],
      foreignColumns: [services.id],
    }).onDelete("cascade"),
    foreignKey({
      name: "pricing_decisions_pricing_fk",
      columns: [t.pricingId],
      foreignColumns: [pricings.id],
    }).onDelete("set null"),
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

/** Calls a minute that are limited across processes; see db/rate-counters.ts. Lost when Postgres crashes, which is fine. */
export const rateCounters = pgTable(
  "rate_counters",
  {
    /** What is counted and for whom, such as `sign-up 192.0.2.7`. */
    bucket: text("bucket").notNull(),
    /** Minutes since 1970. */
    minute: integer("minute").notNull(),
    count: integer("count").notNull(),
  },
  (t) => [primaryKey({ name: "rate_counters_pk", columns: [t.bucket, t.minute] })],
);
