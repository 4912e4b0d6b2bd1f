import type { RenewalUnit } from "../../core/period.ts";
import { sql, type SQL } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type postgres from "postgres";
import type { Block } from "../../core/pricing/blocks.ts";
import { type Budget, parsePattern } from "../../core/pricing/budgets.ts";
import type { TimedOverride } from "../../core/pricing/overrides.ts";
import type { Database } from "../postgres/connect.ts";
import { textArray } from "../postgres/lists.ts";
import type { SnapshotService, usageLevels } from "../schema.ts";
import { DEFAULT_THRESHOLDS, type RaisedThreshold } from "../../core/usage-alerts.ts";

/** Balance of one tracked limit, with its renewal calendar. */
export type Level = Pick<
  typeof usageLevels.$inferSelect,
  | "serviceId"
  | "limitName"
  | "consumed"
  | "held"
  | "openHolds"
  | "holdDue"
  | "anchor"
  | "resetAt"
  | "periodValue"
  | "periodUnit"
  | "runningSince"
>;

/** Sums of the open holds of a level. */
export type LevelHolds = Pick<Level, "held" | "openHolds" | "holdDue">;

/** Most levels have no open holds. */
export const NO_HOLDS: LevelHolds = { held: 0, openHolds: 0, holdDue: null };

/** A level with what has been raised of it, and its row version (`xmin`), which changes on every update. */
export type SeenLevel = Level & RaisedThreshold & { version: string };

/** Override of an element of a contracted service. */
export type SnapshotOverride = TimedOverride & { readonly serviceId: string };

/** Block of a level, as it counts in the running period. */
export type SnapshotBlock = Block & { readonly serviceId: string; readonly limitName: string };

/** Data of one end user's contract that an evaluation needs, read in one statement. */
export interface ContractSnapshot {
  contractId: string;
  /** Row version (`xmin`) of the contract. */
  version: string;
  startDate: Date;
  endDate: Date;
  autoRenew: boolean;
  renewalDays: number;
  /** Period on the calendar; null where days count. */
  renewalValue: number | null;
  renewalUnit: RenewalUnit | null;
  /** Moment of the pending scheduled change; null without one. */
  changeAt: Date | null;
  /** Number of the contract's members. */
  memberCount: number;
  services: SnapshotService[];
  /** Ordered by position and service; see {@link versionTag}. */
  levels: SeenLevel[];
  /** All overrides of the contract, also those that do not hold now. Immutable: callers key WeakMaps by the list. */
  overrides: readonly SnapshotOverride[];
  /** All blocks that count in the running periods. Immutable, as the overrides. */
  blocks: readonly SnapshotBlock[];
  /** Budgets of the contract itself. Immutable, as the overrides. */
  budgets: readonly Budget[];
  /** Of the organization; see core/usage-alerts.ts. */
  thresholds: readonly number[];
}

/** Identifies one contract by organization and end user. */
export interface EndUserName {
  organizationId: string;
  userId: string;
}

/** `holds` is null for a level without open holds. */
type LevelJson = Omit<SeenLevel, "anchor" | "resetAt" | "runningSince" | keyof LevelHolds> & {
  anchor: string | null;
  resetAt: string | null;
  runningSince: string | null;
  holds: (Omit<LevelHolds, "holdDue"> & { holdDue: string }) | null;
};

interface SnapshotRow extends Record<string, unknown> {
  organization_id: string;
  user_id: string;
  id: string;
  version: string;
  start_date: string;
  end_date: string;
  auto_renew: boolean;
  renewal_days: number;
  renewal_value: number | null;
  renewal_unit: RenewalUnit | null;
  change_at: string | null;
  member_count: number;
  services: SnapshotService[] | null;
  levels: LevelJson[] | null;
  overrides: OverrideJson[] | null;
  blocks: BlockJson[] | null;
  budgets: BudgetJson[] | null;
  thresholds: number[] | null;
}

type BlockJson = Omit<SnapshotBlock, "from" | "expiresAt" | "createdAt"> & {
  from: string;
  expiresAt: string | null;
  createdAt: string;
};

/** `until` is in milliseconds since 1970. */
export type BudgetJson = Omit<Budget, "spender" | "origin"> & { spender: string | null };

