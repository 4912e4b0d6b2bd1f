import { isObject } from "../pricing-token.ts";
import { ServiceRequestError } from "../service-request-error.ts";
import type { FeatureId } from "../feature-id.ts";
import { type Spender, spenderPath } from "./budgets.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import type { Consumption } from "./evaluation-options.ts";
import { type Hold, type HoldAnswer, isHold, type SettleAnswer } from "./holds.ts";
import { instant } from "./subscription.ts";
import { type RecorderOptions, UsageRecorder } from "./recorder.ts";
import { type CallOptions, type CountedOptions, segment, type Transport } from "./transport.ts";
import {
  isRecorded,
  isReport,
  type RecordedUsage,
  type RecordingOptions,
  type RecordOptions,
  type UsageItem,
  type UsageQuery,
  type UsageReport,
} from "./usage-items.ts";

/** Options of a hold. */
export interface HoldOptions extends CountedOptions {
  /** Amount per `{service}-{limit}`, for all limits of the feature. */
  consumption: Consumption;
  /** ISO 8601, from `PT1S` to `PT24H`. */
  duration: string;
  /** Gives the amounts back, or counts them, if nobody ends the hold. Default: release. */
  onExpiry?: "release" | "consume" | undefined;
  /** Evaluates server expressions where features have them. */
  server?: boolean | undefined;
  /** Adds `reason`, `held` and `sources` to the answer. */
  explain?: boolean | undefined;
  /** The one who spends, whose budgets count it. Default: nobody. */
  spender?: Spender | undefined;
  /** Holds less where less is left. Default: all or nothing. */
  partial?: boolean | undefined;
}

/** Report of what the work of an open hold took so far. */
export interface HoldReport {
  /** Totals since the hold was taken, for each limit of the hold. */
  readonly spent: Consumption;
  /** Amounts to be left after the call: less at once, more as far as it fits. Default: what is left. */
  readonly amounts?: Consumption | undefined;
  /** Extends the hold to so long from now, in ISO 8601. */
  readonly for?: string | undefined;
}

/** Options of calls that count amounts of a hold. */
export interface ReportOptions extends CountedOptions {
  /** Marks the movements as estimates. Default: false. */
  estimated?: boolean | undefined;
}

/** Ended holds that are remembered, so that leaving their block sends no call. */
const ENDED_KEPT = 1000;

const MAX_ITEMS = 1000;

/**
 * Reserves usage and settles it later, records usage in batches, and reads it back. Needs a key of any scope, and of scope
 * MANAGEMENT to read. Source: contract usage-records.
 */
export class Usage {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;
  private readonly ended = new Set<string>();

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /**
   * Sets amounts aside for work whose cost is known later, never above a limit. Retries carry the same idempotency key, so
   * they are held once. Rejects in an outage.
   * @throws ServiceRequestError with status 409 if too many holds are open; with the code BAD_RESPONSE from a service
   * without holds, which counted the amounts instead.
   */
  async hold(userId: string, featureId: FeatureId, options: HoldOptions): Promise<HoldAnswer> {
    const { consumption: body, duration, onExpiry, server, explain, partial } = options;
    const { idempotencyKey = crypto.randomUUID() } = options;
    const path = `/features${segment("userId", userId)}${segment("featureId", featureId)}`;
    const query = { hold: duration, onExpiry, server, explain, partial, spender: spenderPath(options.spender) };
    const call = { method: "POST", path, query, body, idempotencyKey } as const;
    const answer = await this.transport.ask(call, isHoldAnswer, options);
    this.fallbackCache.evict(userId);
    return this.disposable({ ...answer, idempotencyKey });
  }

  /**
   * Counts what the work took, for each limit of the hold, and gives the rest back. Amounts up to the held ones are always
   * counted. With more than fits, `eval` is false and the hold stays open.
   * @throws ServiceRequestError with status 404 for an unknown hold, 409 for one that has ended.
   */
  async settle(holdId: string, amounts: Consumption, options: ReportOptions = {}): Promise<SettleAnswer> {
    const { idempotencyKey = crypto.randomUUID(), estimated } = options;
    const call = { method: "POST", path: pathOf(holdId), query: { estimated }, body: amounts, idempotencyKey } as const;
    const answer = await this.transport.ask(call, isSettleAnswer, options);
    if (answer.eval) this.noteEnd(holdId);
    this.fallbackCache.evict(answer.hold.userId);
    return answer;
  }

