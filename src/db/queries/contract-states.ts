import { sql } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import {
  type BudgetJson,
  BUDGETS_JSON,
  budgetsIn,
  dateOf,
  type Level,
  NO_HOLDS,
  SERVICES_JSON,
} from "./contract-snapshots.ts";
import type { Budget } from "../../core/pricing/budgets.ts";
import type { SnapshotService, StateCause } from "../schema.ts";
import type { RenewalUnit } from "../../core/period.ts";
import { MAX_HOLD_MS } from "../../core/holds.ts";
import type { StoredTrial } from "../../core/scheduled.ts";
import { TRIAL_JSON, trialIn, type TrialView } from "./scheduled-view.ts";
import { OVERRIDES_JSON, type OverrideJson, overridesIn, type StoredOverride } from "./overrides.ts";

/**
 * Appends the current state of these locked contracts in one statement. Call it after every change of their services,
 * overrides, budgets, billing periods or service names: evaluations of a past moment read only these rows. Balances and reset moments come from
 * the ledger.
 */
export async function recordStates(
  tx: Database,
  input: { contractIds: readonly string[]; cause: StateCause; now: Date },
): Promise<void> {
  if (input.contractIds.length === 0) return;
  await tx.execute(sql`
    insert into contract_states
      (contract_id, organization_id, since, cause, start_date, end_date, auto_renew, renewal_days, renewal_value,
      renewal_unit, services, levels, overrides, trial, budgets)
    select c.id, c.organization_id, ${input.now.toISOString()}::timestamptz, ${input.cause}, c.start_date, c.end_date, c.auto_renew,
      c.renewal_days, c.renewal_value, c.renewal_unit, coalesce(${SERVICES_JSON}, '[]'), coalesce((
        select json_agg(json_build_object('serviceId', u.service_id, 'limitName', u.limit_name, 'resetAt', u.reset_at,
            'anchor', u.anchor, 'periodValue', u.period_value, 'periodUnit', u.period_unit)
            order by u.position, u.service_id collate "C")
        from usage_levels u where u.contract_id = c.id), '[]'), ${OVERRIDES_JSON}, ${TRIAL_JSON},
      ${BUDGETS_JSON}
    from contracts c where ${isAnyOf(sql`c.id`, input.contractIds)}
    order by c.id
  `);
}

/** State of a contract at a past moment. */
export interface PastState {
  since: Date;
  /** End of the state; null for the current one. */
  until: Date | null;
  cause: StateCause;
  startDate: Date;
  endDate: Date;
  autoRenew: boolean;
  renewalDays: number;
  renewalValue: number | null;
  renewalUnit: RenewalUnit | null;
  services: SnapshotService[];
  /** Levels with their balances at that moment. A level that was due but not yet renewed is unchanged. */
  levels: Level[];
  /** All overrides in display order, also those that did not hold then. */
  overrides: StoredOverride[];
  /** The trial that lasted then; null without one. */
  trial: TrialView | null;
  /** The contract's own budgets, also those that had ended. */
  budgets: readonly Budget[];
}

/** Recorded information about a contract at a past moment. */
export interface ContractRecord {
  /** Oldest recorded state of the contract, and its cause. */
  first: { since: Date; cause: StateCause };
  /** Null if the moment precedes the oldest recorded state. */
  state: PastState | null;
  /** False if the contract differs from its last recorded state, so the start of its current state is unknown. */
  isComplete: boolean;
}

interface Row extends Record<string, unknown> {
  first_since: string;
  first_cause: StateCause;
  since: string | null;
  until: string | null;
  cause: StateCause;
  start_date: string;
  end_date: string;
  auto_renew: boolean;
  renewal_days: number;
  renewal_value: number | null;
  renewal_unit: RenewalUnit | null;
  services: SnapshotService[];
  levels:
    | (Omit<Level, "anchor" | "resetAt" | "openHolds" | "holdDue" | "runningSince"> & {
        anchor: string | null;
        resetAt: string | null;
      })[]
    | null;
  overrides: OverrideJson[] | null;
  trial: StoredTrial | null;
  budgets: BudgetJson[] | null;
  is_complete: boolean;
}

/**
 * Reads a contract's state at a past moment in one statement; undefined without any recorded state. A balance is the sum of
 * its movements since its last reset, which an index finds, so only one period's movements are read.
 */
export async function readRecord(db: Database, contractId: string, at: Date): Promise<ContractRecord | undefined> {
  const moment = sql`${at.toISOString()}::timestamptz`;
  // Ids ascend with their moments, so an index finds the holds that may have been open.
  const oldestHold = Math.max(0, at.getTime() - MAX_HOLD_MS)
    .toString(16)
    .padStart(12, "0");
  const [row] = await db.execute<Row>(sql`
    select first.since as first_since, first.cause as first_cause,
      state.since, following.since as until, state.cause, state.start_date, state.end_date, state.auto_renew,
      state.renewal_days, state.renewal_value, state.renewal_unit, state.services, state.overrides, state.trial,
      state.budgets,
      faregate_levels_at(${contractId}, state.levels, state.since, ${moment}, ${oldestHold}) as levels,
      following.id is not null or (
        select state.start_date = c.start_date and state.end_date = c.end_date and state.auto_renew = c.auto_renew
          and state.renewal_days = c.renewal_days
          and (state.renewal_value, state.renewal_unit) is not distinct from (c.renewal_value, c.renewal_unit)
          and state.services::jsonb = coalesce(${SERVICES_JSON}, '[]')::jsonb
          and coalesce(state.overrides, '[]')::jsonb = coalesce(${OVERRIDES_JSON}, '[]')::jsonb
          and coalesce(state.budgets, '[]')::jsonb = coalesce(${BUDGETS_JSON}, '[]')::jsonb
        from contracts c where c.id = ${contractId}
      ) as is_complete
    from (select since, cause from contract_states where contract_id = ${contractId} order by id limit 1) first
    left join lateral (
      select * from contract_states where contract_id = ${contractId} and since <= ${moment} order by id desc limit 1
    ) state on true
    left join lateral (
      select id, since from contract_states where contract_id = ${contractId} and id > state.id order by id limit 1
    ) following on true
  `);
  if (row === undefined) return undefined;
  return {
    first: { since: new Date(row.first_since), cause: row.first_cause },
    isComplete: row.is_complete,
    state:
      row.since === null
        ? null
        : {
            since: new Date(row.since),
            until: dateOf(row.until),
            cause: row.cause,
            startDate: new Date(row.start_date),
            endDate: new Date(row.end_date),
            autoRenew: row.auto_renew,
            renewalDays: row.renewal_days,
            renewalValue: row.renewal_value,
            renewalUnit: row.renewal_unit,
            services: row.services,
            levels: (row.levels ?? []).map((level) => ({
              ...NO_HOLDS,
              ...level,
              anchor: dateOf(level.anchor),
              resetAt: dateOf(level.resetAt),
              runningSince: null,
            })),
            overrides: overridesIn(row.overrides),
            trial: trialIn(row.trial),
            budgets: budgetsIn(row.budgets),
          },
  };
}
