import { and, asc, eq, gt, isNotNull } from "drizzle-orm";
import { billingConnections, organizationKeys, tokenKeys, users, webhookEndpoints } from "../../db/schema.ts";
import type { Resources } from "../context.ts";
import { openApiKey, protectApiKey, sealSecret } from "../credentials.ts";

const BATCH = 200;

/** Keys and secrets re-encrypted under the current secret, and those that neither secret could decrypt. */
export interface Reencrypted {
  reencrypted: number;
  unreadable: number;
}

/**
 * Re-encrypts every stored key, secret of a webhook or payment provider, and token key under the current API_KEYS_SECRET. Run it beside a live system whose
 * API_KEYS_SECRET_PREVIOUS is the old secret. It is idempotent, and skips keys that are replaced meanwhile. A user's
 * previous key exists only as a hash, so it ends with the old secret.
 */
export async function reencryptKeys(resources: Resources): Promise<Reencrypted> {
  const { db, keyring } = resources;
  const result: Reencrypted = { reencrypted: 0, unreadable: 0 };
  const each = async <Row extends { id: string; sealed: string | null }>(
    read: (after: string) => Promise<Row[]>,
    write: (row: Row & { sealed: string }, clear: string) => Promise<readonly unknown[]>,
  ) => {
    for (let after = "", more = true; more;) {
      const rows = await read(after);
      for (const row of rows) {
        const { sealed } = row;
        if (sealed === null) continue;
        const clear = await openApiKey(keyring, sealed).catch(() => undefined);
        if (clear === undefined) result.unreadable += 1;
        else {
          // No row if the key was replaced meanwhile: the new one is encrypted under the current secret already.
          result.reencrypted += (await write({ ...row, sealed }, clear)).length;
        }
      }
      after = rows.at(-1)?.id ?? after;
      more = rows.length === BATCH;
    }
  };
  await each(
    (after) =>
      db
        .select({ id: users.id, sealed: users.apiKeySealed })
        .from(users)
        .where(and(gt(users.id, after), isNotNull(users.apiKeySealed)))
        .orderBy(asc(users.id))
        .limit(BATCH),
    async ({ id, sealed }, clear) => {
      const { hash, sealed: renewed } = await protectApiKey(keyring, clear);
      return db
        .update(users)
        .set({ apiKeyHash: hash, apiKeySealed: renewed })
        .where(and(eq(users.id, id), eq(users.apiKeySealed, sealed)))
        .returning({ id: users.id });
    },
  );
  await each(
    (after) =>
      db
        .select({ id: organizationKeys.id, sealed: organizationKeys.keySealed })
        .from(organizationKeys)
        .where(gt(organizationKeys.id, after))
        .orderBy(asc(organizationKeys.id))
        .limit(BATCH),
    async ({ id, sealed }, clear) => {
      const { hash, sealed: renewed } = await protectApiKey(keyring, clear);
      return db
        .update(organizationKeys)
        .set({ keyHash: hash, keySealed: renewed })
        .where(and(eq(organizationKeys.id, id), eq(organizationKeys.keySealed, sealed)))
        .returning({ id: organizationKeys.id });
    },
  );
  await each(
    (after) =>
      db
        .select({ id: webhookEndpoints.id, sealed: webhookEndpoints.secretSealed })
        .from(webhookEndpoints)
        .where(gt(webhookEndpoints.id, after))
        .orderBy(asc(webhookEndpoints.id))
        .limit(BATCH),
    async ({ id, sealed }, clear) =>
      db
        .update(webhookEndpoints)
        .set({ secretSealed: await sealSecret(keyring, clear) })
        .where(and(eq(webhookEndpoints.id, id), eq(webhookEndpoints.secretSealed, sealed)))
        .returning({ id: webhookEndpoints.id }),
  );
  await each(
    (after) =>
      db
        .select({ id: billingConnections.id, sealed: billingConnections.secretSealed })
        .from(billingConnections)
        .where(gt(billingConnections.id, after))
        .orderBy(asc(billingConnections.id))
        .limit(BATCH),
    async ({ id, sealed }, clear) =>
      db
        .update(billingConnections)
        .set({ secretSealed: await sealSecret(keyring, clear) })
        .where(and(eq(billingConnections.id, id), eq(billingConnections.secretSealed, sealed)))
        .returning({ id: billingConnections.id }),
  );
  await each(
    (after) =>
      db
        .select({ id: tokenKeys.kid, sealed: tokenKeys.privateSealed })
        .from(tokenKeys)
        .where(gt(tokenKeys.kid, after))
        .orderBy(asc(tokenKeys.kid))
        .limit(BATCH),
    async ({ id, sealed }, clear) =>
      db
        .update(tokenKeys)
        .set({ privateSealed: await sealSecret(keyring, clear) })
        .where(and(eq(tokenKeys.kid, id), eq(tokenKeys.privateSealed, sealed)))
        .returning({ id: tokenKeys.kid }),
  );
  return result;
}
