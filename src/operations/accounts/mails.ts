import { sql } from "drizzle-orm";
import { mails } from "../../db/schema.ts";
import { type Context, newId } from "../context.ts";

/** Language of a mail: one of the console's. */
export type Language = "en" | "de";

/** Mails for a new password per user and hour. */
const MAX_RECOVERIES = 5;
const HOUR_MS = 3_600_000;

/** Queues the mail of an invitation. Does nothing where no mails are sent. */
export async function queueInvitationMail(
  ctx: Context,
  mail: { invitationId: string; organizationId: string; language: Language },
): Promise<void> {
  if (ctx.resources.settings.sendsMail !== true) return;
  const now = ctx.resources.now();
  const id = newId(now);
  await ctx.db.insert(mails).values({ id, kind: "invitation", ...mail, nextAttemptAt: now, createdAt: now });
}

/**
 * Queues a mail for a new password. One statement writes one row in every case: `void` for a user that is unknown, has no
 * address, or has got enough mails. Does nothing where no mails are sent.
 */
export async function queueRecoveryMail(
  ctx: Context,
  { username, language }: { username: string; language: Language },
): Promise<void> {
  if (ctx.resources.settings.sendsMail !== true) return;
  const now = ctx.resources.now();
  const at = now.toISOString();
  const since = new Date(now.getTime() - HOUR_MS).toISOString();
  await ctx.db.execute(sql`
    insert into mails (id, kind, user_id, organization_id, language, status, next_attempt_at, created_at)
    select ${newId(now)}, 'recovery', u.id, '', ${language}, case when u.email is not null and (
        select count(*) from mails m where m.user_id = u.id and m.kind = 'recovery' and m.created_at > ${since}::timestamptz
      ) < ${MAX_RECOVERIES}::integer then 'pending' else 'void' end, ${at}::timestamptz, ${at}::timestamptz
    from (select) asked left join users u on u.username = ${username}`);
}
