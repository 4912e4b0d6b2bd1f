import type { FeatureId } from "../feature-id.ts";
import { type BudgetReached, type Spender, spenderPath } from "./budgets.ts";
import { isObject } from "../pricing-token.ts";
import type { Optional } from "./subscription.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import type { FeatureResult } from "./feature-result.ts";
import type { Remaining } from "./holds.ts";
import { type CallOptions, type CountedOptions, segment, type Transport } from "./transport.ts";

/** Amount per `{service}-{limit}`. */
type Amounts = Readonly<Record<string, number>>;

/** A reservation that one process spends in its memory. Moments are ISO 8601 texts in UTC. */
export type Lease = Readonly<{
  id: string;
  userId: string;
  featureId: string;
  /** True if it evaluates the server expression. */
  server: boolean;
  state: "open" | "ended";
  /** Total since the lease began. */
  granted: Amounts;
  /** Total reported so far. */
  spent: Amounts;
  /** Moment from which the rest counts as consumed. Its holder must not spend from then on. */
  until: string;
}>;

/**
 * Answer of a call about a lease. Its holder may spend while its total stays within `granted`, and while the expression is
 * true over `used` and that total.
 */
export interface LeaseAnswer extends FeatureResult, Remaining {
  /** Usage without what this lease spent and holds. */
  readonly used: Amounts | null;
  /** Moment of the answer by the clock of the service, in ISO 8601. */
  readonly now: string;
  /** Null if nothing was leased. */
  readonly lease: Lease | null;
  /** The first budget that denies it, from the contract down. */
  readonly budget?: BudgetReached;
}

/** A lease to open. */
export interface NewLease {
  /** Wanted amount of each limit of the feature. */
  amounts: Amounts;
  /** ISO 8601 duration, from `PT1S` to `PT10M`. */
  for: string;
  /** Evaluates the server expression where the feature has one. */
  server?: boolean | undefined;
  /** The one who spends it, whose budgets bound it. Default: nobody. */
  spender?: Spender | undefined;
}

/** Report of what was spent of a lease. */
export type LeaseReport = Readonly<{
  /** Total since the lease began, of each limit. */
  spent: Amounts;
}> &
  Optional<{
    /** Rest of each limit after the call; more that is left stays. All 0 ends the lease. Default: what is left. */
    amounts: Amounts;
    /** New duration from now, ISO 8601. Default: the end stays. */
    for: string;
  }>;

/** Reserves usage for this process. Needs a key of any scope. Source: contract tokens-and-leases §6. */
export class Leases {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /**
   * Leases as much as is available of the wanted amounts. Retries carry the same idempotency key, so they open one lease.
   * Rejects in an outage.
   * @throws ServiceRequestError with status 409 if too many leases of the contract are open.
   */
  async open(
    userId: string,
    featureId: FeatureId,
    { server, spender, ...body }: NewLease,
    options: CountedOptions = {},
  ): Promise<LeaseAnswer> {
    const { idempotencyKey = crypto.randomUUID() } = options;
    const path = `/features${segment("userId", userId)}${segment("featureId", featureId)}/leases`;
    const call = {
      method: "POST",
      path,
      query: { server, spender: spenderPath(spender) },
      body,
      idempotencyKey,
    } as const;
    const answer = await this.transport.ask(call, isLeaseAnswer, options);
    this.fallbackCache.evict(userId);
    return answer;
  }

  /**
   * Counts what was newly spent, and adds to the lease as far as there is. The same report again counts nothing.
   * @throws ServiceRequestError with status 404 for a lease that is gone, 409 after its end.
   */
  async report(id: string, report: LeaseReport, options?: CallOptions): Promise<LeaseAnswer> {
    const call = { method: "POST", path: pathOf(id), body: report, isRead: true } as const;
    const answer = await this.transport.ask(call, isLeaseAnswer, options);
    if (answer.lease !== null) this.fallbackCache.evict(answer.lease.userId);
    return answer;
  }

  /** Frees what was not reported as spent, also in the 24 hours after the end of the lease. */
  async end(id: string, options?: CallOptions): Promise<void> {
    await this.transport.send({ method: "DELETE", path: pathOf(id), isRead: true }, options);
  }
}

const pathOf = (id: string) => `/leases${segment("id", id)}`;

function isLeaseAnswer(value: unknown): value is LeaseAnswer {
  return isObject(value) && typeof value["eval"] === "boolean" && "lease" in value;
}