type OverrideJson = Omit<SnapshotOverride, "from" | "until"> & { from: string; until: string | null };

/** SQL expression: the services of contract `c` as a JSON list of {@link SnapshotService}; null if it has none. */
export const SERVICES_JSON = sql.raw(`(select json_agg(json_build_object(
        'serviceId', s.id, 'key', s.name_key, 'disabled', s.disabled, 'pricingId', p.id, 'version', p.version,
        'hash', p.model_hash, 'plan', cs.plan, 'addOns', cs.add_ons) order by cs.position)
      from contract_services cs
      join services s on s.id = cs.service_id
      join pricings p on p.id = cs.pricing_id
      where cs.contract_id = c.id)`);

/** SQL expression: the own budgets of contract `c` as a JSON list of {@link BudgetJson}; null if it has none. */
export const BUDGETS_JSON = sql.raw(`(case when c.has_budgets then (select json_agg(json_build_object(
        'id', g.id, 'name', g.name, 'serviceId', g.service_id, 'limitName', g.limit_name, 'spender', g.spender, 'unit', g.unit,
        'amount', g.amount, 'window', g.span, 'mode', g.mode, 'until', extract(epoch from g.ends_at) * 1000,
        'thresholds', g.thresholds) order by g.name collate "C")
      from contract_budgets g where g.contract_id = c.id) end)`);

/** Reads plan, versions and balances in one statement, so that they are consistent. */
const selectSnapshots = (organizationIds: SQL, userIds: SQL): SQL => sql`
  select c.organization_id, c.user_id, c.id, c.version, c.start_date, c.end_date, c.auto_renew, c.renewal_days,
    c.renewal_value, c.renewal_unit,
    c.change_at, c.member_count,
    ${SERVICES_JSON} as services,
    (select json_agg(json_build_object(
        'serviceId', u.service_id, 'limitName', u.limit_name, 'consumed', u.consumed, 'resetAt', u.reset_at,
        'anchor', u.anchor, 'periodValue', u.period_value, 'periodUnit', u.period_unit, 'runningSince', u.running_since,
        'version', u.xmin::text, 'alertedThreshold', u.alerted_threshold, 'alertedLimit', u.alerted_limit,
        'holds', case when u.hold_due is not null
          then json_build_object('held', u.held, 'openHolds', u.open_holds, 'holdDue', u.hold_due) end)
        order by u.position, u.service_id collate "C")
      from usage_levels u where u.contract_id = c.id) as levels,
    (select json_agg(json_build_object(
        'serviceId', o.service_id, 'kind', o.kind, 'name', o.name, 'mode', o.mode, 'value', o.value,
        'from', o.starts_at, 'until', o.ends_at) order by o.service_id, o.kind, o.name)
      from contract_overrides o where o.contract_id = c.id) as overrides,
    (select json_agg(json_build_object(
        'id', b.id, 'serviceId', b.service_id, 'limitName', b.limit_name, 'left', b.period_left, 'from', b.starts_at,
        'expiresAt', b.expires_at, 'createdAt', b.created_at,
        'drawn', case when b.state <> 'open' then b.used + b.period_left - b.amount end, 'kept', b.kept) order by b.id)
      from contract_blocks b where b.contract_id = c.id and b.settled_at is null) as blocks,
    ${BUDGETS_JSON} as budgets,
    (select o.usage_thresholds from organizations o where o.id = c.organization_id) as thresholds
  from unnest(${organizationIds}::text[], ${userIds}::text[]) as asked (organization_id, user_id)
  -- A plain join would keep the plan of a small table, which reads all contracts, until the table is analyzed.
  cross join lateral (
    select *, xmin::text as version from contracts
    where organization_id = asked.organization_id and user_id = asked.user_id offset 0
  ) c
`;

/** One list for all contracts without overrides. */
const NO_OVERRIDES: readonly SnapshotOverride[] = [];

/** One list for all contracts without blocks. */
export const NO_BLOCKS: readonly SnapshotBlock[] = [];

/** One list for all contracts without budgets. */
export const NO_BUDGETS: readonly Budget[] = [];

/** Reads what BUDGETS_JSON selected. */
export const budgetsIn = (budgets: readonly BudgetJson[] | null): readonly Budget[] =>
  budgets === null
    ? NO_BUDGETS
    : budgets.map(({ spender, ...budget }) => ({
        ...budget,
        origin: "contract",
        spender: spender === null ? [] : (parsePattern(spender) ?? []),
      }));

