import { PgTransaction } from "drizzle-orm/pg-core";
import type { Caller } from "../core/access/caller.ts";
import type { Database } from "../db/postgres/connect.ts";
import type { Issuer } from "../db/queries/issuer.ts";
import type { EventLog } from "../db/queries/outbox.ts";
import type { Lookups } from "../db/queries/lookups.ts";
import { repeatLost } from "../db/postgres/repeat.ts";
import type { GroupedAsk } from "./consumption.ts";
import type { Keyring } from "./credentials.ts";
import type { FeatureAnswer } from "./decision.ts";
import type { Analysis } from "./analysis.ts";
import type { CallCounter } from "./analytics.ts";
import type { KeyUses } from "./key-uses.ts";
import type { PricingCache } from "./pricing-cache.ts";
import type { Answers } from "./proposals.ts";
import type { Refusals } from "./refusals.ts";

/** What a process opens once (or a Worker once a request) and every operation uses. */
export interface Resources {
  db: Database;
  lookups: Lookups;
  /** Resolves when what committed before is known to `lookups`; absent where those keep nothing. */
  caughtUp?: (() => Promise<void>) | undefined;
  keyring: Keyring;
  pricingCache: PricingCache;
  issuer: Issuer;
  /** Diffs, best fits and reviews, which take as long as the pricings make them. */
  analysis: Analysis;
  callCounter: CallCounter;
  keyUses: KeyUses;
  refusals: Refusals;
  settings: Settings;
  /** The only clock. */
  now: () => Date;
  /** Counts use together with other callers; absent inside a transaction, which must not wait for one of another. */
  consume?: ((ask: GroupedAsk) => Promise<FeatureAnswer>) | undefined;
  /**
   * Fetches the text at a public https address within 5 s, re-checking every redirect; Failure invalid otherwise.
   * Absent where a runtime cannot do it safely: pricings are then taken as files only.
   */
  download?: ((address: string, maxBytes: number) => Promise<string>) | undefined;
  /** Whether an IP address is one of the public internet; absent where a runtime cannot say: then it is seen when used. */
  isPublicAddress?: ((address: string) => boolean) | undefined;
  /** Events as an event server follows them; without it, streams ask the database every second. */
  eventLog?: EventLog | undefined;
  /** Aborted when the process is about to end: streams end then. */
  stopping?: AbortSignal | undefined;
}

/** What an operator decides that operations depend on. */
export interface Settings {
  /** Life of a pricing token. */
  tokenLifetimeSeconds: number;
  /** When false, only a platform ADMIN creates users. */
  allowPublicSignup: boolean;
  /** The address under which clients reach this server; unset, the host of each request is taken. */
  publicUrl?: string | undefined;
  /** When false, POST /events/test-event does not exist. */
  allowTestEvents?: boolean | undefined;
  /** Sign-ins and sign-ups a minute and address; 0: no limit; absent: the usual one. */
  accountCallsPerMinute?: number | undefined;
  /** Failed sign-ins a minute and name; absent: the usual number. */
  failedSignInsPerMinute?: number | undefined;
  /** Password hashes that may wait in this process; absent: the usual number. */
  maxWaitingHashes?: number | undefined;
  /** Webhooks an organization may have; absent: the usual number. */
  maxWebhooks?: number | undefined;
  /** Deepest nesting of a pricing's text; absent: the deepest that there may be. */
  maxPricingDepth?: number | undefined;
  /** Largest text of a pricing; absent: the usual one. */
  maxPricingBytes?: number | undefined;
  /** Most entries of a page, where a listing's own limit is not lower; absent: that limit. */
  maxPageSize?: number | undefined;
  /** Hosts to which webhooks may be sent over http: too. */
  webhookAllowedHosts?: readonly string[] | undefined;
}

