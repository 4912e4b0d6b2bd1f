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
 * Inserts an organization and its key of scope ALL. Call it inside a transaction.
 * @throws a violation of organizations_owner_fk for an unknown owner, or of organizations_one_default_per_owner for a
 * second default organization.
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
 * Deletes organizations with all their data. Call it inside a transaction.
 * Locks their rows first, so that no transaction can add to them. Deletes contracts before services, because foreign keys of
 * contracts restrict the deletion of services and pricings.
 */
export async function deleteOrganizations(tx: Database, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(inArray(organizations.id, [...ids]))
    .orderBy(asc(organizations.id))
    .for("update");
  // Lock order everywhere: services, then contracts, each by id. Blocks until novations and archivings in flight end.
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
 * Transfers the organizations of an owner who is about to be deleted. Each goes to an heir among its members, whose
 * membership ends. Deletes organizations without members. A default organization stays default unless the heir has one.
 * Call it inside the transaction that has locked the owner's row and will delete it.
 * @returns each organization with its heir; undefined if it was deleted.
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

/** Locks the user's row first: a concurrent creation of a default organization is then either visible or blocked. */
async function ownsDefaultOrganization(tx: Database, userId: string): Promise<boolean> {
  await tx.select({ id: users.id }).from(users).where(eq(users.id, userId)).for("update");
  const [existing] = await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(and(eq(organizations.ownerId, userId), organizations.isDefault));
  return existing !== undefined;
}
