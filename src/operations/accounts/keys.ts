import { and, asc, eq, inArray, or } from "drizzle-orm";
import type { KeyScope } from "../../core/access/caller.ts";
import * as membership from "../../core/access/membership.ts";
import { organizationKeys } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { newId, transaction, type Context } from "../context.ts";
import { hashApiKey, issueApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { actorIn, type DetailedOrganizationView, lockOrganization, refuse, viewOne } from "./organization-view.ts";

/*
 * Organization keys. To rotate one, add a second key and keep both valid while clients switch. Then expire or delete
 * the first one.
 */

const SCOPES: readonly KeyScope[] = ["ALL", "MANAGEMENT", "EVALUATION"];

/** A key without its value. */
export interface KeyView {
  id: string;
  scope: KeyScope;
  /** Display name; null for an unnamed key. */
  name: string | null;
  createdAt: Date;
  /** When the key expires; null for never. */
  expiresAt: Date | null;
  /** Last recorded use; recording lags by about a minute. Null if never used. */
  lastUsedAt: Date | null;
}

const KEY_VIEW = {
  id: organizationKeys.id,
  scope: organizationKeys.scope,
  name: organizationKeys.name,
  createdAt: organizationKeys.createdAt,
  expiresAt: organizationKeys.expiresAt,
  lastUsedAt: organizationKeys.lastUsedAt,
};

/**
 * Lists an organization's keys, oldest first. Requires permission to manage keys.
 * @throws Failure notFound, forbidden.
 */
export async function listOrganizationKeys(ctx: Context, organizationId: string): Promise<KeyView[]> {
  refuse(membership.denyKeys(await actorIn(ctx, organizationId)));
  return ctx.db
    .select(KEY_VIEW)
    .from(organizationKeys)
    .where(eq(organizationKeys.organizationId, organizationId))
    .orderBy(asc(organizationKeys.position));
}

/** Changes to a key; undefined fields stay unchanged. */
export interface KeyChanges {
  name?: string | null | undefined;
  /** Null removes the expiry. */
  expiresAt?: Date | null | undefined;
}

/**
 * Renames a key, or sets its expiry.
 * @throws Failure notFound; forbidden as for deleting it; invalid for a past expiry.
 */
export async function changeOrganizationKey(
  ctx: Context,
  input: { organizationId: string; keyId: string; changes: KeyChanges },
): Promise<KeyView> {
  const { organizationId, keyId, changes } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    refuse(membership.denyKeys(actor));
    const ofKey = and(eq(organizationKeys.organizationId, organizationId), eq(organizationKeys.id, keyId));
    const [held] = await ctx.db.select(KEY_VIEW).from(organizationKeys).where(ofKey);
    if (held === undefined) throw new Failure("notFound", `API Key not found in organization ${organizationId}.`);
    refuse(membership.denyRemoveKey(actor, held.scope));
    const { name = held.name, expiresAt = held.expiresAt } = changes;
    if (changes.expiresAt !== undefined) requireFuture(ctx, expiresAt);
    await ctx.db.update(organizationKeys).set({ name, expiresAt }).where(ofKey);
    await audit(ctx, {
      action: "key.change",
      organizationId,
      target: keyId,
      before: { scope: held.scope, name: held.name, expiresAt: held.expiresAt },
      after: { scope: held.scope, name, expiresAt },
    });
    return { ...held, name, expiresAt };
  });
}

function requireFuture(ctx: Context, expiresAt: Date | null): void {
  if (expiresAt === null || expiresAt.getTime() > ctx.resources.now().getTime()) return;
  throw new Failure("invalid", "INVALID DATA: expiresAt must be in the future: delete the key to end it at once");
}

/**
 * Adds a key of this scope, the last one in the answer. `details` is called only once the caller is authorized, because
 * it may throw its own Failure. Failures in the order of users-organizations §6.1.
 */
export async function addOrganizationKey(
  ctx: Context,
  input: { organizationId: string; scope: unknown; details: () => Pick<KeyView, "name" | "expiresAt"> },
): Promise<DetailedOrganizationView> {
  const { organizationId } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    refuse(membership.denyKeys(actor));
    const scope = keyScope(input.scope);
    refuse(membership.denyAddKey(actor, scope));
    const { name, expiresAt } = input.details();
    requireFuture(ctx, expiresAt);
    const now = ctx.resources.now();
    const { hash, sealed } = await issueApiKey(ctx.resources.keyring, "org");
    const id = newId(now);
    await ctx.db.insert(organizationKeys).values({
      id,
      organizationId,
      scope,
      name,
      keyHash: hash,
      keySealed: sealed,
      expiresAt,
      createdAt: now,
    });
    await audit(ctx, { action: "key.create", organizationId, target: id, after: { scope, name, expiresAt } });
    return viewOne(ctx, organizationId, actor);
  });
}

/** Deletes a key, given by id or value. Failures in the order of users-organizations §6.2. */
export async function removeOrganizationKey(
  ctx: Context,
  input: { organizationId: string; idOrKey: string },
): Promise<DetailedOrganizationView> {
  const { organizationId, idOrKey } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    refuse(membership.denyKeys(actor));
    const { keyring } = ctx.resources;
    const hashes = await Promise.all([keyring, keyring.previous ?? keyring].map((one) => hashApiKey(one, idOrKey)));
    const [key] = await ctx.db
      .select({ id: organizationKeys.id, scope: organizationKeys.scope })
      .from(organizationKeys)
      .where(
        and(
          eq(organizationKeys.organizationId, organizationId),
          or(eq(organizationKeys.id, idOrKey), inArray(organizationKeys.keyHash, hashes)),
        ),
      );
    if (key === undefined) throw new Failure("invalid", `API Key not found in organization ${organizationId}.`);
    refuse(membership.denyRemoveKey(actor, key.scope));
    await ctx.db.delete(organizationKeys).where(eq(organizationKeys.id, key.id));
    await audit(ctx, { action: "key.delete", organizationId, target: key.id, before: { scope: key.scope } });
    return viewOne(ctx, organizationId, actor);
  });
}

function keyScope(value: unknown): KeyScope {
  if (value === undefined || value === null || value === "") {
    throw new Failure("invalid", "scope field is required");
  }
  const scope = SCOPES.find((known) => known === value);
  if (scope === undefined) {
    throw new Failure("invalid", "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION.");
  }
  return scope;
}
