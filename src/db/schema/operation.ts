import { sql } from "drizzle-orm";
import { bigint, boolean, check, date, index, integer, json, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import type { ActorKind } from "../../core/access/caller.ts";
import type { OffReason } from "../../core/ofrep.ts";
import type { SpaceReport } from "../../core/space/report.ts";
import { organizations } from "./accounts.ts";
import { moment } from "./columns.ts";

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
