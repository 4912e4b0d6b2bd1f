import { sql } from "drizzle-orm";
import type { OffReason } from "../../core/ofrep.ts";
import type { Database } from "../../db/postgres/connect.ts";
import { noteDenials } from "../../db/queries/budgets.ts";
import { analyticsDays } from "../../db/schema.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/**
 * Counts calls and denials in memory, and flushes each kind once per second. Updating a row per request would make that
 * row the bottleneck. A crash loses at most the last second of statistics, never a balance.
 */
export interface CallCounter {
  count(now: Date, evaluation: boolean): void;
  countDenial(now: Date, organizationId: string, featureId: string, reason: OffReason): void;
  /** Keeps the last denial of each budget. */
  countBudgetDenial(now: Date, denial: DeniedBudget): void;
  /** Totals since the process started, for its metrics. */
  totals: { evaluations: number; granted: number; denied: number; reverted: number };
  /** Writes the pending counts. Concurrent calls share one flush; after a failure the counts stay for the next one. */
  flush(): Promise<void>;
}

/** A call that a budget of a contract denied. */
export interface DeniedBudget {
  readonly contractId: string;
  /** Id of the budget. */
  readonly budget: string;
  /** Path of the one who called; null for nobody. */
  readonly spender: string | null;
  /** Amount that the budget would have counted. */
  readonly amount: number;
}

/** Denials of one feature for one reason in one hour. */
interface Denials {
  organizationId: string;
  /** Hours since 1970, formatted once per flush instead of once per denial. */
  hour: number;
  featureId: string;
  reason: OffReason;
  count: number;
}

/** Creates a counter for this database. The owner calls `flush` periodically and before shutdown. */
export function createCallCounter(db: Database): CallCounter {
  let pending = new Map<string, { calls: number; evaluations: number }>();
  let denied = new Map<string, Denials>();
  let deniedBudgets = new Map<string, DeniedBudget & { at: Date }>();
  let last = Promise.resolve();

  const add = (day: string, calls: number, evaluations: number) => {
    const existing = pending.get(day);
    if (existing === undefined) {
      pending.set(day, { calls, evaluations });
    } else {
      existing.calls += calls;
      existing.evaluations += evaluations;
    }
  };
  const addDenials = (denials: Denials) => {
    const key = [denials.organizationId, denials.hour, denials.reason, denials.featureId].join(" ");
    const existing = denied.get(key);
    if (existing === undefined) denied.set(key, denials);
    else existing.count += denials.count;
  };
  /** Formats the day once per day, not once per request. */
  let today = { number: Number.NaN, name: "" };
  const dayOf = (now: Date) => {
    const number = Math.floor(now.getTime() / DAY_MS);
    if (number !== today.number) today = { number, name: now.toISOString().slice(0, 10) };
    return today.name;
  };
  const writeDenials = async () => {
    if (denied.size === 0) return;
    const taken = denied;
    denied = new Map();
    const rows = Array.from(taken.values(), (each) => ({ ...each, hour: new Date(each.hour * HOUR_MS).toISOString() }));
    try {
      // The join skips deleted organizations. A fixed order keeps processes from deadlocking.
      await db.execute(sql`
        insert into denials (organization_id, hour, feature_id, reason, count)
        select o.id, given.hour, given."featureId", given.reason, given.count
        from json_to_recordset(${JSON.stringify(rows)}::json)
          as given ("organizationId" text, hour timestamptz, "featureId" text, reason text, count bigint)
        join organizations o on o.id = given."organizationId"
        order by o.id, given.hour, given."featureId", given.reason
        for key share of o
        on conflict on constraint denials_pk do update set count = denials.count + excluded.count`);
    } catch (error) {
      for (const denials of taken.values()) addDenials(denials);
      throw error;
    }
  };
  const writeBudgetDenials = async () => {
    const taken = deniedBudgets;
    deniedBudgets = new Map();
    try {
      const contracts = new Map<string, (DeniedBudget & { at: Date })[]>();
      for (const denial of taken.values()) {
        contracts.set(denial.contractId, [...(contracts.get(denial.contractId) ?? []), denial]);
      }
      for (const [contractId, denials] of contracts) {
        await noteDenials(db, contractId, denials);
        for (const { budget } of denials) taken.delete(budget);
      }
    } catch (error) {
      // Denials since then are newer.
      deniedBudgets = new Map([...taken, ...deniedBudgets]);
      throw error;
    }
  };
  const writeCalls = async () => {
    if (pending.size === 0) return;
    const taken = pending;
    pending = new Map();
    const days = [...taken].map(([day, { calls, evaluations }]) => ({ day, apiCalls: calls, evaluations }));
    try {
      // One statement for all days: either all are written, or all stay for the next flush.
      await db
        .insert(analyticsDays)
        .values(days)
        .onConflictDoUpdate({
          target: analyticsDays.day,
          set: {
            apiCalls: sql`${analyticsDays.apiCalls} + excluded.api_calls`,
            evaluations: sql`${analyticsDays.evaluations} + excluded.evaluations`,
          },
        });
    } catch (error) {
      for (const { day, apiCalls, evaluations } of days) add(day, apiCalls, evaluations);
      throw error;
    }
  };
  const totals = { evaluations: 0, granted: 0, denied: 0, reverted: 0 };
  return {
    totals,
    count: (now, evaluation) => {
      if (evaluation) totals.evaluations += 1;
      add(dayOf(now), 1, evaluation ? 1 : 0);
    },
    countDenial: (now, organizationId, featureId, reason) => {
      addDenials({ organizationId, hour: Math.floor(now.getTime() / HOUR_MS), featureId, reason, count: 1 });
    },
    countBudgetDenial: (at, denial) => {
      deniedBudgets.set(denial.budget, { ...denial, at });
    },
    flush: () => {
      // Chains the flushes, so that awaiting one also covers everything counted before it.
      last = last
        .catch(() => {})
        .then(writeCalls)
        .then(writeDenials)
        .then(writeBudgetDenials);
      return last;
    },
  };
}