  /**
   * Counts what is new of the totals of an open hold, and keeps holding the rest. Repeated and late reports change nothing.
   * With more than fits, `eval` is false and nothing is counted. A settlement then names the total.
   * @throws ServiceRequestError with status 404 for an unknown hold, 409 for one that has ended.
   */
  async keep(holdId: string, report: HoldReport, options: ReportOptions = {}): Promise<SettleAnswer> {
    const query = { keep: true, estimated: options.estimated };
    // Totals make repeating the call safe, as for a read.
    const call = { method: "POST", path: pathOf(holdId), query, body: report, isRead: true } as const;
    const answer = await this.transport.ask(call, isSettleAnswer, options);
    this.fallbackCache.evict(answer.hold.userId);
    return answer;
  }

  /** Keeps a hold open for so long from now, at most 24 hours from its creation. Never shortens it. */
  async extend(holdId: string, duration: string, options: CountedOptions = {}): Promise<Hold> {
    const { idempotencyKey = crypto.randomUUID() } = options;
    const call = { method: "POST", path: pathOf(holdId), query: { extend: duration }, idempotencyKey } as const;
    return this.transport.ask(call, isHold, options);
  }

  /** Gives everything back. Does nothing for a hold that was released before. */
  async release(holdId: string, options: CountedOptions = {}): Promise<void> {
    const { idempotencyKey = crypto.randomUUID() } = options;
    await this.transport.send({ method: "DELETE", path: pathOf(holdId), idempotencyKey }, options);
    this.noteEnd(holdId);
  }

  /**
   * Counts up to 1,000 items, each with its own verdict. Retries send the same keys, so each item counts once. Rejects in an
   * outage: some items may be counted then, and the same keys again are safe.
   */
  async record(items: readonly UsageItem[], options: RecordOptions = {}): Promise<RecordedUsage> {
    if (items.length > MAX_ITEMS) throw new Error(`A batch has at most ${MAX_ITEMS} items`);
    const { strict, server, late } = options;
    const body = items.map(({ key = crypto.randomUUID(), at, spender, ...item }) => ({
      ...item,
      key,
      ...(spender === undefined ? {} : { spender: spenderPath(spender) }),
      ...(at === undefined ? {} : { at: instant(at) }),
    }));
    const call = { method: "POST", path: "/usage", query: { strict, server, late }, body, isRead: true } as const;
    const recorded = await this.transport.ask(call, isRecorded, options);
    for (const { userId } of items) this.fallbackCache.evict(userId);
    return recorded;
  }

  /** Creates a recorder, which batches items by number and time, and repeats batches until they are recorded. */
  recorder(options: RecorderOptions & RecordingOptions = {}): UsageRecorder {
    const { strict, server, late } = options;
    return new UsageRecorder((items) => this.record(items, { strict, server, late }), options);
  }

  /**
   * Sums the usage of one contract, or lists its movements.
   * @throws ServiceRequestError with status 400 before the start of the record, 404 without contract.
   */
  async ofContract(userId: string, query: UsageQuery = {}, options?: CallOptions): Promise<UsageReport> {
    return this.report(`/contracts${segment("userId", userId)}/usage`, query, options);
  }

  /** Sums the usage of all contracts, by day, feature or user. */
  async ofOrganization(query: Omit<UsageQuery, "before"> = {}, options?: CallOptions): Promise<UsageReport> {
    return this.report("/usage", query, options);
  }

  private report(path: string, { from, to, ...rest }: UsageQuery, options?: CallOptions): Promise<UsageReport> {
    const query = {
      ...rest,
      from: from === undefined ? undefined : instant(from),
      to: to === undefined ? undefined : instant(to),
    };
    return this.transport.ask({ method: "GET", path, query }, isReport, options);
  }

  private noteEnd(holdId: string): void {
    this.ended.add(holdId);
    for (const oldest of this.ended) {
      if (this.ended.size <= ENDED_KEPT) return;
      this.ended.delete(oldest);
    }
  }

  private disposable<Answer extends HoldAnswer>(answer: Answer): Answer {
    const { asyncDispose } = Symbol as { asyncDispose?: symbol };
    const { hold } = answer;
    if (asyncDispose === undefined) return answer;
    const dispose = async () => {
      if (hold === null || this.ended.has(hold.id)) return;
      // A hold that cannot be released expires by itself; an error would hide the one that left the block.
      await this.release(hold.id).catch((error: unknown) => {
        if (!(error instanceof ServiceRequestError)) throw error;
      });
    };
    return Object.defineProperty(answer, asyncDispose, { value: dispose });
  }
}

const pathOf = (holdId: string) => `/holds${segment("holdId", holdId)}`;

function isHoldAnswer(value: unknown): value is Omit<HoldAnswer, "idempotencyKey"> {
  return isObject(value) && typeof value["eval"] === "boolean" && "hold" in value;
}

function isSettleAnswer(value: unknown): value is SettleAnswer {
  return isObject(value) && typeof value["eval"] === "boolean" && isHold(value["hold"]);
}
