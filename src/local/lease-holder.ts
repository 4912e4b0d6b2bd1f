import { isOutage } from "../client/back/fallback-cache.ts";
import type { Consumption } from "../client/back/evaluation-options.ts";
import type { FeatureAnswer } from "../client/back/feature-answers.ts";
import type { LeaseAnswer, Leases } from "../client/back/leases.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import { sum } from "../core/exact.ts";
import type { LimitedFeature } from "./answers.ts";
import { BackOff } from "./back-off.ts";
import { type Amounts, amountsToAsk, byLimit, HeldLease, type LeaseTerms } from "./lease.ts";
import { type SpendOutcome, SpendQueue, type SpendRequest } from "./spend-queue.ts";
import { SpendRate } from "./spend-rate.ts";

/** A feature is hot, and gets a lease, from the second spend within this time on. */
const HOT_MS = 1_000;
/** A lease is returned when it was not spent from for this long. */
const UNUSED_MS = 5_000;
/** The service takes back what is left of an ended lease for this long. */
const LATE_END_MS = 24 * 3_600_000;
/** Wait after a lease was refused for a reason that only time changes. */
const AFTER_REFUSAL_MS = 1_000;

/** A request for a lease that the service has not answered, so that it may have granted it. */
interface Creation {
  readonly idempotencyKey: string;
  readonly terms: LeaseTerms;
  readonly amounts: Amounts;
  /** Moment of the first attempt: the answer to a retry may be as old. */
  askedAt: number | undefined;
}

/** Calls that are not retried: an answer is as old as its attempt. */
export type LeaseCalls = Pick<Leases, "open" | "report">;

/** Shared by all holders of a process. */
export interface HolderContext {
  readonly calls: LeaseCalls;
  readonly leaseMs: number;
  /** Milliseconds of a clock that never goes back. */
  now(): number;
  /** Sends a call when it is its turn. */
  inTurn(call: () => Promise<LeaseAnswer>): Promise<LeaseAnswer>;
  /** The service refused the key. */
  onRefused(): void;
}

/** Feature and user of a lease, and the path of who spends it. */
interface HolderAddress {
  readonly userId: string;
  readonly featureId: string;
  readonly server: boolean;
  readonly spender: string | undefined;
}

/**
 * Holds at most one lease, for one feature of one user and spender: begins it, spends from it, refills it and ends it. It has one call
 * in flight at a time. `maintain` drives what time alone causes. Source: contract tokens-and-leases §7.
 */
export class LeaseHolder {
  private readonly address: HolderAddress;
  private readonly context: HolderContext;
  private readonly queue = new SpendQueue();
  private terms: LeaseTerms | undefined;
  private lease: HeldLease | undefined;
  private creation: Creation | undefined;
  /** A lease that is no longer spent from, and that the service has yet to end. */
  private ending: HeldLease | undefined;
  /** Amounts that others may still take, by the last answer before this lease. */
  private remaining: readonly (number | null)[] | undefined;
  private atHand: Amounts = [];
  private rate = new SpendRate();
  /** Spent from earlier leases of the same limits. */
  private spentBefore: Amounts = [];
  private lastSpendAt = -Infinity;
  private isCalling = false;
  private isStopped = false;
  private readonly backOff = new BackOff();

  constructor(address: HolderAddress, context: HolderContext) {
    this.address = address;
    this.context = context;
  }

  /** The lease under this version of the contract, if there is one that may be spent from. */
  current(version: string | null | undefined, now: number): HeldLease | undefined {
    const { lease } = this;
    return lease !== undefined && lease.terms.version === version && now < lease.until ? lease : undefined;
  }

  /** Spends from the lease at once. Returns the lease if it had enough. */
  spend(consumption: Consumption, version: string | null, now: number): HeldLease | undefined {
    const lease = this.current(version, now);
    if (lease === undefined || !lease.spend(consumption)) return undefined;
    this.lastSpendAt = now;
    if (lease.isLow()) this.drive();
    return lease;
  }

