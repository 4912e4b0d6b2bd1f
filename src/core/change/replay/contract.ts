import { sum } from "../../exact.ts";
import { budgetTermsOf } from "../../pricing/budget-terms.ts";
import { creditTermsOf } from "../../pricing/credits.ts";
import type { Steps } from "../../steps.ts";
import { ActualContract } from "./actual.ts";
import { Balances, type LevelTerms } from "./balances.ts";
import { ReplayedBudgets } from "./budgets.ts";
import { type Call, callsOf } from "./calls.ts";
import { type Decided, Decisions, type DenialReason } from "./decision.ts";
import { Entitled, type ReplaySetting, type Resolve, SharedTerms } from "./entitled.ts";
import { type ContractEvent, eventsOf } from "./events.ts";
import { ReplayedHolds } from "./holds.ts";
import { levelsOf } from "./levels.ts";
import { type ContractRecord, type Placement, placementKey, type RecordedHold, type RecordedTerms } from "./record.ts";
import { Reverts } from "./reverts.ts";
import { ReplayedUsage } from "./usage.ts";

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

/** Replays one contract under the target. `Findings` receive each call in the range. */
export class ContractReplay {
  readonly balances = new Balances();
  readonly #setting: ReplaySetting;
  readonly #record: ContractRecord;
  readonly #findings: Findings;
  readonly #shared: SharedTerms;
  readonly #usage = new ReplayedUsage(this.balances);
  readonly #budgets: ReplayedBudgets;
  readonly #holds: ReplayedHolds;
  readonly #reverts: Reverts;
  readonly #actual: ActualContract;
  readonly #decisions: Decisions;
  #terms: RecordedTerms | undefined;
  /** Undefined while the contract lacks the service. */
  #placement: Placement | undefined;
  #entitled: Entitled | undefined;
  #now = -Infinity;

  constructor(setting: ReplaySetting, record: ContractRecord, findings: Findings, shared = new SharedTerms()) {
    this.#setting = setting;
    this.#record = record;
    this.#findings = findings;
    this.#shared = shared;
    this.#actual = new ActualContract(setting, shared);
    this.#budgets = new ReplayedBudgets(record.budgets ?? []);
    this.#reverts = new Reverts(record.movements);
    const [usage, budgets] = [this.#usage, this.#budgets];
    this.#holds = new ReplayedHolds({ balances: this.balances, usage, budgets });
    this.#decisions = new Decisions(setting, { usage, budgets, actual: this.#actual });
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
      runUntil(call.operationId !== "" && this.#holds.get(call.operationId) !== undefined ? at - 1 : at);
      this.#advance(at);
      this.#apply(call, at);
      for (const row of call.rows) this.#actual.move(row);
      if ((steps += 1) % 64 === 0) yield;
    }
    runUntil(to - 1);
    this.#advance(to - 1);
  }

  #otherEvents(): ContractEvent[] {
    return eventsOf(this.#record, this.#setting, {
      enter: (terms, since) => this.#enter(terms, since),
      addBlock: (block) => this.balances.addBlock(block),
      revokeBlock: (id, at) => this.balances.revoke(id, at, this.#levelTerms),
      takeHold: (hold, isEarlier) => this.#takeHold(hold, isEarlier),
      releaseHold: (id) => this.#holds.release(id),
    });
  }

