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
  smallint,
  text,
  timestamp,
} from "drizzle-orm/pg-core";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import type { HeldAmount, HeldBudget, HoldKind, HoldState, OnExpiry } from "../../core/holds.ts";
import type { LeaseFacts } from "../../core/leases.ts";
import type { BudgetMovement } from "../../core/pricing/budgets.ts";
import { organizations } from "./accounts.ts";
import { contracts, contractServices } from "./contracts.ts";
import { moment, amount } from "./columns.ts";

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
    /** Tenths of `limit_value` that are consumed: 0 to 10. Whoever changes either writes it, by faregate_used_tenths. */
    usedTenths: smallint("used_tenths"),
    /** The balance is the number of the contract's members, and only their list moves it. */
    countsMembers: boolean("counts_members").notNull().default(false),
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
    /** By limit id: what was counted, in all. Null if nothing was. */
    counted: json("counted").$type<Record<string, number>>(),
    /** By limit id: the units that the whole of `counted` stands for. Null, or without a limit, if it was reported without them. */
    countedUnits: json("counted_units").$type<Record<string, CountedUnits>>(),
    /** Usage was reported of it while it was open: `counted` is the total so far, and `amounts` are what is left. */
    kept: boolean("kept").notNull().default(false),
    /** Of a lease, whose `amounts` are what is left of it. Null for a hold. */
    lease: json("lease").$type<LeaseFacts>(),
    /** Path of the spender. Null without one. */
    spender: text("spender"),
    /** Budgets that count it, each with what is held of it. Null without any. */
    budgets: json("budgets").$type<HeldBudget[]>(),
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
 *
 * Partitioned by `createdAt`; see queries/ledger-partitions.ts. Has no primary key, which would need `createdAt`, and whose entries
 * would cost every consumption more: the sequence makes ids unique.
 */
export const usageLedger = pgTable(
  "usage_ledger",
  {
    /** Ascends with the assignment, not with commits. 0: a sum that compaction left behind, which precedes all movements. */
    id: bigint("id", { mode: "number" })
      .notNull()
      .default(sql`nextval('usage_ledger_id_seq'::regclass)`),
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
    /** Path of the spender. Null without one. */
    spender: text("spender"),
    /** Balances of budgets that it moved. Null without any. */
    budgets: json("budgets").$type<BudgetMovement[]>(),
    /** The caller estimated the amount. Null: it is exact. */
    estimated: boolean("estimated"),
    /** Number and cost of each unit, of a call that named units. Null for other movements. */
    units: json("units").$type<CountedUnits>(),
  },
  (t) => [
    // Finds the movements with spenders.
    index("usage_ledger_spender_idx")
      .on(t.contractId, t.createdAt)
      .where(sql`${t.spender} is not null`),
    // Finds the few movements with units.
    index("usage_ledger_units_idx")
      .on(t.contractId, t.createdAt)
      .where(sql`${t.units} is not null`),
    // No foreign key on the contract: it would repeat a lookup per row although every writer holds the contract's row lock.
    // A trigger deletes the rows with their contract.
    index("usage_ledger_level_idx").on(t.contractId, t.serviceId, t.limitName, t.id),
    // Finds what is newer than the roll-up. Each entry goes to the last page, which is cached.
    index("usage_ledger_id_idx").on(t.id),
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
    /** The staged compaction sums up partitions that end until this moment. Null: none is staged. */
    stagedUntil: timestamp("staged_until", { withTimezone: true }),
    /** The staged compaction keeps younger movements as they are. */
    stagedCutoff: timestamp("staged_cutoff", { withTimezone: true }),
    /** The staged compaction holds movements up to this id. The swap adds later ones. */
    stagedUpTo: bigint("staged_up_to", { mode: "number" }),
    /** Moment of the newest movement in a staged sum, and the number of movements. */
    stagedLatest: moment("staged_latest"),
    stagedMovements: bigint("staged_movements", { mode: "number" }),
  },
  (t) => [check("usage_ledger_start_one_row", sql`${t.singleton}`)],
);
