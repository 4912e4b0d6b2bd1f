import { PgTransaction } from "drizzle-orm/pg-core";
import type { Author, Caller } from "../core/access/caller.ts";
import type { AssessedConfiguration } from "../core/change/analysis.ts";
import type { TokenSignature } from "../core/token-keys.ts";
import type { Database } from "../db/postgres/connect.ts";
import type { Invalidations } from "../db/postgres/invalidations.ts";
import type { Issuer } from "../db/queries/issuer.ts";
import type { EventLog } from "../db/queries/outbox.ts";
import type { SnapshotCache } from "../db/queries/snapshot-cache.ts";
import type { ReadTokenKeys } from "../db/queries/token-keys.ts";
import { retrySerializationFailures } from "../db/postgres/retry.ts";
import type { Approval } from "../core/approvals.ts";
import type { CompareBcrypt, Keyring } from "./credentials.ts";
import type { AnswerTo, QueuedRequest } from "./evaluation/request.ts";
import type { Analysis } from "./state/analysis.ts";
import type { CallLimits } from "./state/call-limits.ts";
import type { CallCounter } from "./state/call-counter.ts";
import type { MessageQueue } from "./state/message-queue.ts";
import type { Places } from "./state/places.ts";
import type { KeyUses } from "./state/key-uses.ts";
import type { Evaluators } from "./state/evaluators.ts";
import type { SignOnProvider, SignOnSettings } from "./state/sign-on-provider.ts";
import type { PricingCache } from "./state/pricing-cache.ts";
import type { DeniedAttempts } from "./state/denied-attempts.ts";

/** Resources that a process (or each request of a Worker) opens once and every operation uses. */
export interface Resources {
  db: Database;
  snapshots: SnapshotCache;
  /** Resolves once `snapshots` reflects every earlier commit. Undefined where `snapshots` caches nothing. */
  invalidationsApplied?: (() => Promise<void>) | undefined;
  /** Committed changes of every process. Undefined where no connection can wait for them, as on Workers. */
  invalidations?: Invalidations | undefined;
  keyring: Keyring;
  pricingCache: PricingCache;
  issuer: Issuer;
  tokenKeys: ReadTokenKeys;
  /** Runs diffs, best fits and reviews, whose CPU time depends on the pricings. */
  analysis: Analysis;
  callCounter: CallCounter;
  callLimits: CallLimits;
  /** Bounds the transactions of one organization at a time, each of which pins a connection: they may wait for locks. */
  transactions: Places;
  /** Bounds how many messages of payment providers are applied at once. */
  messages: MessageQueue;
  keyUses: KeyUses;
  deniedAttempts: DeniedAttempts;
  evaluators: Evaluators;
  /** Single sign-on. Undefined where no provider is configured. */
  signOn?: SignOnProvider | undefined;
  settings: Settings;
  /** The only clock: operations never read the system time themselves. */
  now: () => Date;
  /**
   * Batches consumption, taking and settling of holds across callers. Never call it inside a transaction: its own
   * transactions would wait for it.
   */
  consume: <Request extends QueuedRequest>(request: Request) => Promise<AnswerTo<Request>>;
  /** Compares a password with an imported hash in another thread. Default: on the event loop, in slices of 100 ms. */
  compareBcrypt?: CompareBcrypt | undefined;
  /**
   * Fetches text from a public https address within 5 s, and checks every redirect again. Undefined where the runtime
   * cannot do that safely: pricings then come only as files.
   * @throws Failure invalid otherwise.
   */
  download?: ((address: string, maxBytes: number) => Promise<string>) | undefined;
  /**
   * True for an IP address on the public internet. Undefined where the runtime cannot check; the address is then
   * checked when used.
   */
  isPublicAddress?: ((address: string) => boolean) | undefined;
  /** Shared event log of an event server. Without it, streams poll the database every second. */
  eventLog?: EventLog | undefined;
  /** Aborted on shutdown, which ends open streams. */
  stopping?: AbortSignal | undefined;
}

/** Accounts that may sign in with a password: `true` for all, platform ADMINs, or `false` for none. */
export type PasswordSignIn = "true" | "admins" | "false";

