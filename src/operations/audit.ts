import { sql } from "drizzle-orm";
import type { Context } from "./context.ts";

/** What can be done to what: the `action` of an entry. */
export const AUDIT_ACTIONS = [
  "user.create",
  "user.update",
  "user.key",
  "user.delete",
  "organization.create",
  "organization.update",
  "organization.delete",
  "gate.set",
  "member.add",
  "member.change",
  "member.remove",
  "key.create",
  "key.change",
  "key.delete",
  "service.create",
  "service.update",
  "service.disable",
  "service.delete",
  "pricing.create",
  "pricing.archive",
  "pricing.activate",
  "pricing.novate",
  "pricing.delete",
  "contract.create",
  "contract.novate",
  "contract.contact",
  "contract.billing",
  "contract.usage",
  "contract.delete",
  "webhook.create",
  "webhook.update",
  "webhook.secret",
  "webhook.resend",
  "webhook.delete",
  "cache.set",
  "event.test",
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** One change. `before` and `after` say what changed and never hold a secret, a hash of one, or an address with one in it. */
export interface Change {
  action: AuditAction;
  /** Null for what belongs to the whole instance. */
  organizationId: string | null;
  /** The name that the interface knows it by; what is long is cut, see auditTarget. */
  target: string;
  before?: object | undefined;
  after?: object | undefined;
}

/** A name as the log has it: its first 512 characters. Names of organizations have no bound, and entries of an index do. */
export const auditTarget = (name: string): string =>
  name.length <= 512 ? name : Array.from(name.slice(0, 1024)).slice(0, 512).join("");

/** Writes down one change; see auditAll. */
export function audit(ctx: Context, change: Change): Promise<void> {
  return auditAll(ctx, [change]);
}

/**
 * Writes down who changed what, in the caller's transaction: the entries exist if and only if the changes do. One statement
 * however many they are. Call it before recordEvent, which is the last statement of a transaction.
 */
export async function auditAll(ctx: Context, changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return;
  const { caller } = ctx;
  const actorId = caller.kind === "user" ? caller.id : caller.kind === "key" ? caller.keyId : null;
  const rows = storableJson(
    changes.map(({ action, organizationId, target, before, after }) => ({
      action,
      organization_id: organizationId,
      target: auditTarget(target),
      before: before ?? null,
      after: after ?? null,
    })),
  );
  await ctx.db.execute(sql`
    insert into audit_log
      (at, organization_id, actor_kind, actor_id, action, target, before, after, request_id)
    select ${ctx.now().toISOString()}::timestamptz, organization_id, ${caller.kind}, ${actorId}, action, target,
      nullif(before::text, 'null')::json, nullif(after::text, 'null')::json, ${ctx.requestId ?? null}
    from json_to_recordset(${rows}::json)
      as given (action text, organization_id text, target text, before json, after json)
  `);
}

/** Half a character, which JSON can write and the database cannot read, becomes the one for "unknown", as in its columns. */
function storableJson(value: unknown): string {
  return JSON.stringify(value).replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "$1\\ufffd");
}
