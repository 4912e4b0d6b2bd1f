import type { Consumption } from "../client/back/evaluation-options.ts";
import type { FeatureResult } from "../client/back/feature-result.ts";
import { sum } from "../core/exact.ts";
import { type Amounts, amountsOf, byLimit, type HeldLease, type LeaseTerms } from "./lease.ts";
import type { LeaseAnswer } from "../client/back/leases.ts";

const REFUSAL_MS = 1_000;
/** Calls that a spend waits for while others spend what they grant. */
const MAX_CALLS = 3;

/** Result of a spend: `eval` is true if it was spent. `again`: the contract changed. `service`: no lease decides. */
export type SpendOutcome = (Pick<FeatureResult, "eval" | "limit" | "used"> & Denying) | "again" | "service";

/** The budget that denies, if one does. */
type Denying = Pick<LeaseAnswer, "budget">;

/** A spend that the present lease has too little for. */
export interface SpendRequest {
  readonly consumption: Consumption;
  readonly terms: LeaseTerms;
  /** False once the terms may have changed. */
  readonly isCurrent: () => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** A spend that waits for an answer of the service. */
interface Waiter extends SpendRequest {
  readonly amounts: Amounts;
  readonly resolve: (outcome: SpendOutcome) => void;
  /** Calls so far that it waited for. */
  calls: number;
  isSettled: boolean;
}

interface Refusal extends Denying {
  readonly until: number;
  readonly amounts: Amounts;
  readonly usage: Amounts;
  readonly limit: FeatureResult["limit"];
  readonly terms: LeaseTerms;
}

/** Spends that wait for the service, in their order, and the last refusal. */
export class SpendQueue {
  private waiting: Waiter[] = [];
  /** Those that the call in flight is to serve. */
  private batch: Waiter[] = [];
  private refusal: Refusal | undefined;

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  /** Waits for a call. A refusal within the last second also refuses whoever spends at least as much. */
  async add(request: SpendRequest, now: number): Promise<SpendOutcome> {
    const amounts = amountsOf(request.terms.feature, request.consumption);
    if (amounts === undefined) return "service";
    const { refusal } = this;
    if (refusal !== undefined && now < refusal.until && isAtLeast(amounts, refusal.amounts)) {
      return refused(refusal, amounts);
    }
    return new Promise((resolve) => {
      this.waiting.push({ ...request, amounts, resolve, calls: 0, isSettled: false });
    });
  }

  /** Amounts of all that wait, by limit; undefined if none does. */
  total(): Amounts | undefined {
    return this.waiting[0]?.amounts.map((_, index) =>
      this.waiting.reduce((all, { amounts }) => sum(all, amounts[index] ?? 0), 0),
    );
  }

  /** Makes those that wait the batch of the next call. */
  take(): void {
    this.batch = this.waiting.splice(0);
  }

  /** Settles the batch of the call in flight. */
  dismissBatch(outcome: SpendOutcome): void {
    for (const waiter of this.batch.splice(0)) settle(waiter, outcome);
  }

  /** Settles all that wait, and with `inFlight` also the batch. */
  dismiss(outcome: SpendOutcome, { inFlight = false } = {}): void {
    for (const waiter of this.waiting.splice(0)) settle(waiter, outcome);
    if (inFlight) this.dismissBatch(outcome);
  }

  forgetRefusal(): void {
    this.refusal = undefined;
  }

  isRefusing(now: number): boolean {
    return this.refusal !== undefined && now < this.refusal.until;
  }

  /**
   * Spends for the batch, then for those who came since, as far as the lease has enough. One of the batch that it has too
   * little for is refused if the service has no more, and waits again otherwise.
   */
  serve(answer: LeaseAnswer, lease: HeldLease | undefined, now: number): void {
    this.refusal = undefined;
    const later = this.waiting.splice(0);
    for (const waiter of this.batch.splice(0)) {
      if (trySpend(waiter, lease)) continue;
      if (answer.error === null && isShort(waiter, answer, lease)) this.refuse(waiter, answer, lease, now);
      else if (answer.lease !== null && (waiter.calls += 1) < MAX_CALLS) this.waiting.push(waiter);
      else settle(waiter, "service");
    }
    for (const waiter of later) if (!trySpend(waiter, lease)) this.waiting.push(waiter);
  }

  private refuse(
    waiter: Waiter,
    { limit, used, budget }: LeaseAnswer,
    lease: HeldLease | undefined,
    now: number,
  ): void {
    const { amounts, terms } = waiter;
    const usage = terms.feature.limitIds.map((id, index) => sum(used?.[id] ?? 0, lease?.spent[index] ?? 0));
    const denying = budget === undefined ? {} : { budget };
    this.refusal = { until: now + REFUSAL_MS, amounts, usage, limit, terms, ...denying };
    settle(waiter, refused(this.refusal, amounts));
  }
}

function settle(waiter: Waiter, outcome: SpendOutcome): void {
  waiter.isSettled = true;
  waiter.resolve(outcome);
}

/** Returns true if nothing is left to do for this spend. */
function trySpend(waiter: Waiter, lease: HeldLease | undefined): boolean {
  const { consumption, terms, isCurrent, signal, isSettled } = waiter;
  // The caller of an aborted spend has its rejection.
  if (isSettled || signal?.aborted === true) return true;
  if (!isCurrent()) {
    settle(waiter, "again");
    return true;
  }
  if (lease?.terms.version !== terms.version || !lease.spend(consumption)) return false;
  settle(waiter, { eval: true, limit: lease.terms.feature.limit, used: lease.usedByLimit() });
  return true;
}

/** True if all that is left, here and for others, is less than what a spend takes. */
function isShort(
  { amounts, terms }: Waiter,
  { eval: isOn, lease, remaining }: LeaseAnswer,
  held: HeldLease | undefined,
): boolean {
  if (!isOn) return true;
  if (lease === null) return false;
  return amounts.some((amount, index) => {
    const others = remaining?.[terms.feature.limitIds[index] ?? ""];
    return others != null && sum(others, held?.leftOf(index) ?? 0) < amount;
  });
}

const isAtLeast = (amounts: Amounts, others: Amounts): boolean =>
  others.every((amount, index) => (amounts[index] ?? 0) >= amount);

/** A refusal shows the usage that the spend would have led to, as the service does. */
function refused({ limit, usage, terms, budget }: Refusal, amounts: Amounts): SpendOutcome {
  const used = usage.map((amount, index) => sum(amount, amounts[index] ?? 0));
  return { eval: false, limit, used: byLimit(terms.feature, used), ...(budget === undefined ? {} : { budget }) };
}