  /** Records a spend that no lease could answer. Returns true if the feature is hot. */
  isHot(now: number): boolean {
    const before = this.lastSpendAt;
    this.lastSpendAt = now;
    return this.lease !== undefined || now - before <= HOT_MS;
  }

  /** Stores how much others may still take, by the service's answer to a spend. A slow answer keeps the feature hot. */
  learn({ limitIds }: LimitedFeature, remaining: FeatureAnswer["remaining"]): void {
    this.lastSpendAt = this.context.now();
    if (remaining != null) this.remaining = limitIds.map((id) => remaining[id] ?? null);
  }

  /** Spends when the service has granted enough. */
  async wait(request: SpendRequest): Promise<SpendOutcome> {
    if (this.isStopped) return "service";
    this.adopt(request.terms);
    const outcome = this.queue.add(request, this.context.now());
    this.drive();
    return outcome;
  }

  /** Ends a lease that is over or unused, refills one that is low, and sends again what was not answered. */
  maintain(): void {
    const now = this.context.now();
    if (this.lease !== undefined) {
      this.rate.sample(now, this.totals());
      if (now - this.lastSpendAt > UNUSED_MS) this.end();
    }
    if (now >= this.backOff.retryAt) this.drive();
  }

  /** Stops spending, settles all that wait, and ends the lease. */
  stop(): void {
    this.isStopped = true;
    this.queue.dismiss("service", { inFlight: true });
    this.end();
    this.backOff.retryAt = -Infinity;
    this.drive();
  }

  /** True if there is a lease that is spent from. */
  get isHolding(): boolean {
    return this.lease !== undefined;
  }

  /** True if no call is in flight or due. */
  get isSettled(): boolean {
    return !this.isCalling && this.queue.isEmpty && (this.lease ?? this.creation ?? this.ending) === undefined;
  }

  /** True if it may be evicted. */
  isIdle(now: number): boolean {
    return (
      this.isSettled && now - this.lastSpendAt > HOT_MS && now >= this.backOff.retryAt && !this.queue.isRefusing(now)
    );
  }

  private adopt(terms: LeaseTerms): void {
    const before = this.terms;
    this.terms = terms;
    if (before === undefined || before.version === terms.version) return;
    this.queue.dismiss("again");
    this.queue.forgetRefusal();
    this.end();
    if (before.feature.limitIds.join() === terms.feature.limitIds.join()) return;
    this.rate = new SpendRate();
    this.spentBefore = [];
    this.remaining = undefined;
  }

  /** Stops spending from the lease. The next call ends it. */
  private end(): void {
    if (this.lease === undefined) return;
    this.spentBefore = this.totals();
    this.remaining = this.lease.remaining;
    this.ending = this.lease;
    this.lease = undefined;
  }

  private totals(): Amounts {
    const { lease } = this;
    if (lease === undefined) return this.spentBefore;
    return lease.spent.map((amount, index) => sum(amount, this.spentBefore[index] ?? 0));
  }

  /** Sends the next call, unless one is in flight. */
  private drive(): void {
    if (this.isCalling) return;
    if (this.context.now() < this.backOff.retryAt) return this.queue.dismiss("service");
    const call = this.nextCall();
    if (call === undefined) return;
    this.isCalling = true;
    void call.finally(() => {
      this.isCalling = false;
      this.drive();
    });
  }

  private nextCall(): Promise<void> | undefined {
    if (this.lease !== undefined && this.context.now() >= this.lease.until) this.end();
    if (this.ending !== undefined) return this.sendEnd(this.ending);
    if (this.creation !== undefined) return this.sendCreation(this.creation);
    if (this.lease !== undefined) return this.refill(this.lease);
    if (this.queue.isEmpty || this.terms === undefined) return undefined;
    const amounts = this.amounts(this.remaining, true);
    this.creation = { idempotencyKey: crypto.randomUUID(), terms: this.terms, amounts, askedAt: undefined };
    return this.sendCreation(this.creation);
  }

  /** Amounts that are to be left after the next grant. One of them is above 0. */
  private amounts(remaining: readonly (number | null)[] | undefined, isFirst: boolean): Amounts {
    this.atHand = this.queue.total() ?? this.atHand;
    const perSecond = this.rate.perSecond(this.context.now(), this.totals());
    return amountsToAsk({ atHand: this.atHand, remaining, perSecond, isFirst });
  }

