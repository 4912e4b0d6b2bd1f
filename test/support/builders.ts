import type { PlatformRole } from "../../src/core/access/caller.ts";
import { insertOrganization } from "../../src/db/queries/organization-rows.ts";
import { contracts, contractServices, pricings, services, users } from "../../src/db/schema.ts";
import { newId, type Resources } from "../../src/operations/context.ts";
import { issueApiKey } from "../../src/operations/credentials.ts";
import type { TestUser } from "./api.ts";

/**
 * Inserts many users with a default organization each, without passwords. Signing up would cost 200 ms of hashing per
 * user.
 */
export async function insertUsers(
  resources: Resources,
  usernames: readonly string[],
  role: PlatformRole = "USER",
): Promise<TestUser[]> {
  const inserted: TestUser[] = [];
  for (const username of usernames) {
    const now = resources.now();
    const id = newId(now);
    const [user, organization] = await Promise.all([
      issueApiKey(resources.keyring, "usr"),
      issueApiKey(resources.keyring, "org"),
    ]);
    await resources.db.transaction(async (tx) => {
      await tx.insert(users).values({
        id,
        username,
        role,
        passwordHash: "none",
        apiKeyHash: user.hash,
        apiKeySealed: user.sealed,
        createdAt: now,
        updatedAt: now,
      });
      await insertOrganization(tx, {
        id: newId(now),
        name: `${username}'s Organization`,
        ownerId: id,
        isDefault: true,
        createdAt: now,
        key: { id: newId(now), hash: organization.hash, sealed: organization.sealed },
      });
    });
    inserted.push({ id, username, key: user.apiKey });
  }
  return inserted;
}

/** Inserts a service with a pricing and a contract, none of which may block deleting the organization. */
export async function fillOrganization({ db, now }: Resources, organizationId: string): Promise<void> {
  const [serviceId, pricingId, contractId] = [newId(now()), newId(now()), newId(now())];
  await db.insert(services).values({ id: serviceId, organizationId, name: "Zoom", nameKey: "zoom" });
  const model: (typeof pricings.$inferInsert)["model"] = JSON.parse("{}");
  await db.insert(pricings).values({
    id: pricingId,
    serviceId,
    organizationId,
    version: "1.0",
    versionKey: "1.0",
    availability: "active",
    source: "",
    model,
    modelHash: "",
    declaredAt: now(),
  });
  await db.insert(contracts).values({
    id: contractId,
    organizationId,
    userId: "end-user",
    username: "end",
    startDate: now(),
    endDate: now(),
  });
  await db.insert(contractServices).values({ contractId, organizationId, serviceId, pricingId, position: 0 });
}
