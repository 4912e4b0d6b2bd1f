import { and, asc, eq, inArray } from "drizzle-orm";
import { chooseHeir } from "../../core/access/membership.ts";
import type { Database } from "../postgres/connect.ts";
import { lockContracts } from "./contracts.ts";
import { contracts, members, organizationKeys, organizations, services, users } from "../schema.ts";

/** A new organization with its first key, of scope ALL. */
export interface NewOrganization {
  id: string;
  name: string;
  ownerId: string;
  isDefault: boolean;
  createdAt: Date;
  key: { id: string; hash: string; sealed: string };
}

/**
 * Inserts an organization with its key of scope ALL. Call it inside a transaction. Violates organizations_owner_fk for
 * an unknown owner, organizations_one_default_per_owner for a second default one.
 */
export async function insertOrganization(tx: Database, row: NewOrganization): Promise<void> {
  const { key, ...organization } = row;
  await tx.insert(organizations).values({ ...organization, updatedAt: row.createdAt });
  await tx.insert(organizationKeys).values({
    id: key.id,
    organizationId: row.id,
    scope: "ALL",
    keyHash: key.hash,
    keySealed: key.sealed,
    createdAt: row.createdAt,
  });
}

/**
 * Deletes organizations with everything in them. Call it inside a transaction. Locks the rows first, so that nothing is
 * added meanwhile. Deletes contracts before services, because their references restrict the deletion of services and
 * pricings.
 */
export async function deleteOrganizations(tx: Database, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(inArray(organizations.id, [...ids]))
    .orderBy(asc(organizations.id))
    .for("update");
  // Locks services before contracts, each by id, in the global lock order; waits for novations in progress.
  await tx
    .select({ id: services.id })
    .from(services)
    .where(inArray(services.organizationId, [...ids]))
    .orderBy(asc(services.id))
    .for("update");
  await lockContracts(tx, inArray(contracts.organizationId, [...ids]));
  await tx.delete(contracts).where(inArray(contracts.organizationId, [...ids]));
  await tx.delete(organizations).where(inArray(organizations.id, [...ids]));
}

/**
 * Removes every organization from an owner who is about to be deleted. Each passes to its heir among the members, who
 * stops being a member, or is deleted if it has no members. A default one stays default unless the heir already has
 * one. Call it in the transaction that locked and deletes the owner's row. Returns what happened to each.
 */
export async function passOnOrganizations(
  tx: Database,
  ownerId: string,
  now: Date,
): Promise<{ id: string; name: string; heirId: string | undefined }[]> {
  const owned = await tx
    .select({ id: organizations.id, name: organizations.name, isDefault: organizations.isDefault })
    .from(organizations)
    .where(eq(organizations.ownerId, ownerId))
    .orderBy(asc(organizations.id))
    .for("update");
  if (owned.length === 0) return [];
  const ids = owned.map((organization) => organization.id);
  const inOrderOfJoining = await tx
    .select({ organizationId: members.organizationId, userId: members.userId, role: members.role })
    .from(members)
    .where(inArray(members.organizationId, ids))
    .orderBy(asc(members.position));
  const ownerless: string[] = [];
  const passedOn: { id: string; name: string; heirId: string | undefined }[] = [];
  for (const { id, name, isDefault } of owned) {
    const heir = chooseHeir(
      inOrderOfJoining.filter((member) => member.organizationId === id && member.userId !== ownerId),
    );
    passedOn.push({ id, name, heirId: heir?.userId });
    if (heir === undefined) {
      ownerless.push(id);
      continue;
    }
    const staysDefault = isDefault && !(await ownsDefaultOrganization(tx, heir.userId));
    await tx
      .update(organizations)
      .set({ ownerId: heir.userId, isDefault: staysDefault, updatedAt: now })
      .where(eq(organizations.id, id));
    await tx.delete(members).where(and(eq(members.organizationId, id), eq(members.userId, heir.userId)));
  }
  await deleteOrganizations(tx, ownerless);
  return passedOn;
}

/** Locks the user too, which serializes with a concurrent creation of its default organization. */
async function ownsDefaultOrganization(tx: Database, userId: string): Promise<boolean> {
  await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for("update");
  const [existing] = await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(and(eq(organizations.ownerId, userId), organizations.isDefault));
  return existing !== undefined;
}
