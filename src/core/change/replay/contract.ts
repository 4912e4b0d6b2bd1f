import { sum, total } from "../../exact.ts";
import { costOfUnits, deniesSettlement, firstDenying } from "../../pricing/budget-decision.ts";
import { budgetTermsOf } from "../../pricing/budget-terms.ts";
import type { Budget } from "../../pricing/budgets.ts";
import { creditTermsOf, type Rates } from "../../pricing/credits.ts";
import { decideConsumption, offReasonOf } from "../../pricing/decide.ts";
import { type Evaluation, involvedLimits } from "../../pricing/evaluate.ts";
import { limitValue, locateFeature } from "../../pricing/evaluation.ts";
import { isBound } from "../../pricing/model.ts";
import type { Steps } from "../../steps.ts";
import { ActualContract } from "./actual.ts";
import { add, Balances, type LevelTerms, type ReplayedLevel } from "./balances.ts";
import { ReplayedBudgets, type ReplayedPart } from "./budgets.ts";
import { type Call, callsOf, pricedAmount, unitCosts } from "./calls.ts";
import { Entitled, type ReplaySetting, type Resolve, SharedTerms } from "./entitled.ts";
import { type ContractRecord, type Placement, placementKey } from "./record.ts";
import { levelsOf } from "./levels.ts";
import { Reverts } from "./reverts.ts";
import type { RecordedHold, RecordedMovement, RecordedTerms } from "./record.ts";

/** Reason why a replayed call is denied. `gone`: the target lacks the feature or a limit of the call. */
export type DenialReason = "LIMIT_REACHED" | "NOT_GRANTED" | "BUDGET_REACHED" | "gone";

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

/** A granted call has what it counts: limit ids, and what it takes of budgets. */
type Decided =
  | { readonly ids: ReadonlySet<string>; readonly budgets: readonly ReplayedPart[] }
  | { readonly reason: DenialReason };

/** A change at a moment, other than a call. */
interface Event {
  readonly at: number;
  readonly run: () => void;
}

/** A hold that the target granted, with what it holds of budgets. */
interface OpenHold {
  readonly hold: RecordedHold;
  readonly budgets: readonly ReplayedPart[];
}

/** A call to decide. */
interface Decision extends Pick<Call, "spender"> {
  readonly featureId: string;
  readonly amounts: Readonly<Record<string, number>>;
  readonly at: number;
  readonly usedAt: number;
  /** Also denies amounts that do not fit into a limit. */
  readonly strict: boolean;
  /** Movements with units, for budgets that count some of them. */
  readonly rows: readonly RecordedMovement[];
}

