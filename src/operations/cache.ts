import { and, eq, gt, lte, sql } from "drizzle-orm";
import { equalJson } from "../core/change/change.ts";
import { cacheEntries } from "../db/schema.ts";
import { audit } from "./audit.ts";
import { type Context, transaction } from "./context.ts";
import { Failure, jsonText } from "./errors.ts";

/** An entry of the cache endpoints. */
export interface CacheEntry {
  key: string;
  /** Any JSON value. */
  value: unknown;
  expirationInSeconds: number;
}

/** Read here: the driver and Drizzle would both read it, and make a number of a text that looks like one. */
const VALUE_TEXT = sql<string>`${cacheEntries.value}::text`;

/**
 * The value kept under this key, letters of any case; null when there is none or its time is over. Nothing in the server
 * reads or writes these entries. Source: contract features-events §11.
 */
export async function readCache(ctx: Context, key: string): Promise<unknown> {
  const [entry] = await ctx.db
    .select({ text: VALUE_TEXT })
    .from(cacheEntries)
    .where(and(eq(cacheEntries.key, key.toLowerCase()), gt(cacheEntries.expiresAt, ctx.now())));
  return entry === undefined ? null : JSON.parse(entry.text);
}

/**
 * Keeps a value, or prolongs the life of the same one. Failure conflict when the key holds another value that still lives;
 * of several callers at once, one decides the value. Source: contract features-events §11.
 */
export async function writeCache(ctx: Context, entry: CacheEntry): Promise<void> {
  const key = entry.key.toLowerCase();
  const now = ctx.now();
  const expiresAt = new Date(now.getTime() + entry.expirationInSeconds * 1000);
  // As text, because null is a value here and the column's own null is not.
  const value = sql`${jsonText(entry.value)}::json`;
  await transaction(ctx, async (ctx) => {
    // An entry that there is stays as it is, and is ours until the end. Values are compared here: jsonb does not take all of them.
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
