import { sql } from "drizzle-orm";
import { type Author, authorOf } from "../core/access/caller.ts";
import type { Context } from "./context.ts";

/** All values of an entry's `action`: resource and verb. */
export const AUDIT_ACTIONS = [
  "user.create",
  "user.update",
  "user.key",
  "user.recovery",
  "user.delete",
  "user.link",
  "session.end",
  "organization.create",
  "organization.update",
  "organization.delete",
  "gate.set",
  "approvals.set",
  "change-request.create",
  "change-request.approve",
  "change-request.reject",
  "change-request.withdraw",
  "alerts.set",
  "offer.publish",
  "member.add",
  "member.change",
  "member.remove",
  "invitation.create",
  "invitation.revoke",
  "key.create",
  "key.change",
  "key.delete",
  "service.create",
  "service.update",
  "service.disable",
  "service.delete",
  "pricing.create",
  "pricing.expectations",
  "pricing.archive",
  "pricing.activate",
  "pricing.novate",
  "pricing.delete",
  "contract.create",
  "contract.novate",
  "contract.contact",
  "contract.billing",
  "contract.usage",
  "contract.members",
  "contract.delete",
  "override.set",
  "override.remove",
  "block.grant",
  "block.revoke",
  "budget.set",
  "budget.delete",
  "schedule.create",
  "schedule.rewrite",
  "schedule.cancel",
  "schedule.block",
  "trial.end",
  "billing.connect",
  "billing.update",
  "billing.disconnect",
  "billing.detach",
  "webhook.create",
  "webhook.update",
  "webhook.secret",
  "webhook.resend",
  "webhook.delete",
  "cache.set",
  "event.test",
  "import.space",
  "token-key.create",
  "token-key.rotate",
  "token-key.revoke",
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** One change to audit. `before` and `after` must never contain a secret, its hash, or an address that includes one. */
export interface Change {
  action: AuditAction;
  /** Null for resources of the whole instance. */
  organizationId: string | null;
  /** The public name of the resource. Long names are truncated, see auditTarget. */
  target: string;
  before?: object | undefined;
  after?: object | undefined;
  /** Author, if not the caller. A scheduled change has the actor that scheduled it. */
  author?: Author | undefined;
  /** Request that made the change, if not the caller's. */
  requestId?: string | undefined;
}

/** Truncates a name to its first 512 characters. Older organization names are longer than an index entry may be. */
export const auditTarget = (name: string): string =>
  name.length <= 512 ? name : Array.from(name.slice(0, 1024)).slice(0, 512).join("");

/** Audits one change; see auditAll. */
export function audit(ctx: Context, change: Change): Promise<void> {
  return auditAll(ctx, [change]);
}

/**
 * Inserts audit entries in the caller's transaction, so that entries and changes commit together. Uses one statement
 * for any number of entries. Call it before recordEvent, which must be the last statement of a transaction.
 */
export async function auditAll(ctx: Context, changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return;
  const caller = ctx.author ?? authorOf(ctx.caller);
  const rows = storableJson(
    changes.map(({ action, organizationId, target, before, after, author = caller, requestId = ctx.requestId }) => ({
      actor_kind: author.actorKind,
      actor_id: author.actorId,
      action,
      organization_id: organizationId ?? "",
      target: auditTarget(target),
      before: before ?? null,
      after: after ?? null,
      request_id: requestId ?? null,
    })),
  );
  await ctx.db.execute(sql`
    insert into audit_log
      (at, organization_id, actor_kind, actor_id, action, target, before, after, request_id)
    select ${ctx.resources.now().toISOString()}::timestamptz, organization_id, actor_kind, actor_id, action, target,
      nullif(before::text, 'null')::json, nullif(after::text, 'null')::json, request_id
    from json_to_recordset(${rows}::json)
      as given (actor_kind text, actor_id text, action text, organization_id text, target text, before json, after json,
        request_id text)
  `);
}

/** Replaces lone surrogates with U+FFFD, as text columns do. JSON can encode them, but Postgres rejects them. */
function storableJson(value: unknown): string {
  return JSON.stringify(value).replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "$1\\ufffd");
}
