import { ServiceRequestError } from "../client/service-request-error.ts";
import { spenderPath } from "../client/back/budgets.ts";
import { Faregate } from "../client/back/faregate.ts";
import type { Consumption } from "../client/back/evaluation-options.ts";
import type { FeatureAnswer } from "../client/back/feature-answers.ts";
import { unlessAborted } from "./change-stream.ts";
import type { Entry } from "./entries.ts";
import { FRESH_MS, type FreshEntries } from "./fresh-entries.ts";
import { HeldLeases } from "./leases.ts";
import type { LocalAnswer, LocalEvaluatorOptions, LocalOptions } from "./local-evaluator.ts";

/** Answers about limits that leases give, and the leases. */
export class LeasedAnswers {
  private readonly leases: HeldLeases;
  private readonly entries: FreshEntries;
  /** One per call, because Node warns of many listeners on one signal. */
  private readonly inFlight = new Set<AbortController>();

  constructor(options: LocalEvaluatorOptions, leaseSeconds: number, entries: FreshEntries) {
    this.entries = entries;
    const { leases } = new Faregate({ ...options, retries: 0 });
    this.leases = new HeldLeases({
      calls: {
        open: (userId, featureId, lease, more) =>
          this.abortable((signal) => leases.open(userId, featureId, lease, { ...more, signal })),
        report: (id, report) => this.abortable((signal) => leases.report(id, report, { signal })),
      },
      leaseMs: Math.round(leaseSeconds * 1000),
      now: () => performance.now(),
      onRefused: () => entries.refuse(),
    });
  }

  /** Number of leases that are spent from. */
  get size(): number {
    return this.leases.size;
  }

  /** Answers if a lease has enough. Otherwise undefined. */
  atOnce(
    entry: Entry,
    featureId: string,
    options: LocalOptions,
    { now, ageMs }: { now: number; ageMs: number },
  ): LocalAnswer | undefined {
    const spender = spenderPath(options.spender);
    const holder = this.leases.find(entry.userId, featureId, options.server === true, spender);
    if (holder === undefined || !mayLease(options)) return undefined;
    const { consumption } = options;
    const isRead = consumption === undefined || isEmpty(consumption);
    if (!isRead && options.idempotencyKey !== undefined) return undefined;
    const lease = isRead ? holder.current(entry.version, now) : holder.spend(consumption, entry.version, now);
    if (lease === undefined || (isRead && !lease.hasSomethingLeft())) return undefined;
    entry.isUsed = true;
    return {
      eval: !isRead || lease.isOn(),
      limit: lease.terms.feature.limit,
      used: lease.usedByLimit(),
      error: null,
      source: "lease",
      stale: ageMs > FRESH_MS,
      ageMs: ageMs > 0 ? Math.round(ageMs) : 0,
      counted: !isRead,
      idempotencyKey: null,
    };
  }

  /**
   * Answers from a lease, after a call about it if necessary. `again`: the contract has changed meanwhile. `service`: no
   * lease decides.
   * @throws ServiceRequestError when the caller's signal aborts.
   */
  async answer(entry: Entry, featureId: string, options: LocalOptions): Promise<LocalAnswer | "again" | "service"> {
    const now = performance.now();
    const ageMs = this.entries.ageOf(entry, now);
    const atOnce = this.atOnce(entry, featureId, options, { now, ageMs });
    if (atOnce !== undefined) return atOnce;
    const { consumption, idempotencyKey, signal, server = false } = options;
    const { userId, version } = entry;
    const spender = spenderPath(options.spender);
    if (consumption === undefined || isEmpty(consumption) || idempotencyKey !== undefined) return "service";
    const feature = mayLease(options) ? entry.answers.ofLimits(featureId, server) : null;
    if (feature === null || version === null) return "service";
    const holder = this.leases.findOrCreate(userId, featureId, server, spender);
    if (!holder.isHot(now)) return "service";
    const isCurrent = () => this.isCurrent(userId, version, spender);
    const spending = holder.wait({ consumption, terms: { version, feature }, isCurrent, signal });
    const outcome = await unlessAborted(spending, signal).catch((error: unknown) => {
      if (error instanceof ServiceRequestError && error.code === "TIMEOUT") return "service" as const;
      throw error;
    });
    if (typeof outcome === "string") return outcome;
    const origin = outcome.eval
      ? ({ source: "lease", stale: ageMs > FRESH_MS, ageMs: Math.max(0, Math.round(ageMs)) } as const)
      : ({ source: "service", stale: false, ageMs: 0 } as const);
    return { ...outcome, error: null, ...origin, counted: outcome.eval, idempotencyKey: null };
  }

  /** Learns from an answer of the service how much others may still take. */
  learn(userId: string, featureId: string, options: LocalOptions, { remaining }: FeatureAnswer): void {
    const { server = false } = options;
    const feature = this.entries.get(userId, options.spender)?.answers.ofLimits(featureId, server);
    const holder = this.leases.find(userId, featureId, server, spenderPath(options.spender));
    if (feature != null) holder?.learn(feature, remaining);
  }

  maintain(): void {
    this.leases.maintain();
  }

  /** Ends all leases. */
  clear(): void {
    this.leases.clear();
  }

  /** Ends all leases. Resolves when the service has answered, after 5 s at the latest. */
  async close(): Promise<void> {
    await this.leases.close();
    for (const controller of this.inFlight) controller.abort();
  }

  private async abortable<T>(call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    this.inFlight.add(controller);
    return call(controller.signal).finally(() => this.inFlight.delete(controller));
  }

  private isCurrent(userId: string, version: string, spender: string | undefined): boolean {
    const entry = this.entries.get(userId, spender);
    const now = performance.now();
    return entry?.version === version && this.entries.mayAnswer(entry, this.entries.ageOf(entry, now), now);
  }
}

/** These answers say more than a lease knows. */
const mayLease = ({ dryRun, explain }: LocalOptions): boolean => dryRun !== true && explain !== true;

function isEmpty(consumption: Consumption): boolean {
  for (const _ in consumption) return false;
  return true;
}