/** What every operation receives: resources, plus who asks. */
export interface Context extends Resources {
  caller: Caller;
  /** Goes into the audit log; absent where nobody asked by request. */
  requestId?: string | undefined;
  /** What is known of the configurations of a change before its transaction; see proposeFirst. */
  answers?: Answers | undefined;
}

/** The context of one caller. Field by field, which V8 makes many times faster than a spread: every request has one. */
export function contextOf(resources: Resources, caller: Caller, requestId?: string): Context {
  return {
    caller,
    requestId,
    db: resources.db,
    lookups: resources.lookups,
    caughtUp: resources.caughtUp,
    keyring: resources.keyring,
    pricingCache: resources.pricingCache,
    issuer: resources.issuer,
    analysis: resources.analysis,
    answers: undefined,
    callCounter: resources.callCounter,
    keyUses: resources.keyUses,
    refusals: resources.refusals,
    settings: resources.settings,
    now: resources.now,
    consume: resources.consume,
    download: resources.download,
    isPublicAddress: resources.isPublicAddress,
    eventLog: resources.eventLog,
    stopping: resources.stopping,
  } satisfies Record<keyof Context, unknown>;
}

/** So many entries of a page as were asked for, or as the operator allows. */
export const pageOf = ({ settings }: Pick<Resources, "settings">, limit: number): number =>
  Math.min(limit, settings.maxPageSize ?? limit);

/**
 * Runs `work` in one transaction: all of it or none. Name the parameter `ctx`, so that the outer handle is out of reach.
 * One that loses to another, in a deadlock or a serialization failure, is done again a few times, see repeatLost, before
 * that is thrown (the caller is then told to come back). So `work` does nothing that is not undone with the transaction,
 * and sends nothing to anybody. Inside another transaction it is a part of that one, which is done again as a whole.
 */
export function transaction<T>(ctx: Context, work: (ctx: Context) => Promise<T>): Promise<T> {
  const once = () => transactionOnce(ctx, work);
  return ctx.db instanceof PgTransaction ? once() : repeatLost(once);
}

/** The same where `work` is seen from outside before it is over: what loses to another transaction is thrown at once. */
export function transactionOnce<T>(ctx: Context, work: (ctx: Context) => Promise<T>): Promise<T> {
  return ctx.db.transaction((tx) => work({ ...ctx, db: tx, consume: undefined }));
}

/**
 * Runs `read`, which writes nothing, over what is committed at one moment: several statements then agree with each other.
 * Inside a transaction it is a part of that one, and reads what that reads.
 */
export function snapshot<T>(ctx: Context, read: (ctx: Context) => Promise<T>): Promise<T> {
  if (ctx.db instanceof PgTransaction) return read(ctx);
  return ctx.db.transaction((tx) => read({ ...ctx, db: tx, consume: undefined }), {
    isolationLevel: "repeatable read",
    accessMode: "read only",
  });
}

/** Drawn many at a time: asking for randomness costs more than everything else here. */
const randoms = new Uint32Array(256);
let randomAt = randoms.length;
let lastMillisecond = 0;
let counter = 0;

/**
 * A new identifier: 24 lower-case hex digits, ascending in the order of creation within a process
 * (12 digits of milliseconds, 4 of a counter, 8 of randomness). Source: contract README, decision 5.
 */
export function newId(now: Date): string {
  const millisecond = Math.max(now.getTime(), lastMillisecond);
  counter = millisecond === lastMillisecond ? counter + 1 : 0;
  lastMillisecond = millisecond;
  if (counter > 0xffff) {
    lastMillisecond += 1;
    counter = 0;
  }
  if (randomAt === randoms.length) {
    crypto.getRandomValues(randoms);
    randomAt = 0;
  }
  const random = randoms[randomAt] ?? 0;
  randomAt += 1;
  return (
    lastMillisecond.toString(16).padStart(12, "0") +
    counter.toString(16).padStart(4, "0") +
    random.toString(16).padStart(8, "0")
  );
}