/** Parses a moment of Postgres. */
export const dateOf = (text: string | null): Date | null => (text === null ? null : new Date(text));

function toSnapshot(row: SnapshotRow): ContractSnapshot {
  return {
    contractId: row.id,
    version: row.version,
    startDate: new Date(row.start_date),
    endDate: new Date(row.end_date),
    autoRenew: row.auto_renew,
    renewalDays: row.renewal_days,
    renewalValue: row.renewal_value,
    renewalUnit: row.renewal_unit,
    changeAt: dateOf(row.change_at),
    memberCount: row.member_count,
    services: row.services ?? [],
    thresholds: row.thresholds ?? DEFAULT_THRESHOLDS,
    levels: (row.levels ?? []).map(({ holds, ...level }) => ({
      ...level,
      ...(holds === null ? NO_HOLDS : { ...holds, holdDue: dateOf(holds.holdDue) }),
      anchor: dateOf(level.anchor),
      resetAt: dateOf(level.resetAt),
      runningSince: dateOf(level.runningSince),
    })),
    overrides:
      row.overrides === null
        ? NO_OVERRIDES
        : row.overrides.map(({ from, until, ...override }) => ({
            ...override,
            from: new Date(from),
            until: dateOf(until),
          })),
    blocks:
      row.blocks === null
        ? NO_BLOCKS
        : row.blocks.map(({ from, expiresAt, createdAt, ...block }) => ({
            ...block,
            from: new Date(from),
            expiresAt: dateOf(expiresAt),
            createdAt: new Date(createdAt),
          })),
    budgets: budgetsIn(row.budgets),
  };
}

/** Reads an end user's contract snapshot in one round trip; undefined if there is no contract. */
export async function loadSnapshot(
  db: Database,
  organizationId: string,
  userId: string,
): Promise<ContractSnapshot | undefined> {
  const rows = await db.execute<SnapshotRow>(selectSnapshots(sql`array[${organizationId}]`, sql`array[${userId}]`));
  return rows[0] === undefined ? undefined : toSnapshot(rows[0]);
}

/** Reads snapshots of an organization's end users in one round trip, by user id. Missing contracts are missing. */
export async function loadSnapshots(
  db: Database,
  organizationId: string,
  userIds: readonly string[],
): Promise<Map<string, ContractSnapshot>> {
  const organizationIds = userIds.map(() => organizationId);
  const rows = await db.execute<SnapshotRow>(selectSnapshots(textArray(organizationIds), textArray(userIds)));
  return new Map(rows.map((row) => [row.user_id, toSnapshot(row)]));
}

const SELECT_SNAPSHOTS = new PgDialect().sqlToQuery(selectSnapshots(sql.raw("$1"), sql.raw("$2"))).sql;

/** Splits names into parallel arrays of organization ids and user ids, for `unnest`. */
export function columnsOf(names: readonly EndUserName[]): [string[], string[]] {
  return [names.map((name) => name.organizationId), names.map((name) => name.userId)];
}

/** Map key of a name. Organization ids contain no space, so keys are unique. */
export function endUserKey({ organizationId, userId }: EndUserName): string {
  return `${organizationId} ${userId}`;
}

/** Reads many snapshots with one prepared statement, by `endUserKey`. Missing contracts are missing from the map. */
export async function readSnapshots(
  client: postgres.ISql,
  names: readonly EndUserName[],
): Promise<Map<string, ContractSnapshot>> {
  const unique = [...new Map(names.map((name) => [endUserKey(name), name])).values()];
  const rows = await client.unsafe<SnapshotRow[]>(SELECT_SNAPSHOTS, columnsOf(unique), { prepare: true });
  return new Map(
    rows.map((row) => [endUserKey({ organizationId: row.organization_id, userId: row.user_id }), toSnapshot(row)]),
  );
}

/**
 * Version tag of a contract with its balances, from all row versions. The SQL functions that consume compute the same tag:
 * equal tags mean that nothing changed.
 */
export function versionTag({ version, levels }: ContractSnapshot): string {
  return [version, ...levels.map((level) => level.version)].join(" ");
}
