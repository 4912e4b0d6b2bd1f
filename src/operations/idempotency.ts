import { and, eq, sql } from "drizzle-orm";
import { idempotencyKeys } from "../db/schema.ts";
import { type Context, transaction } from "./context.ts";
import { type Keyring, readApiKey, sealSecret } from "./credentials.ts";
import { Failure } from "./errors.ts";

/** Retention of a stored answer. */
const KEPT_MS = 24 * 3_600_000;
/** Each new key deletes this many expired ones, so the table stays small without a cleanup job. */
const PRUNED_AT_ONCE = 5;

/** Status and body, exactly as sent to the client. */
export interface StoredAnswer {
  status: 200 | 201 | 204;
  /** Null for an answer without body. */
  body: string | null;
}

/**
 * Runs `work` once per idempotency key within 24 hours. The answer is stored in the transaction of `work`. Concurrent
 * calls with the key block until that commits, then return the same answer. A failure stores nothing, because nothing
 * was changed: the next call with the key runs `work` again. Keys are scoped to the organization. Locks the key's row
 * before any contract, so a blocked call holds no other lock.
 * A stored answer with a secret is encrypted.
 * @throws Failure unprocessable when the key was used with a different request.
 */
export async function doOnce(
  ctx: Context,
  request: { key: string; fingerprint: string; organizationId: string | undefined; isSecret: boolean },
  work: (ctx: Context) => Promise<StoredAnswer>,
): Promise<StoredAnswer & { replayed: boolean }> {
  const { key, fingerprint } = request;
  const { keyring } = ctx.resources;
  const scope = scopeOf(ctx, request.organizationId);
  const organizationId = request.organizationId ?? "";
  return transaction(ctx, async (ctx) => {
    const ofKey = and(
      eq(idempotencyKeys.scope, scope),
      eq(idempotencyKeys.key, key),
      eq(idempotencyKeys.organizationId, organizationId),
    );
    if (await claim(ctx, { scope, key, fingerprint, organizationId })) {
      const answer = await work(ctx);
      const body = request.isSecret && answer.body !== null ? await sealSecret(keyring, answer.body) : answer.body;
      await ctx.db.update(idempotencyKeys).set({ status: answer.status, body }).where(ofKey);
      return { ...answer, replayed: false };
    }
    const [held] = await ctx.db.select().from(idempotencyKeys).where(ofKey);
    if (held === undefined || held.status === null) {
      throw new Failure(
        "unavailable",
        "The first request with this Idempotency-Key is still in progress. Please try again",
        {
          retryAfterSeconds: 1,
        },
      );
    }
    if (held.fingerprint !== fingerprint) {
      throw new Failure("unprocessable", "This Idempotency-Key was already used for a different request");
    }
    const body = request.isSecret && held.body !== null ? await openAnswer(keyring, held.body) : held.body;
    return { status: held.status, body, replayed: true };
  });
}

/** @throws Failure conflict after the server's secret was replaced. */
async function openAnswer(keyring: Keyring, sealed: string): Promise<string> {
  const body = await readApiKey(keyring, sealed);
  if (body !== undefined) return body;
  throw new Failure("conflict", "CONFLICT: The first answer to this Idempotency-Key can no longer be read");
}

function scopeOf(ctx: Context, organizationId: string | undefined): string {
  return organizationId ?? (ctx.caller.kind === "user" ? `user:${ctx.caller.id}` : "");
}

/** True for the one caller that runs `work`. Concurrent callers block here until it commits or rolls back. */
async function claim(
  ctx: Context,
  { scope, key, fingerprint, organizationId }: Record<"scope" | "key" | "fingerprint" | "organizationId", string>,
): Promise<boolean> {
  const now = ctx.resources.now().toISOString();
  const over = new Date(ctx.resources.now().getTime() - KEPT_MS).toISOString();
  const claimed = await ctx.db.execute(sql`
    with pruned as (
      delete from idempotency_keys
      where (scope, key) in (
        select scope, key from idempotency_keys
        where created_at <= ${over}::timestamptz and (scope, key) <> (${scope}, ${key})
        order by created_at limit ${PRUNED_AT_ONCE} for update skip locked
      )
    )
    insert into idempotency_keys (scope, key, organization_id, fingerprint, created_at)
    values (${scope}, ${key}, ${organizationId}, ${fingerprint}, ${now}::timestamptz)
    on conflict (scope, key, organization_id) do update set
      fingerprint = excluded.fingerprint, created_at = excluded.created_at, status = null, body = null
    where idempotency_keys.created_at <= ${over}::timestamptz
    returning key
  `);
  return claimed.length > 0;
}
