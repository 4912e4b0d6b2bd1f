import { and, eq, gt, lte, sql } from "drizzle-orm";
import { equalJson } from "../../core/change/change.ts";
import { cacheEntries } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { Failure, jsonText } from "../errors.ts";

export interface CacheEntry {
  key: string;
  /** Any JSON value. */
  value: unknown;
  expirationInSeconds: number;
}

/** Cast to text and parsed here. If both the driver and Drizzle parsed it, a numeric string would become a number. */
const VALUE_TEXT = sql<string>`${cacheEntries.value}::text`;

/**
 * Returns the unexpired value under a case-insensitive key, else null. The server itself never uses these entries.
 * Source: contract features-events §11.
 */
export async function readCache(ctx: Context, key: string): Promise<unknown> {
  const [entry] = await ctx.db
    .select({ text: VALUE_TEXT })
    .from(cacheEntries)
    .where(and(eq(cacheEntries.key, key.toLowerCase()), gt(cacheEntries.expiresAt, ctx.resources.now())));
  return entry === undefined ? null : JSON.parse(entry.text);
}

/**
 * Stores a value, or extends the lifetime of an equal one. Concurrent calls are serialized per key. Source: contract
 * features-events §11.
 * @throws Failure conflict when the key holds a different, unexpired value.
 */
export async function writeCache(ctx: Context, entry: CacheEntry): Promise<void> {
  const key = entry.key.toLowerCase();
  const now = ctx.resources.now();
  const expiresAt = new Date(now.getTime() + entry.expirationInSeconds * 1000);
  // JSON text, because a JSON null is a valid value and an SQL null is not.
  const value = sql`${jsonText(entry.value)}::json`;
  await transaction(ctx, async (ctx) => {
    // The no-op upsert locks an existing row. Values are compared in JavaScript, because jsonb cannot hold all of them.
    const [held] = await ctx.db
      .insert(cacheEntries)
      .values({ key, value, expiresAt })
      .onConflictDoUpdate({ target: cacheEntries.key, set: { key } })
      .returning({ text: VALUE_TEXT, expiresAt: cacheEntries.expiresAt });
    if (held !== undefined && held.expiresAt > now && !equalJson(JSON.parse(held.text), entry.value)) {
      throw new Failure("conflict", "Value already exists in cache, please use a different key.");
    }
    await ctx.db.update(cacheEntries).set({ value, expiresAt }).where(eq(cacheEntries.key, key));
    await audit(ctx, { action: "cache.set", organizationId: null, target: key, after: { expiresAt } });
  });
  await ctx.db.delete(cacheEntries).where(lte(cacheEntries.expiresAt, now));
}
