import { sql } from "drizzle-orm";
import { bigint, boolean, check, index, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import { moment, amount } from "./columns.ts";

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
