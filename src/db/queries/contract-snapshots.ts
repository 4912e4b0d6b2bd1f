import { sql, type SQL } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type postgres from "postgres";
import type { Database } from "../postgres/connect.ts";
import type { usageLevels } from "../schema.ts";

/** A contracted service, with the address of its compiled pricing. */
export interface SnapshotService {
  serviceId: string;
  /** Service name in lower case. */
  key: string;
  disabled: boolean;
  pricingId: string;
  version: string;
  hash: string;
  plan: string | null;
  addOns: Record<string, number> | null;
}

/** Balance of one tracked limit, with its renewal calendar. */
export type Level = Pick<
  typeof usageLevels.$inferSelect,
  "serviceId" | "limitName" | "consumed" | "anchor" | "resetAt" | "periodValue" | "periodUnit"
>;

/** A level as read by one statement, with its row version. */
export type SeenLevel = Level & { version: string };

/** A contract and its balances: everything that an evaluation needs. */
export interface ContractSnapshot {
  contractId: string;
  /** Row version of the contract. */
  version: string;
  endDate: Date;
  autoRenew: boolean;
  renewalDays: number;
  services: SnapshotService[];
  /** Ordered by position and service; see {@link versionTag}. */
  levels: SeenLevel[];
}

/** Address of one contract. */
export interface EndUserName {
  organizationId: string;
  userId: string;
}

type LevelJson = Omit<SeenLevel, "anchor" | "resetAt"> & { anchor: string | null; resetAt: string | null };

interface SnapshotRow extends Record<string, unknown> {
  organization_id: string;
  user_id: string;
  id: string;
  version: string;
  end_date: string;
  auto_renew: boolean;
  renewal_days: number;
  services: SnapshotService[] | null;
  levels: LevelJson[] | null;
}

/** Services of a contract `c`, as a JSON list of {@link SnapshotService}; null for none. */
export const SERVICES_JSON = sql.raw(`(select json_agg(json_build_object(
        'serviceId', s.id, 'key', s.name_key, 'disabled', s.disabled, 'pricingId', p.id, 'version', p.version,
        'hash', p.model_hash, 'plan', cs.plan, 'addOns', cs.add_ons) order by cs.position)
      from contract_services cs
      join services s on s.id = cs.service_id
      join pricings p on p.id = cs.pricing_id
      where cs.contract_id = c.id)`);

/** One statement, so that plan, versions and balances are consistent. */
const selectSnapshots = (organizationIds: SQL, userIds: SQL): SQL => sql`
  select c.organization_id, c.user_id, c.id, c.xmin::text as version, c.end_date, c.auto_renew, c.renewal_days,
    ${SERVICES_JSON} as services,
    (select json_agg(json_build_object(
        'serviceId', u.service_id, 'limitName', u.limit_name, 'consumed', u.consumed, 'resetAt', u.reset_at,
        'anchor', u.anchor, 'periodValue', u.period_value, 'periodUnit', u.period_unit, 'version', u.xmin::text)
        order by u.position, u.service_id collate "C")
      from usage_levels u where u.contract_id = c.id) as levels
  from unnest(${organizationIds}::text[], ${userIds}::text[]) as asked (organization_id, user_id)
  join contracts c using (organization_id, user_id)
`;

const dateOf = (text: string | null) => (text === null ? null : new Date(text));

function toSnapshot(row: SnapshotRow): ContractSnapshot {
  return {
    contractId: row.id,
    version: row.version,
    endDate: new Date(row.end_date),
    autoRenew: row.auto_renew,
    renewalDays: row.renewal_days,
    services: row.services ?? [],
    levels: (row.levels ?? []).map((level) => ({
      ...level,
      anchor: dateOf(level.anchor),
      resetAt: dateOf(level.resetAt),
    })),
  };
}

/** Reads one contract in one round trip. Undefined if it does not exist. */
export async function loadSnapshot(
  db: Database,
  organizationId: string,
  userId: string,
): Promise<ContractSnapshot | undefined> {
  const rows = await db.execute<SnapshotRow>(selectSnapshots(sql`array[${organizationId}]`, sql`array[${userId}]`));
  return rows[0] === undefined ? undefined : toSnapshot(rows[0]);
}

const SELECT_SNAPSHOTS = new PgDialect().sqlToQuery(selectSnapshots(sql.raw("$1"), sql.raw("$2"))).sql;

/** Splits names into the two columns that the statements take. */
export function columnsOf(names: readonly EndUserName[]): [string[], string[]] {
  return [names.map((name) => name.organizationId), names.map((name) => name.userId)];
}

/** Returns a unique key for the name. */
export function endUserKey({ organizationId, userId }: EndUserName): string {
  return `${organizationId} ${userId}`;
}

/** Reads many contracts with one prepared statement. Missing contracts are absent from the map. */
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
 * Identifies the state of a contract and its balances. An equal tag means that nothing has changed. The SQL function
 * faregate_consume computes the same text.
 */
export function versionTag({ version, levels }: ContractSnapshot): string {
  return [version, ...levels.map((level) => level.version)].join(" ");
}

/** Input of {@link readBalances}: the cached versions of a contract. */
export type KnownVersions = Pick<ContractSnapshot, "contractId" | "version" | "levels">;

interface BalancesRow {
  id: string;
  version: string;
  /** Row version, consumption and reset time of each level, in the order of `ContractSnapshot.levels`. */
  levels: [string, number, string | null][] | null;
}

/**
 * Reads only the current levels of cached contracts, at a third of the cost of a full read. Contracts whose own row has
 * changed are absent: read them again in full.
 */
export async function readBalances(
  client: postgres.ISql,
  known: readonly KnownVersions[],
): Promise<Map<string, SeenLevel[]>> {
  const ids = [...new Set(known.map((one) => one.contractId))];
  const rows = await client<BalancesRow[]>`select id, version, levels from faregate_balances(${ids}::text[])`;
  const found = new Map(rows.map((row) => [row.id, row]));
  const result = new Map<string, SeenLevel[]>();
  for (const { contractId, version, levels } of known) {
    const row = found.get(contractId);
    if (row === undefined || row.version !== version || (row.levels?.length ?? 0) !== levels.length) continue;
    result.set(
      contractId,
      levels.map((level, i) => {
        const [seen, consumed, resetAt] = row.levels?.[i] ?? [level.version, level.consumed, null];
        return seen === level.version ? level : { ...level, version: seen, consumed, resetAt: dateOf(resetAt) };
      }),
    );
  }
  return result;
}