/** Replays one contract under the target. `Findings` receive each call in the range. */
export class ContractReplay {
  readonly balances = new Balances();
  readonly #setting: ReplaySetting;
  readonly #record: ContractRecord;
  readonly #findings: Findings;
  readonly #shared: SharedTerms;
  readonly #budgets: ReplayedBudgets;
  readonly #reverts: Reverts;
  readonly #openHolds = new Map<string, OpenHold>();
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
    this.#budgets = new ReplayedBudgets(record.budgets ?? []);
    this.#reverts = new Reverts(record.movements);
  }

  *run(): Steps<void> {
    const { from, to } = this.#setting;
    const others = this.#otherEvents();
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

  /** Lists events other than calls, in order; of one moment, terms come first. */
  #otherEvents(): Event[] {
    const { from, to } = this.#setting;
    const { terms, blocks, holds } = this.#record;
    const others: Event[] = [];
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
    return others.toSorted((one, other) => one.at - other.at);
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
    const { serviceId, target } = this.#setting;
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
    for (const level of levelsOf(terms, this.#setting, since)) {
      kept.add(`${level.serviceId} ${level.limitName}`);
      if (this.balances.level(level.serviceId, level.limitName) === undefined) this.balances.put(level);
    }
    this.balances.keepOnly((level) => kept.has(`${level.serviceId} ${level.limitName}`));
    this.#budgets.enter(terms, this.balances.levels.values(), (service) => {
      const pricing = service.serviceId === serviceId ? target : this.#setting.pricings.get(service.hash);
      return pricing === undefined ? [] : budgetTermsOf(pricing.pricing);
    });
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
      if (kind === "revert") this.#change(level, { consumed: this.#reverts.revert(row, level, this.#budgets) });
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
    const priced = rows.map((row) => (this.#isPriced(row) ? pricedAmount(row, this.#ratesOf(row)) : row[5]));
    for (const [index, [, serviceId, limitName, , , recorded]] of rows.entries()) {
      const id = this.#idOf({ serviceId, limitName });
      if (id !== undefined) amounts[id] = sum(amounts[id] ?? 0, priced[index] ?? recorded);
    }
    const held = this.#openHolds.get(operationId);
    const evaluation = this.#entitled?.evaluation(this.balances, at);
    const settled = held && evaluation && this.#budgets.current(held.budgets, at, evaluation);
    this.#release(operationId);
    const refused = this.#refusedHolds.get(operationId);
    if (usedAt < at && refused === undefined && this.#isLate(call)) return;
    let decided: Decided = { reason: refused ?? "gone" };
    const isPriced = priced.every((amount) => amount !== undefined);
    if (refused === undefined && evaluation !== undefined && isPriced && !this.#isGone(call, evaluation)) {
      const { spender } = call;
      decided =
        held === undefined
          ? this.#decide(evaluation, { featureId: featureId ?? "", amounts, at, usedAt, strict: false, spender, rows })
          : this.#settle(evaluation, held.hold, { amounts, rows, budgets: settled ?? [] });
    }
    const parts = rows.map(([, serviceId, limitName, , , recorded], index) => {
      const level = this.balances.level(serviceId, limitName);
      const isCounted = "ids" in decided && level !== undefined && decided.ids.has(this.#idOf(level) ?? "");
      const counted = isCounted ? (priced[index] ?? recorded) : 0;
      if (isCounted) this.#change(level, { consumed: counted });
      return { serviceId, limitName, recorded, resets: level?.resets ?? 0, counted };
    });
    const budgets = "ids" in decided ? decided.budgets : [];
    for (const part of budgets) this.#budgets.move(part, { used: part.amount });
    this.#reverts.keep({ featureId, parts, budgets }, { operationId, revertedAt: rows[0]?.[8] });
    if (!isInRange) return;
    if ("ids" in decided) this.#findings.counted(usedAt);
    else this.#findings.denied({ at: usedAt, group: this.#placement?.group, reason: decided.reason, amounts });
  }

  /** True if a movement names units of the replaced service, which the target prices. */
  #isPriced(row: RecordedMovement): boolean {
    return row[9] !== null && row[1] === this.#setting.serviceId;
  }

  #ratesOf([, serviceId, limitName]: RecordedMovement): Rates | undefined {
    if (serviceId !== this.#setting.serviceId) return undefined;
    return creditTermsOf(this.#setting.target.pricing).rates.get(limitName);
  }

  /** Returns what units with this beginning cost in the movements of one limit. */
  #costOfUnits(rows: readonly RecordedMovement[], { serviceId, limitName }: Budget, beginning: string): number {
    const those = rows.filter((row) => row[1] === serviceId && row[2] === limitName);
    return total(those.map((row) => costOfUnits(unitCosts(row, this.#ratesOf(row)), beginning)));
  }

  /** Settles a hold that the target granted: up to the held amounts always, and more within numeric limits and budgets. */
  #settle(
    evaluation: Evaluation,
    hold: RecordedHold,
    { amounts, rows, budgets }: Pick<Decision, "amounts" | "rows"> & { budgets: readonly ReplayedPart[] },
  ): Decided {
    const isAbove = hold.amounts.some(({ serviceId, limitName, amount: held }) => {
      const id = this.#idOf({ serviceId, limitName }) ?? "";
      const [limit, amount] = [limitValue(evaluation, id), amounts[id] ?? 0];
      return isBound(limit) && amount > held && sum(this.#usage.get(id) ?? 0, amount) > limit;
    });
    if (isAbove) return { reason: "LIMIT_REACHED" };
    const counted = budgets.map((part): ReplayedPart => {
      const { budget } = part.fit;
      const all = amounts[part.id] ?? 0;
      if (budget.unit === null) return { ...part, amount: all };
      const hasUnits = rows.some(([, , , , , , , , , units]) => units !== null);
      const amount = hasUnits ? this.#costOfUnits(rows, budget, budget.unit) : Math.min(part.amount, all);
      return { ...part, amount };
    });
    const isDenied = budgets.some((part, index) => deniesSettlement(part, counted[index]?.amount ?? 0));
    return isDenied ? { reason: "BUDGET_REACHED" } : { ids: new Set(Object.keys(amounts)), budgets: counted };
  }

  /** Decides a call by the expression that decided it in reality, and by the budgets that fit its spender. */
  #decide(evaluation: Evaluation, call: Decision): Decided {
    const { featureId, amounts, at, strict } = call;
    const feature = locateFeature(evaluation, featureId)?.feature;
    const mode = feature?.client === feature?.server ? { server: false } : this.#actual.modeOf(featureId, at);
    // A limit that only the target has is not consumed: nobody reported it.
    const expected: Record<string, number> = {};
    const involved = involvedLimits(evaluation, featureId, mode);
    for (const { id } of involved) expected[id] = amounts[id] ?? 0;
    const { result } = decideConsumption(evaluation, this.#usage, { featureId, expected, mode, strict });
    if (!result.eval || result.error !== null)
      return { reason: offReasonOf(evaluation, this.#usage, featureId, { mode, used: result.used }) };
    const budgets = this.#budgets.isEmpty
      ? []
      : this.#budgetParts(evaluation, involved, { ...call, amounts: expected });
    if (firstDenying(budgets) !== undefined) return { reason: "BUDGET_REACHED" };
    return { ids: new Set(Object.keys(expected)), budgets };
  }

  #budgetParts(evaluation: Evaluation, involved: ReturnType<typeof involvedLimits>, call: Decision): ReplayedPart[] {
    const levels = involved.flatMap(({ id, serviceName, limitName }) => {
      const serviceId = this.#terms?.services.find(({ key }) => key === serviceName)?.serviceId;
      const level = serviceId === undefined ? undefined : this.balances.level(serviceId, limitName);
      return level === undefined ? [] : [{ id, level }];
    });
    const costOf = (budget: Budget, beginning: string) => this.#costOfUnits(call.rows, budget, beginning);
    return this.#budgets.parts(levels, { ...call, evaluation, costOfUnits: costOf });
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

  #take(hold: RecordedHold, isEarlier: boolean): void {
    if (!this.#isOfService(hold.featureId)) return;
    const amounts: Record<string, number> = {};
    for (const { serviceId, limitName, amount } of hold.amounts) {
      const id = this.#idOf({ serviceId, limitName });
      if (id !== undefined) amounts[id] = amount;
    }
    const evaluation = this.#entitled?.evaluation(this.balances, this.#now);
    const rows = hold.amounts.map(({ serviceId, limitName }) => ["consume", serviceId, limitName] as const);
    const decided: Decided =
      evaluation === undefined || this.#isGone({ featureId: hold.featureId, rows }, evaluation)
        ? { reason: "gone" }
        : this.#decide(evaluation, {
            featureId: hold.featureId,
            amounts,
            at: this.#now,
            usedAt: this.#now,
            strict: true,
            spender: hold.spender ?? null,
            rows: [],
          });
    // One of before the range was granted already.
    if ("reason" in decided && !isEarlier) {
      this.#refusedHolds.set(hold.id, decided.reason);
      return;
    }
    const open = { hold, budgets: "ids" in decided ? decided.budgets : [] };
    this.#openHolds.set(hold.id, open);
    this.#hold(open, 1);
  }

  /** Gives back what a hold holds, if it is open. */
  #release(id: string): void {
    const open = this.#openHolds.get(id);
    if (open === undefined) return;
    this.#openHolds.delete(id);
    this.#hold(open, -1);
  }

  #hold({ hold: { amounts }, budgets }: OpenHold, sign: 1 | -1): void {
    for (const { serviceId, limitName, amount } of amounts) {
      const level = this.balances.level(serviceId, limitName);
      if (level !== undefined) this.#change(level, { held: sign * amount });
    }
    for (const part of budgets) this.#budgets.hold(part, sign * part.amount);
  }
}
