import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  foreignKey,
  index,
  json,
  pgTable,
  primaryKey,
  text,
  unique,
} from "drizzle-orm/pg-core";
import type { ActorKind } from "../../core/access/caller.ts";
import type { GateResult } from "../../core/change/impact/gate.ts";
import type { Pricing } from "../../core/pricing/model.ts";
import { organizations } from "./accounts.ts";
import { moment, createdAt, updatedAt } from "./columns.ts";

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
