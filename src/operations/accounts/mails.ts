import { mails } from "../../db/schema.ts";
import { type Context, newId } from "../context.ts";

/** Language of a mail: one of the console's. */
export type Language = "en" | "de";

/** Queues a mail about an invitation or an account. Does nothing where no mails are sent. */
export async function queueMail(
  ctx: Context,
  mail: { kind: "invitation"; invitationId: string; organizationId: string; language: Language },
): Promise<void> {
  if (ctx.resources.settings.sendsMail !== true) return;
  const now = ctx.resources.now();
  await ctx.db.insert(mails).values({ id: newId(now), ...mail, nextAttemptAt: now, createdAt: now });
}