  private async sendCreation(creation: Creation): Promise<void> {
    const { terms, idempotencyKey } = creation;
    const { userId, featureId, server, spender } = this.address;
    this.queue.take();
    try {
      const answer = await this.context.inTurn(() => {
        creation.askedAt ??= this.context.now();
        const input = { amounts: byLimit(terms.feature, creation.amounts), for: this.duration(), server, spender };
        return this.context.calls.open(userId, featureId, input, { idempotencyKey });
      });
      this.creation = undefined;
      this.backOff.succeeded();
      if (answer.lease !== null) this.begin(answer, answer.lease.id, creation);
      this.serve(answer);
    } catch (error) {
      if (!this.mayRetry(error, creation.askedAt)) {
        this.creation = undefined;
        this.backOff.retryAt = this.context.now() + AFTER_REFUSAL_MS;
      }
      this.queue.dismissBatch("service");
    }
  }

  private serve(answer: LeaseAnswer): void {
    const now = this.context.now();
    this.queue.serve(answer, this.current(this.terms?.version, now), now);
  }

  private begin(answer: LeaseAnswer, id: string, { terms, askedAt = -Infinity }: Creation): void {
    this.lease = new HeldLease(id, terms);
    this.lease.update(answer, askedAt, this.context.leaseMs);
    if (this.isStopped || terms.version !== this.terms?.version) this.end();
  }

  /** Reports what was spent, and asks for more. */
  private refill(lease: HeldLease): Promise<void> | undefined {
    const isNeeded = !this.queue.isEmpty || this.context.now() >= lease.renewAt;
    if (!isNeeded && !lease.isLow()) return undefined;
    const amounts = this.amounts(lease.remaining, false);
    if (isNeeded || lease.hasLess(amounts)) return this.sendReport(lease, amounts);
    lease.lowerRefill();
    return undefined;
  }

  private async sendReport(lease: HeldLease, amounts: Amounts): Promise<void> {
    const { feature } = lease.terms;
    this.queue.take();
    let askedAt = -Infinity;
    try {
      const answer = await this.context.inTurn(() => {
        askedAt = this.context.now();
        const input = {
          spent: byLimit(feature, lease.spent),
          amounts: byLimit(feature, amounts),
          for: this.duration(),
        };
        return this.context.calls.report(lease.id, input);
      });
      this.backOff.succeeded();
      // Another process may have ended it.
      if (answer.lease?.state === "open") lease.update(answer, askedAt, this.context.leaseMs);
      else if (this.lease === lease) this.end();
      this.serve(answer);
    } catch (error) {
      if (!this.mayRetry(error, lease.until) && this.lease === lease) this.end();
      this.queue.dismissBatch("service");
    }
  }

  private async sendEnd(lease: HeldLease): Promise<void> {
    const { feature } = lease.terms;
    const report = { spent: byLimit(feature, lease.spent), amounts: byLimit(feature, []) };
    try {
      await this.context.inTurn(() => this.context.calls.report(lease.id, report));
      this.backOff.succeeded();
    } catch (error) {
      if (this.mayRetry(error, lease.until)) return;
    }
    this.ending = undefined;
  }

  /** Backs off if the service may answer the same call later. `since`: nobody needs its answer a day after that. */
  private mayRetry(error: unknown, since = Infinity): boolean {
    const { status, code } = error instanceof ServiceRequestError ? error : { status: undefined, code: undefined };
    if (status === 401 || status === 403) this.context.onRefused();
    const mayBeAnswered = isOutage(error) || status === 429 || status === 408 || code === "BAD_RESPONSE";
    if (!mayBeAnswered || this.context.now() >= since + LATE_END_MS) return false;
    this.backOff.failed(this.context.now());
    return true;
  }

  /** Time that each lease is asked for, in ISO 8601. */
  private duration(): string {
    return `PT${this.context.leaseMs / 1000}S`;
  }
}
