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
  uniqueIndex,
} from "drizzle-orm/pg-core";
import type { ApprovalSettings } from "../../core/approvals.ts";
import type { GateRule } from "../../core/change/impact/gate.ts";
import { moment, createdAt, updatedAt } from "./columns.ts";

export const users = pgTable(
  "users",
  {
    id: text("id").primaryKey(),
    username: text("username").notNull(),
    /** UTS 39 skeleton of the name, shared by look-alike names. Null until `npm run migrate` fills it in. */
    usernameSkeleton: text("username_skeleton"),
    passwordHash: text("password_hash").notNull(),
    /** Receives links for a new password. Null: only an ADMIN of the platform makes one. */
    email: text("email"),
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
    /** `oidc` for an account that a provider's sign-in created; null for one with a password. */
    via: text("via").$type<"oidc">(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    unique("users_username_unique").on(t.username),
    unique("users_api_key_hash_unique").on(t.apiKeyHash),
    unique("users_previous_api_key_hash_unique").on(t.previousApiKeyHash),
    check("users_role_known", sql`${t.role} in ('ADMIN', 'USER')`),
    check("users_via_known", sql`${t.via} = 'oidc'`),
    index("users_created_idx").on(t.createdAt, t.id),
    index("users_username_skeleton_idx").on(t.usernameSkeleton),
  ],
);

/** Sessions of people in the console; see operations/accounts/sessions.ts. */
export const sessions = pgTable(
  "sessions",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    /** SHA-256 of the cookie's token, which is random and stored nowhere. */
    tokenHash: text("token_hash").notNull(),
    via: text("via").$type<"password" | "oidc">().notNull(),
    createdAt: moment("created_at").notNull(),
    /** Accurate to about a minute. */
    lastUsedAt: moment("last_used_at").notNull(),
    /** Network address and User-Agent at sign-in; empty if unknown. */
    address: text("address").notNull(),
    agent: text("agent").notNull(),
    /** Issuer, subject and `sid` of the provider, for its back-channel logout. Null for a password. */
    issuer: text("issuer"),
    subject: text("subject"),
    providerSession: text("provider_session"),
  },
  (t) => [
    unique("sessions_token_hash_unique").on(t.tokenHash),
    foreignKey({ name: "sessions_user_fk", columns: [t.userId], foreignColumns: [users.id] }).onDelete("cascade"),
    index("sessions_user_idx").on(t.userId, t.id),
    index("sessions_created_idx").on(t.createdAt),
    index("sessions_subject_idx").on(t.issuer, t.subject),
    check("sessions_via_known", sql`${t.via} in ('password', 'oidc')`),
  ],
);

/** Accounts by their identity at a provider: issuer and subject, and nothing else. */
export const userIdentities = pgTable(
  "user_identities",
  {
    issuer: text("issuer").notNull(),
    subject: text("subject").notNull(),
    userId: text("user_id").notNull(),
    createdAt: moment("created_at").notNull(),
  },
  (t) => [
    primaryKey({ name: "user_identities_pk", columns: [t.issuer, t.subject] }),
    foreignKey({ name: "user_identities_user_fk", columns: [t.userId], foreignColumns: [users.id] }).onDelete(
      "cascade",
    ),
    index("user_identities_user_idx").on(t.userId),
  ],
);

/** Codes and logout tokens of a provider that were accepted, each of which counts once. */
export const usedProofs = pgTable(
  "used_proofs",
  {
    /** Kind and identifier, such as `logout <issuer> <jti>`, as SHA-256. */
    proofHash: text("proof_hash").primaryKey(),
    expiresAt: moment("expires_at").notNull(),
  },
  (t) => [index("used_proofs_expires_idx").on(t.expiresAt)],
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
    /** Changes that need a second person. Null: none. */
    approvals: json("approvals").$type<ApprovalSettings>(),
    /** Shares of a limit that raise an event, in percent, ascending. Null: the default ones. */
    usageThresholds: json("usage_thresholds").$type<number[]>(),
    /** Since when it is frozen for a move to another instance, whose address follows once it has moved. */
    frozenAt: moment("frozen_at"),
    movedTo: text("moved_to"),
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
