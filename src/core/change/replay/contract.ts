import { sum, sumOfProducts } from "../../exact.ts";
import { nextBoundary } from "../../period.ts";
import { trackedLimits } from "../../pricing/compile.ts";
import { creditTermsOf } from "../../pricing/credits.ts";
import { decideConsumption, offReasonOf } from "../../pricing/decide.ts";
import { type Evaluation, involvedLimits } from "../../pricing/evaluate.ts";
import { limitValue, locateFeature } from "../../pricing/evaluation.ts";
import { isBound } from "../../pricing/model.ts";
import type { Steps } from "../../steps.ts";
import { ActualContract } from "./actual.ts";
import { add, Balances, type LevelTerms, type ReplayedLevel } from "./balances.ts";
import { Entitled, type ReplaySetting, type Resolve, SharedTerms } from "./entitled.ts";
import { type ContractRecord, type Placement, placementKey } from "./record.ts";
import type { RecordedHold, RecordedLevel, RecordedMovement, RecordedTerms } from "./record.ts";

/** Reason why a replayed call is denied. `gone`: the target lacks the feature or a limit of the call. */
export type DenialReason = "LIMIT_REACHED" | "NOT_GRANTED" | "gone";

/** Receives what a replay finds of one contract. */
export interface Findings {
  counted(at: number): void;
  denied(denial: {
    /** Moment of use. */
    at: number;
    group: number | undefined;
    reason: DenialReason;
    /** By limit id: what the call would have consumed. */
    amounts: Readonly<Record<string, number>>;
  }): void;
}

/** Movements of one call, which are decided together. */
interface Call {
  readonly kind: RecordedMovement[0];
  readonly featureId: string | null;
  readonly operationId: string;
  readonly at: number;
  readonly usedAt: number;
  readonly rows: RecordedMovement[];
}

/** A call that is reverted later: what the replay counted of each level, and what the ledger did. */
interface Reverted {
  readonly featureId: string | null;
  readonly parts: {
    readonly serviceId: string;
    readonly limitName: string;
    readonly recorded: number;
    /** Number of resets of the level at the call. */
    readonly resets: number;
    counted: number;
  }[];
}

type Decided = { readonly ids: ReadonlySet<string> } | { readonly reason: DenialReason };

/** Replays one contract under the target. `Findings` receive each call in the range. */
export class ContractReplay {
  readonly balances = new Balances();
  readonly #setting: ReplaySetting;
  readonly #record: ContractRecord;
  readonly #findings: Findings;
  readonly #shared: SharedTerms;
  /** Operations that are given back in part, such as leases that end early. */
  readonly #givenBack: ReadonlySet<string>;
  /** Calls that are reverted, by the moment of the revert, and by operation. */
  readonly #reverted = new Map<number | string, Reverted[]>();
  readonly #openHolds = new Map<string, RecordedHold>();
  /** Holds that the target refuses, with the reason. */
  readonly #refusedHolds = new Map<string, DenialReason>();
  readonly #actual: ActualContract;
  #terms: RecordedTerms | undefined;
  /** Undefined while the contract lacks the service. */
  #placement: Placement | undefined;
  #entitled: Entitled | undefined;
  #now = -Infinity;
  readonly #usage = new Map<string, number>();

  constructor(setting: ReplaySetting, record: ContractRecord, findings: Findings, shared = new SharedTerms()) {
    this.#setting = setting;
    this.#record = record;
    this.#findings = findings;
    this.#shared = shared;
    this.#actual = new ActualContract(setting, shared);
    this.#givenBack = new Set(record.movements.flatMap(([kind, , , , id]) => (kind === "revert" ? [id] : [])));
  }

