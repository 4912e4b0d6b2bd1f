import { and, eq, sql } from "drizzle-orm";
import type { Database } from "../db/postgres/connect.ts";
import { mails } from "../db/schema.ts";
import { RETRY_TIMES, retryDelay, type RetryTimes } from "./retries.ts";

/** Lease of a claimed mail. Afterwards another process may send it. Longer than the time-outs of an attempt. */
const LEASE = sql`interval '2 minutes'`;

/** A mail that this process has claimed. */
export interface ClaimedMail {
  id: string;
  kind: "invitation" | "recovery";
  invitationId: string | null;
  userId: string | null;
  language: "en" | "de";
  createdAt: Date;
  /** Number of this attempt, from 1. */
  attempt: number;
}

/** A composed mail. `id` is equal in every attempt, so that mailboxes can deduplicate. */
export interface Letter {
  id: string;
  to: string;
  subject: string;
  text: string;
}

/** Hands a letter to a mail server. Rejects with a sentence for the operator; `isFinal` if no retry can succeed. */
export type SendLetter = (letter: Letter) => Promise<{ delivered: true } | { error: string; isFinal: boolean }>;

/** Sends mails until stopped. */
export interface Mails {
  /** Mails since the start, by outcome, and those that were pending at the last look. */
  counts(): { sent: number; failed: number; pending: number };
  /** Stops claiming, and resolves when the attempt in flight has ended. */
  stop(): Promise<void>;
}

/**
 * Sends the queued mails, one at a time. Any number of processes may share a database: a claim locks the row, and the mail
 * of a dead process is due again after its lease. So a crash repeats at most the mail in flight.
 */
export function startMails(options: {
  db: Database;
  /** Undefined for a mail whose link is no longer valid. */
  compose: (mail: ClaimedMail) => Promise<Letter | undefined>;
  send: SendLetter;
  onError: (error: unknown) => void;
  times?: Partial<RetryTimes>;
}): Mails {
  const { db } = options;
  const times = { ...RETRY_TIMES, ...options.times };
  const counts = { sent: 0, failed: 0, pending: 0 };
  let stopped = false;
  let running: Promise<void> | undefined;
  const isStopped = () => stopped;

  const attempt = async (mail: ClaimedMail): Promise<void> => {
    if (mail.attempt > times.attempts) {
      counts.failed += 1;
      // Its attempts ended without a result: they threw, or ended their process.
      return settle(db, mail, { status: "failed", error: "no attempt has come to an end" });
    }
    const letter = await options.compose(mail);
    if (letter === undefined) return settle(db, mail, { status: "void", error: null });
    const outcome = await options.send(letter);
    if ("delivered" in outcome) {
      counts.sent += 1;
      return settle(db, mail, { status: "sent", error: null });
    }
    const error = outcome.error.slice(0, 500);
    if (outcome.isFinal || mail.attempt >= times.attempts) {
      counts.failed += 1;
      return settle(db, mail, { status: "failed", error });
    }
    const delayMs = Math.round(retryDelay(mail.attempt, undefined, times));
    return settle(db, mail, { error, nextAttemptAt: sql`now() + ${delayMs}::integer * interval '1 millisecond'` });
  };
  const look = async () => {
    while (!isStopped()) {
      const mail = await claim(db);
      if (mail === undefined) break;
      await attempt(mail).catch(options.onError);
    }
    counts.pending = await db.$count(mails, eq(mails.status, "pending"));
  };
  const poll = setInterval(() => {
    running ??= look()
      .catch(options.onError)
      .finally(() => (running = undefined));
  }, times.pollMs);
  return {
    counts: () => counts,
    stop: async () => {
      stopped = true;
      clearInterval(poll);
      await running;
    },
  };
}

async function claim(db: Database): Promise<ClaimedMail | undefined> {
  const [mail] = await db
    .update(mails)
    .set({ attempts: sql`${mails.attempts} + 1`, lastAttemptAt: sql`now()`, nextAttemptAt: sql`now() + ${LEASE}` })
    .where(
      sql`${mails.id} = (
        select id from mails where status = 'pending' and next_attempt_at <= now()
        order by next_attempt_at limit 1 for update skip locked)`,
    )
    .returning();
  if (mail === undefined) return undefined;
  const { id, kind, invitationId, userId, language, createdAt, attempts } = mail;
  return { id, kind, invitationId, userId, language, createdAt, attempt: attempts };
}

/** Only the holder of the newest attempt may record its result: an older one has lost its lease. */
async function settle(
  db: Database,
  { id, attempt }: ClaimedMail,
  change: { status?: "sent" | "failed" | "void"; error: string | null; nextAttemptAt?: ReturnType<typeof sql> },
): Promise<void> {
  await db
    .update(mails)
    .set(change)
    .where(and(eq(mails.id, id), eq(mails.attempts, attempt), eq(mails.status, "pending")));
}

/** Rows deleted per statement, which bounds its lock time. */
const BATCH = 5000;

/**
 * Deletes finished mails older than `days`, and links for passwords that expired as long ago. Requests for unknown users,
 * which anybody can make, go after an hour.
 */
export async function pruneMails(db: Database, days: number): Promise<void> {
  const over = sql`now() - ${days}::integer * interval '1 day'`;
  for (let removed = BATCH; removed === BATCH;) {
    const gone = await db.execute(sql`
      delete from mails where id in (
        select id from mails where status <> 'pending' and (created_at < ${over}
          or (status = 'void' and kind = 'recovery' and user_id is null and created_at < now() - interval '1 hour'))
        order by created_at limit ${BATCH}::integer for update skip locked
      ) returning 1`);
    removed = gone.length;
  }
  await db.execute(sql`
    delete from recoveries where id in (select id from recoveries where expires_at < ${over} limit ${BATCH}::integer)`);
}
