import { eq } from "drizzle-orm";
import { excerpt } from "../../core/pricing/excerpt.ts";
import { invitations, recoveries, users } from "../../db/schema.ts";
import type { Context } from "../context.ts";
import type { Keyring } from "../credentials.ts";
import { findValidInvitation } from "./invitations.ts";
import { hashLinkToken, type LinkKind, linkToken } from "./link-tokens.ts";
import type { Language } from "./mails.ts";
import { insertRecovery } from "./recovery.ts";

/** A queued mail, as its sender has claimed it. */
interface Queued {
  id: string;
  kind: LinkKind;
  invitationId: string | null;
  userId: string | null;
  language: Language;
  createdAt: Date;
}

interface Letter {
  id: string;
  to: string;
  subject: string;
  text: string;
}

/** Names come from strangers: they get no room for a message of their own. */
const MAX_NAME = 60;
const quoted = (name: string) => excerpt(name.replaceAll(/[\s\p{C}]+/gu, " ").trim(), MAX_NAME);

const TEXTS = {
  en: {
    invitation: (organization: string, inviter: string, url: string, until: string) => ({
      subject: `Invitation to ${organization}`,
      text: `${inviter} invites you to the organization "${organization}" on Faregate.\n\nAccept the invitation:\n${url}\n\nThe link works once, until ${until}. If you do not know ${inviter}, ignore this mail.\n`,
    }),
    recovery: (username: string, url: string, until: string) => ({
      subject: "Set a new password",
      text: `Somebody asked for a new password of your account ${username} on Faregate.\n\nSet a new password:\n${url}\n\nThe link works once, until ${until}. If it was not you, ignore this mail: nothing has changed.\n`,
    }),
  },
  de: {
    invitation: (organization: string, inviter: string, url: string, until: string) => ({
      subject: `Einladung zu ${organization}`,
      text: `${inviter} lädt Sie in die Organisation „${organization}“ auf Faregate ein.\n\nEinladung annehmen:\n${url}\n\nDer Link gilt einmal, bis ${until}. Wenn Sie ${inviter} nicht kennen, ignorieren Sie diese Mail.\n`,
    }),
    recovery: (username: string, url: string, until: string) => ({
      subject: "Neues Passwort setzen",
      text: `Jemand hat ein neues Passwort für Ihr Konto ${username} auf Faregate angefordert.\n\nNeues Passwort setzen:\n${url}\n\nDer Link gilt einmal, bis ${until}. Wenn Sie das nicht waren, ignorieren Sie diese Mail: Es hat sich nichts geändert.\n`,
    }),
  },
} as const;

const momentIn = (language: Language, at: Date) =>
  new Intl.DateTimeFormat(language === "de" ? "de-DE" : "en-GB", {
    dateStyle: "long",
    timeStyle: "short",
    timeZone: "UTC",
    hourCycle: "h23",
  }).format(at) + " UTC";

/**
 * Composes the letter of a queued mail, with the same link in every attempt. Undefined if the link is no longer valid, or
 * nobody can receive it.
 */
export async function composeLetter(ctx: Context, mail: Queued, publicUrl: string): Promise<Letter | undefined> {
  return mail.kind === "invitation" ? invitationLetter(ctx, mail, publicUrl) : recoveryLetter(ctx, mail, publicUrl);
}

async function invitationLetter(ctx: Context, mail: Queued, publicUrl: string): Promise<Letter | undefined> {
  const found = await findValidInvitation(ctx, eq(invitations.id, mail.invitationId ?? ""));
  if (found === undefined || found.row.email === null) return undefined;
  const { id, email, tokenHash, expiresAt } = found.row;
  const token = await tokenOf(ctx.resources.keyring, "invitation", id, tokenHash);
  if (token === undefined) return undefined;
  const until = momentIn(mail.language, expiresAt);
  const url = `${publicUrl}/console/invitations/${token}`;
  const names = [quoted(found.organization), quoted(found.inviter.username)] as const;
  return { id: mail.id, to: email, ...TEXTS[mail.language].invitation(...names, url, until) };
}

async function recoveryLetter(ctx: Context, mail: Queued, publicUrl: string): Promise<Letter | undefined> {
  const userId = mail.userId ?? "";
  const [user] = await ctx.db
    .select({ username: users.username, email: users.email })
    .from(users)
    .where(eq(users.id, userId));
  if (user === undefined || user.email === null) return undefined;
  await insertRecovery(ctx, { id: mail.id, userId, askedAt: mail.createdAt });
  const [row] = await ctx.db.select().from(recoveries).where(eq(recoveries.id, mail.id));
  if (row === undefined || row.usedAt !== null || row.expiresAt.getTime() <= ctx.resources.now().getTime()) {
    return undefined;
  }
  const token = await tokenOf(ctx.resources.keyring, "recovery", mail.id, row.tokenHash);
  if (token === undefined) return undefined;
  const until = momentIn(mail.language, row.expiresAt);
  const url = `${publicUrl}/console/recovery/${token}`;
  return { id: mail.id, to: user.email, ...TEXTS[mail.language].recovery(quoted(user.username), url, until) };
}

/** Derives the token under the secret that its row was made with. Undefined if neither secret fits. */
async function tokenOf(keyring: Keyring, kind: LinkKind, id: string, hash: string): Promise<string | undefined> {
  for (const protection of [keyring, keyring.previous]) {
    if (protection === undefined) continue;
    const token = await linkToken(protection, kind, id);
    if ((await hashLinkToken(token)) === hash) return token;
  }
  return undefined;
}
