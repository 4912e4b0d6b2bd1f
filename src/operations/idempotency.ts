import { and, eq, sql } from "drizzle-orm";
import { idempotencyKeys } from "../db/schema.ts";
import { type Context, transaction } from "./context.ts";
import { Failure } from "./errors.ts";

/** How long an answer is given again. */
const KEPT_MS = 24 * 3_600_000;
/** Each new key takes away so many whose time is over, so that the table does not grow and nobody has to sweep it. */
const PRUNED_AT_ONCE = 5;

/** An answer as it goes over the wire. */
export interface StoredAnswer {
  status: 200 | 204;
  /** Null for an answer without body. */
  body: string | null;
}

/**
 * Does `work` once for this key within 24 hours, whoever sends it again and however many at once: its answer is stored in
 * the transaction that moves what it moves, and every other call waits for it and gets the same. A failure stores nothing,
 * because it moved nothing: the next call with the key works again. Keys are the organization's own.
 * Failure unprocessable when the key came with another request before.
 * Locks the key's row before any contract; a caller who waits for it holds nothing.
 */
export async function doOnce(
  ctx: Context,
  request: { key: string; fingerprint: string; organizationId: string | undefined },
  work: (ctx: Context) => Promise<StoredAnswer>,
): Promise<StoredAnswer & { replayed: boolean }> {
  const { key, fingerprint } = request;
  const scope = scopeOf(ctx, request.organizationId);
  return transaction(ctx, async (ctx) => {
    const ofKey = and(eq(idempotencyKeys.scope, scope), eq(idempotencyKeys.key, key));
    if (await claim(ctx, scope, key, fingerprint)) {
      const answer = await work(ctx);
      await ctx.db.update(idempotencyKeys).set(answer).where(ofKey);
      return { ...answer, replayed: false };
    }
    const [held] = await ctx.db.select().from(idempotencyKeys).where(ofKey);
    if (held === undefined || held.status === null) {
      throw new Failure(
        "unavailable",
        "The first call with this Idempotency-Key is not answered yet. Please try again",
        {
          retryAfterSeconds: 1,
        },
      );
    }
    if (held.fingerprint !== fingerprint) {
      throw new Failure(
        "unprocessable",
        "The Idempotency-Key was used for another request before: send a new key with a new request",
      );
    }
    return { status: held.status, body: held.body, replayed: true };
  });
}

function scopeOf(ctx: Context, organizationId: string | undefined): string {
  return organizationId ?? (ctx.caller.kind === "user" ? `user:${ctx.caller.id}` : "");
}

/** True for the one caller who is to do the work; the others come here when it is done. */
async function claim(ctx: Context, scope: string, key: string, fingerprint: string): Promise<boolean> {
  const now = ctx.now().toISOString();
  const over = new Date(ctx.now().getTime() - KEPT_MS).toISOString();
  const claimed = await ctx.db.execute(sql`
    with pruned as (
      delete from idempotency_keys
      where (scope, key) in (
        select scope, key from idempotency_keys
        where created_at <= ${over}::timestamptz and (scope, key) <> (${scope}, ${key})
        order by created_at limit ${PRUNED_AT_ONCE} for update skip locked
      )
    )
    insert into idempotency_keys (scope, key, fingerprint, created_at)
    values (${scope}, ${key}, ${fingerprint}, ${now}::timestamptz)
    on conflict (scope, key) do update set
      fingerprint = excluded.fingerprint, created_at = excluded.created_at, status = null, body = null
    where idempotency_keys.created_at <= ${over}::timestamptz
    returning key
  `);
  return claimed.length > 0;
}