  #advance(moment: number): void {
    this.balances.follow(new Date(this.#now), this.#levelTerms);
    this.#now = Math.max(this.#now, moment);
    if (this.balances.advance(new Date(this.#now), this.#levelTerms)) this.#usage.read();
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
    this.#usage.enter(terms);
  }

  #apply(call: Call, at: number): void {
    if (call.kind === "consume" && this.#isReplaced(call.featureId)) return this.#consume(call, at);
    for (const row of call.rows) {
      const [kind, serviceId, limitName, , , amount] = row;
      const level = this.balances.level(serviceId, limitName);
      if (level === undefined) continue;
      const isReplaced = serviceId === this.#setting.serviceId;
      if (kind === "revert") this.#usage.change(level, { consumed: this.#reverts.revert(row, level, this.#budgets) });
      else if (kind === "reset" && isReplaced) {
        this.balances.resetByHand(level, new Date(at), this.#levelTerms);
        this.#usage.read();
      } else if (kind === "adjust" || kind === "consume" || (!isReplaced && kind !== "late"))
        this.#usage.change(level, { consumed: amount });
    }
  }

  #consume(call: Call, at: number): void {
    const { featureId, operationId, usedAt, rows } = call;
    const isInRange = usedAt >= this.#setting.from;
    const amounts: Record<string, number> = {};
    const priced = rows.map((row) => this.#decisions.amountOf(row));
    for (const [index, [, serviceId, limitName, , , recorded]] of rows.entries()) {
      const id = this.#usage.idOf({ serviceId, limitName });
      if (id !== undefined) amounts[id] = sum(amounts[id] ?? 0, priced[index] ?? recorded);
    }
    const held = this.#holds.get(operationId);
    const evaluation = this.#entitled?.evaluation(this.balances, at);
    const settled = held && evaluation && this.#budgets.current(held.budgets, at, evaluation);
    this.#holds.release(operationId);
    const refused = this.#holds.refusalOf(operationId);
    if (usedAt < at && refused === undefined && this.#isLate(call)) return;
    let decided: Decided = { reason: refused ?? "gone" };
    const isPriced = priced.every((amount) => amount !== undefined);
    const limits = rows.map(([, serviceId, limitName]) => ({ serviceId, limitName }));
    const isPossible = refused === undefined && evaluation !== undefined && isPriced;
    if (isPossible && !this.#decisions.isGone(evaluation, featureId, limits)) {
      const { spender } = call;
      decided =
        held === undefined
          ? this.#decisions.decide(evaluation, {
              featureId: featureId ?? "",
              amounts,
              at,
              usedAt,
              strict: false,
              spender,
              rows,
            })
          : this.#decisions.settle(evaluation, held.hold, { amounts, rows, budgets: settled ?? [] });
    }
    const parts = rows.map(([, serviceId, limitName, , , recorded], index) => {
      const level = this.balances.level(serviceId, limitName);
      const isCounted = "ids" in decided && level !== undefined && decided.ids.has(this.#usage.idOf(level) ?? "");
      const counted = isCounted ? (priced[index] ?? recorded) : 0;
      if (isCounted) this.#usage.change(level, { consumed: counted });
      return { serviceId, limitName, recorded, resets: level?.resets ?? 0, counted };
    });
    const budgets = "ids" in decided ? decided.budgets : [];
    for (const part of budgets) this.#budgets.move(part, { used: part.amount });
    this.#reverts.keep({ featureId, parts, budgets }, { operationId, revertedAt: rows[0]?.[8] });
    if (!isInRange) return;
    if ("ids" in decided) this.#findings.counted(usedAt);
    else this.#findings.denied({ at: usedAt, group: this.#placement?.group, reason: decided.reason, amounts });
  }

  /** True if the moment of use precedes the running period of a limit of the call: late usage moves no balance. */
  #isLate({ usedAt, rows }: Call): boolean {
    return rows.some(([, serviceId, limitName]) => {
      const level = this.balances.level(serviceId, limitName);
      return level !== undefined && level.runningSince > this.#setting.from && usedAt < level.runningSince;
    });
  }

  /** True if a feature is of the replaced service. */
  #isReplaced(featureId: string | null): boolean {
    return this.#usage.serviceOf(featureId) === this.#setting.serviceId;
  }

  #takeHold(hold: RecordedHold, isEarlier: boolean): void {
    const { featureId, spender = null } = hold;
    if (!this.#isReplaced(featureId)) return;
    const amounts: Record<string, number> = {};
    for (const { amount, ...limit } of hold.amounts) {
      const id = this.#usage.idOf(limit);
      if (id !== undefined) amounts[id] = amount;
    }
    const evaluation = this.#entitled?.evaluation(this.balances, this.#now);
    const [at, usedAt] = [this.#now, this.#now];
    const decided: Decided =
      evaluation === undefined || this.#decisions.isGone(evaluation, featureId, hold.amounts)
        ? { reason: "gone" }
        : this.#decisions.decide(evaluation, { featureId, amounts, at, usedAt, strict: true, spender, rows: [] });
    // One of before the range was granted already.
    if ("reason" in decided && !isEarlier) this.#holds.refuse(hold, decided.reason);
    else this.#holds.take(hold, "ids" in decided ? decided.budgets : []);
  }
}