  *run(): Steps<void> {
    const { from, to } = this.#setting;
    const { terms, blocks, holds } = this.#record;
    /** Events other than calls, in order; of one moment, terms come first. */
    const others: { at: number; run: () => void }[] = [];
    for (const [index, each] of terms.entries()) {
      const isFirst = index === 0 && each.since <= from;
      others.push({ at: isFirst ? -Infinity : each.since, run: () => this.#enter(each, isFirst ? from : each.since) });
    }
    for (const block of blocks) {
      const { left, from: opens, createdAt, expiresAt, revokedAt } = block;
      const known = {
        id: block.id,
        serviceId: block.serviceId,
        limitName: block.limitName,
        origin: block.origin,
        left,
      };
      const dates = { from: new Date(opens), createdAt: new Date(createdAt), drawn: block.drawn, resetsLeft: null };
      const added = { ...known, ...dates, expiresAt: expiresAt === null ? null : new Date(expiresAt) };
      others.push({ at: Math.max(createdAt, from), run: () => this.balances.addBlock(added) });
      if (revokedAt !== null && revokedAt < to)
        others.push({
          at: revokedAt,
          run: () => this.balances.revoke(block.id, new Date(revokedAt), this.#levelTerms),
        });
    }
    for (const hold of holds) {
      others.push({ at: Math.max(hold.createdAt, from), run: () => this.#take(hold, hold.createdAt < from) });
      if (hold.endedAt < to) others.push({ at: hold.endedAt, run: () => this.#release(hold.id) });
    }
    others.sort((one, other) => one.at - other.at);
    let next = 0;
    const runUntil = (moment: number) => {
      for (let event = others[next]; event !== undefined && event.at <= moment; event = others[(next += 1)]) {
        this.#advance(Math.max(event.at, from));
        event.run();
      }
    };
    let steps = 0;
    for (const call of callsOf(this.#record.movements)) {
      if (call.usedAt >= to) continue;
      const at = Math.min(Math.max(call.at, from), to - 1);
      runUntil(call.operationId !== "" && this.#openHolds.has(call.operationId) ? at - 1 : at);
      this.#advance(at);
      this.#apply(call, at);
      for (const row of call.rows) this.#actual.move(row);
      if ((steps += 1) % 64 === 0) yield;
    }
    runUntil(to - 1);
    this.#advance(to - 1);
  }

  #advance(moment: number): void {
    this.#now = Math.max(this.#now, moment);
    if (this.balances.advance(new Date(this.#now), this.#levelTerms)) this.#readUsage();
  }

  readonly #levelTerms: LevelTerms = {
    granted: ({ serviceId, limitName }, at) => {
      const name = this.#terms?.services.find((service) => service.serviceId === serviceId)?.key;
      const services = this.#entitled?.plain(at.getTime()).services;
      return services?.find(({ serviceName }) => serviceName === name)?.grant.usageLimits.get(limitName);
    },
    rollover: ({ serviceId, limitName }) =>
      serviceId === this.#setting.serviceId
        ? creditTermsOf(this.#setting.target.pricing).rollover.get(limitName)
        : undefined,
  };

  /** Enters new terms: levels that both have keep their balance. */
  #enter(terms: RecordedTerms, since: number): void {
    const { serviceId, target, from } = this.#setting;
    this.#terms = terms;
    this.#placement = undefined;
    this.#actual.enter(terms);
    const resolve: Resolve = (service) => {
      if (service.serviceId !== serviceId) {
        const pricing = this.#setting.pricings.get(service.hash);
        return pricing && { pricing, configuration: this.#shared.configuration(service) };
      }
      this.#placement = this.#setting.placements.get(placementKey(service));
      const configuration = this.#placement?.target;
      return configuration && { pricing: target, configuration };
    };
    this.#entitled = new Entitled(terms, this.#shared, resolve, serviceId);
    const kept = new Set<string>();
    const put = (level: Omit<ReplayedLevel, "held" | "resets" | "runningSince">) => {
      kept.add(`${level.serviceId} ${level.limitName}`);
      if (this.balances.level(level.serviceId, level.limitName) !== undefined) return;
      this.balances.put({ ...level, held: 0, resets: 0, runningSince: since });
    };
    if (terms.services.some((service) => service.serviceId === serviceId)) {
      for (const { name, period } of trackedLimits(target)) {
        const recorded = terms.levels.find((level) => level.serviceId === serviceId && level.limitName === name);
        const limit = { serviceId, limitName: name, consumed: consumedOf(recorded, from) };
        if (period === undefined) put({ ...limit, anchor: null, period: null, resetAt: null });
        else {
          const anchor = new Date(recorded?.anchor ?? (since > from ? since : terms.startDate));
          const isSame = recorded?.periodUnit === period.unit && Number(recorded.periodValue) === period.value;
          const recordedReset = isSame && recorded.resetAt !== null ? Date.parse(recorded.resetAt) : -Infinity;
          const resetAt =
            recordedReset >= since
              ? new Date(recordedReset)
              : nextBoundary(anchor, period, new Date(Math.max(since, anchor.getTime()) - 1));
          put({ ...limit, anchor, period, resetAt });
        }
      }
    }
    // The movements of other services say when these reset.
    for (const level of terms.levels) {
      if (level.serviceId === serviceId) continue;
      const { limitName } = level;
      const consumed = consumedOf(level, from);
      put({ serviceId: level.serviceId, limitName, consumed, anchor: null, period: null, resetAt: null });
    }
    this.balances.keepOnly((level) => kept.has(`${level.serviceId} ${level.limitName}`));
    this.#readUsage();
  }

  #idOf({ serviceId, limitName }: Pick<ReplayedLevel, "serviceId" | "limitName">): string | undefined {
    const service = this.#terms?.services.find((one) => one.serviceId === serviceId);
    return service && `${service.key}-${limitName}`;
  }

  #readUsage(): void {
    this.#usage.clear();
    for (const level of this.balances.levels.values()) {
      const id = this.#idOf(level);
      if (id !== undefined) this.#usage.set(id, level.held > 0 ? sum(level.consumed, level.held) : level.consumed);
    }
  }

  #change(level: ReplayedLevel, change: { consumed?: number; held?: number }): void {
    if (change.consumed !== undefined) add(level, change.consumed);
    if (change.held !== undefined) level.held = Math.max(0, sum(level.held, change.held));
    const id = this.#idOf(level);
    if (id !== undefined) this.#usage.set(id, level.held > 0 ? sum(level.consumed, level.held) : level.consumed);
  }

  /** True if the call asks for a feature of the replaced service. */
  #isOfService(featureId: string | null): boolean {
    const services = this.#terms?.services ?? [];
    let longest: { serviceId: string; key: string } | undefined;
    for (const service of services) {
      const fits = featureId?.startsWith(`${service.key}-`) === true;
      if (fits && service.key.length > (longest?.key.length ?? 0)) longest = service;
    }
    return longest !== undefined && longest.serviceId === this.#setting.serviceId;
  }

  #apply(call: Call, at: number): void {
    if (call.kind === "consume" && this.#isOfService(call.featureId)) return this.#consume(call, at);
    for (const row of call.rows) {
      const [kind, serviceId, limitName, , , amount] = row;
      const level = this.balances.level(serviceId, limitName);
      if (level === undefined) continue;
      const isReplaced = serviceId === this.#setting.serviceId;
      if (kind === "revert") this.#revert(row, level);
      else if (kind === "reset" && isReplaced) {
        this.balances.resetByHand(level, new Date(at), this.#levelTerms);
        this.#readUsage();
      } else if (kind === "adjust" || kind === "consume" || (!isReplaced && kind !== "late"))
        this.#change(level, { consumed: amount });
    }
  }

  #consume(call: Call, at: number): void {
    const { featureId, operationId, usedAt, rows } = call;
    const isInRange = usedAt >= this.#setting.from;
    const amounts: Record<string, number> = {};
    const priced = rows.map((row) => this.#pricedAmount(row));
    for (const [index, [, serviceId, limitName, , , recorded]] of rows.entries()) {
      const id = this.#idOf({ serviceId, limitName });
      if (id !== undefined) amounts[id] = sum(amounts[id] ?? 0, priced[index] ?? recorded);
    }
    const hold = this.#openHolds.get(operationId);
    this.#release(operationId);
    const evaluation = this.#entitled?.evaluation(this.balances, at);
    const refused = this.#refusedHolds.get(operationId);
    if (usedAt < at && refused === undefined && this.#isLate(call)) return;
    let decided: Decided = { reason: refused ?? "gone" };
    const isPriced = priced.every((amount) => amount !== undefined);
    // Budgets would be asked here, by the spender of the call: they are not replayed.
    if (refused === undefined && evaluation !== undefined && isPriced && !this.#isGone(call, evaluation)) {
      decided =
        hold === undefined
          ? this.#decide(evaluation, featureId ?? "", amounts, { at, strict: false })
          : this.#settle(evaluation, hold, amounts);
    }
    const parts = rows.map(([, serviceId, limitName, , , recorded], index) => {
      const level = this.balances.level(serviceId, limitName);
      const isCounted = "ids" in decided && level !== undefined && decided.ids.has(this.#idOf(level) ?? "");
      const counted = isCounted ? (priced[index] ?? recorded) : 0;
      if (isCounted) this.#change(level, { consumed: counted });
      return { serviceId, limitName, recorded, resets: level?.resets ?? 0, counted };
    });
    const revertedAt = rows[0]?.[8] ?? undefined;
    const reverted = { featureId, parts };
    for (const key of [revertedAt, this.#givenBack.has(operationId) ? operationId : undefined])
      if (key !== undefined) this.#reverted.set(key, [...(this.#reverted.get(key) ?? []), reverted]);
    if (!isInRange) return;
    if ("ids" in decided) this.#findings.counted(usedAt);
    else this.#findings.denied({ at: usedAt, group: this.#placement?.group, reason: decided.reason, amounts });
  }

  /** Returns what a movement costs under the target. Undefined if its units have no rate there. */
  #pricedAmount([, serviceId, limitName, , , recorded, , , , units]: RecordedMovement): number | undefined {
    if (units === null || serviceId !== this.#setting.serviceId) return recorded;
    const rates = creditTermsOf(this.#setting.target.pricing).rates.get(limitName);
    const products: (readonly [number, number])[] = [];
    for (const [unit, [number]] of Object.entries(units)) {
      const rate = rates?.get(unit);
      if (rate === undefined) return undefined;
      products.push([number, rate]);
    }
    return sumOfProducts(products);
  }

  /** Settles a hold that the target granted: up to the held amounts always, and more within numeric limits. */
  #settle(evaluation: Evaluation, hold: RecordedHold, amounts: Readonly<Record<string, number>>): Decided {
    const isAbove = hold.amounts.some(({ serviceId, limitName, amount: held }) => {
      const id = this.#idOf({ serviceId, limitName }) ?? "";
      const [limit, amount] = [limitValue(evaluation, id), amounts[id] ?? 0];
      return isBound(limit) && amount > held && sum(this.#usage.get(id) ?? 0, amount) > limit;
    });
    return isAbove ? { reason: "LIMIT_REACHED" } : { ids: new Set(Object.keys(amounts)) };
  }

  /** Decides a call by the expression that decided it in reality. */
  #decide(
    evaluation: Evaluation,
    featureId: string,
    amounts: Readonly<Record<string, number>>,
    { at, strict }: { at: number; strict: boolean },
  ): Decided {
    const feature = locateFeature(evaluation, featureId)?.feature;
    const mode = feature?.client === feature?.server ? { server: false } : this.#actual.modeOf(featureId, at);
    // A limit that only the target has is not consumed: nobody reported it.
    const expected: Record<string, number> = {};
    for (const { id } of involvedLimits(evaluation, featureId, mode)) expected[id] = amounts[id] ?? 0;
    const { result } = decideConsumption(evaluation, this.#usage, { featureId, expected, mode, strict });
    if (result.eval && result.error === null) return { ids: new Set(Object.keys(expected)) };
    return { reason: offReasonOf(evaluation, this.#usage, featureId, { mode, used: result.used }) };
  }

  /** True if the target lacks the feature, or a limit that the call consumed. */
  #isGone(
    {
      featureId,
      rows,
    }: { featureId: string | null; rows: readonly (readonly [unknown, string, string, ...unknown[]])[] },
    evaluation: Evaluation,
  ): boolean {
    const { serviceId, target } = this.#setting;
    if (featureId === null || locateFeature(evaluation, featureId) === undefined) return true;
    return rows.some(([, of, limitName]) => of === serviceId && !target.usageLimits.has(limitName));
  }

  /** True if the moment of use precedes the running period of a limit of the call: late usage moves no balance. */
  #isLate({ usedAt, rows }: Call): boolean {
    return rows.some(([, serviceId, limitName]) => {
      const level = this.balances.level(serviceId, limitName);
      return level !== undefined && level.runningSince > this.#setting.from && usedAt < level.runningSince;
    });
  }

  /** Gives back what the replay counted for the reverted calls, and what was counted before the range. */
  #revert([, serviceId, limitName, featureId, operationId, amount, at]: RecordedMovement, level: ReplayedLevel): void {
    const isPart = this.#reverted.has(operationId);
    const calls = this.#reverted.get(isPart ? operationId : at) ?? [];
    let earlier = -amount;
    for (const call of calls) {
      if (call.featureId !== featureId) continue;
      for (const part of call.parts) {
        if (part.serviceId !== serviceId || part.limitName !== limitName) continue;
        const given = isPart ? Math.min(-amount, part.counted) : part.counted;
        earlier = isPart ? 0 : sum(earlier, -part.recorded);
        if (part.resets === level.resets) this.#change(level, { consumed: -given });
        part.counted = sum(part.counted, -given);
      }
    }
    if (earlier > 0 && level.resets === 0) this.#change(level, { consumed: -earlier });
  }

  #take(hold: RecordedHold, isEarlier: boolean): void {
    if (!this.#isOfService(hold.featureId)) return;
    const amounts: Record<string, number> = {};
    for (const { serviceId, limitName, amount } of hold.amounts) {
      const id = this.#idOf({ serviceId, limitName });
      if (id !== undefined) amounts[id] = amount;
    }
    if (!isEarlier) {
      const evaluation = this.#entitled?.evaluation(this.balances, this.#now);
      const rows = hold.amounts.map(({ serviceId, limitName }) => ["consume", serviceId, limitName] as const);
      const decided: Decided =
        evaluation === undefined || this.#isGone({ featureId: hold.featureId, rows }, evaluation)
          ? { reason: "gone" }
          : this.#decide(evaluation, hold.featureId, amounts, { at: this.#now, strict: true });
      if ("reason" in decided) {
        this.#refusedHolds.set(hold.id, decided.reason);
        return;
      }
    }
    this.#openHolds.set(hold.id, hold);
    this.#hold(hold, 1);
  }

  /** Gives back what a hold holds, if it is open. */
  #release(id: string): void {
    const hold = this.#openHolds.get(id);
    if (hold === undefined) return;
    this.#openHolds.delete(id);
    this.#hold(hold, -1);
  }

  #hold({ amounts }: RecordedHold, sign: 1 | -1): void {
    for (const { serviceId, limitName, amount } of amounts) {
      const level = this.balances.level(serviceId, limitName);
      if (level !== undefined) this.#change(level, { held: sign * amount });
    }
  }
}

/** Balance at the start of the range. A period that was over then had not been reset yet. */
function consumedOf(level: RecordedLevel | undefined, from: number): number {
  if (level?.consumed === undefined) return 0;
  return level.resetAt !== null && Date.parse(level.resetAt) < from ? 0 : level.consumed;
}

/** Groups movements by call: rows of one operation that were written together. */
function* callsOf(movements: readonly RecordedMovement[]): Generator<Call> {
  let call: Call | undefined;
  for (const row of movements) {
    const [kind, , , featureId, operationId, , at, usedAt] = row;
    const isSame =
      call !== undefined &&
      call.operationId === operationId &&
      call.kind === kind &&
      call.featureId === featureId &&
      call.at === at;
    if (call !== undefined && isSame) call.rows.push(row);
    else {
      if (call !== undefined) yield call;
      call = { kind, featureId, operationId, at, usedAt: usedAt ?? at, rows: [row] };
    }
  }
  if (call !== undefined) yield call;
}