/** Operator settings that operations depend on. */
export interface Settings {
  /** Lifetime of a pricing token, in seconds. */
  tokenLifetimeSeconds: number;
  /** Signature of pricing tokens whose request names none. Default: HS256. */
  tokenSignature?: TokenSignature | undefined;
  /** When false, only a platform ADMIN creates users. */
  allowPublicSignup: boolean;
  /** Public base URL of this server. Default: the host of each request. */
  publicUrl?: string | undefined;
  /** True where event servers send mails. */
  sendsMail?: boolean | undefined;
  /** When false, POST /events/test-event does not exist. */
  allowTestEvents?: boolean | undefined;
  /** Single sign-on with a provider. Default: none. */
  signOn?: SignOnSettings | undefined;
  /** Accounts that may sign in with a password: all, platform ADMINs, none. Default: all. */
  passwordSignIn?: PasswordSignIn | undefined;
  /** Seconds without use after which a session ends. Default: 12 hours. */
  sessionIdleSeconds?: number | undefined;
  /** Seconds after which a session ends in any case. Default: 30 days. */
  sessionLifetimeSeconds?: number | undefined;
  /** Sign-ins and sign-ups per minute and address; 0 disables the limit. Default: 3,000. */
  accountCallsPerMinute?: number | undefined;
  /** Failed sign-ins per minute, name and address. Default: 10. */
  failedSignInsPerMinute?: number | undefined;
  /** Password hashes that may wait in this process. Default: 600. */
  maxWaitingHashes?: number | undefined;
  /** Iterations of each round of a password hash, lowered by tests only: no variable sets it. Default: 100,000. */
  passwordIterations?: number | undefined;
  /** Maximum webhooks per organization. Default: 20. */
  maxWebhooks?: number | undefined;
  /** Maximum nesting depth of a pricing's text. Default: 32. */
  maxPricingDepth?: number | undefined;
  /** Maximum size of a pricing's text. Default: 2 MiB. */
  maxPricingBytes?: number | undefined;
  /** Upper bound on every listing's page size. Default: each listing's own limit. */
  maxPageSize?: number | undefined;
  /** Hosts to which webhooks may also be sent over http:. */
  webhookAllowedHosts?: readonly string[] | undefined;
}

/** Where an operation runs: every operation receives one. */
export interface Context {
  /** The database, or the transaction's handle inside of one. */
  db: Database;
  caller: Caller;
  /** Author of changes that are made in somebody's name. Default: the caller. */
  author?: Author | undefined;
  /** Approval that the operation of this context carries out. */
  approval?: Approval | undefined;
  /** Request id for the audit log; undefined outside of a request. */
  requestId: string | undefined;
  /** Assessments computed before the change's transaction, by question key; see proposeFirst. */
  answers?: Map<string, AssessedConfiguration> | undefined;
  /**
   * Without `db`: a statement on a second connection inside a transaction would not see that transaction, and can
   * deadlock the pool.
   */
  resources: Omit<Resources, "db">;
}

/** Builds the context of one caller. */
export function contextOf(resources: Resources, caller: Caller, requestId?: string): Context {
  return { db: resources.db, caller, requestId, resources };
}

/** True inside `transaction` and `snapshot`. */
export const isInTransaction = ({ db }: Pick<Context, "db">): boolean => db instanceof PgTransaction;

/** Clamps a requested page size to the operator's maximum. */
export const clampPageSize = ({ resources }: Pick<Context, "resources">, limit: number): number =>
  Math.min(limit, resources.settings.maxPageSize ?? limit);

/**
 * Runs `work` in one transaction. Name the parameter `ctx`, so that it shadows the outer handle. Deadlocks and
 * serialization failures are retried a few times (see retrySerializationFailures), then thrown as retryable. So `work` must have no
 * effects outside the transaction, and must not send anything. Inside another transaction it joins that one, and only
 * the outer one is retried.
 * @throws Failure unavailable when the caller's organization or user has too many transactions at once.
 */
export function transaction<T>(ctx: Context, work: (ctx: Context) => Promise<T>): Promise<T> {
  const once = () => transactionOnce(ctx, work);
  if (isInTransaction(ctx)) return once();
  const { caller, resources } = ctx;
  const repeatedly = () => retrySerializationFailures(once);
  if (caller.kind === "anonymous") return repeatedly();
  return resources.transactions.within(caller.kind === "key" ? caller.organizationId : caller.id, repeatedly);
}

/**
 * Runs `work` in one transaction without retries. Use it when `work` has effects that are visible outside before the
 * commit.
 */
export function transactionOnce<T>(ctx: Context, work: (ctx: Context) => Promise<T>): Promise<T> {
  return ctx.db.transaction((tx) => work({ ...ctx, db: tx }));
}

/**
 * Runs read-only `read` on one database snapshot, so that several statements agree. Inside a transaction it joins that
 * one, with its isolation.
 */
export function snapshot<T>(ctx: Context, read: (ctx: Context) => Promise<T>): Promise<T> {
  if (isInTransaction(ctx)) return read(ctx);
  return ctx.db.transaction((tx) => read({ ...ctx, db: tx }), {
    isolationLevel: "repeatable read",
    accessMode: "read only",
  });
}

/** Drawn in bulk: a call for random values costs more than the rest of newId. */
const randoms = new Uint32Array(256);
let randomAt = randoms.length;
let lastMillisecond = 0;
let counter = 0;

/**
 * Creates an identifier of 24 lower-case hex digits. Identifiers ascend in order of creation within a process (12
 * digits of milliseconds, 4 of a counter, 8 random). Source: contract README, decision 5.
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
