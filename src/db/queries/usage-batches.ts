import { sql, type SQL } from "drizzle-orm";
import type { Database } from "../postgres/connect.ts";
import { textArray } from "../postgres/lists.ts";
import type { Consumption } from "./decision.ts";

/*
 * Batches of usage: the keys that make each item count once, and the movements of many contracts in one statement.
 */

/** Days for which the key of an item stays taken. */
export const USAGE_KEY_DAYS = 35;
const KEPT_MS = USAGE_KEY_DAYS * 86_400_000;

/** The key of an item, with the item's canonical text. */
export interface ItemKey {
  key: string;
  text: string;
}

const keysJson = (keys: readonly ItemKey[]) => JSON.stringify(keys.map(({ key, text }) => ({ key, text })));
const FINGERPRINT = sql.raw(`encode(sha256(convert_to(given.text, 'UTF8')), 'base64')`);
const keptSince = (now: Date) => sql`${new Date(now.getTime() - KEPT_MS).toISOString()}::timestamptz`;

const selectUserIds = (organizationId: string, userIds: readonly string[]): SQL => sql`
    select user_id from contracts where organization_id = ${organizationId} and user_id = any(${textArray(userIds)})`;

const userIdsOf = (rows: readonly { user_id: string }[]) => new Set(rows.map((row) => row.user_id));

/** Locks contracts of an organization that nobody else has locked. Returns their user ids. */
export async function lockFreeContracts(
  tx: Database,
  organizationId: string,
  userIds: readonly string[],
): Promise<Set<string>> {
  return userIdsOf(
    await tx.execute(sql`${selectUserIds(organizationId, userIds)} order by id for no key update skip locked`),
  );
}

/** Reads which of the end users have a contract. */
export async function readContracted(
  tx: Database,
  organizationId: string,
  userIds: readonly string[],
): Promise<Set<string>> {
  return userIdsOf(await tx.execute(selectUserIds(organizationId, userIds)));
}

/**
 * Reads which items have a key that the organization has taken: for the `same` item, or for another one. A plain join would
 * keep the plan of an empty table, which reads all keys of the organization, until the table is analyzed.
 */
export async function readTakenKeys(
  tx: Database,
  organizationId: string,
  items: readonly ItemKey[],
  now: Date,
): Promise<Map<ItemKey, "same" | "other">> {
  const rows = await tx.execute<{ place: string; is_same: boolean }>(sql`
    select given.place, k.fingerprint = ${FINGERPRINT} as is_same
    from rows from (json_to_recordset(${keysJson(items)}::json) as (key text, text text))
      with ordinality as given (key, text, place)
    cross join lateral (
      select * from usage_keys k
      where k.organization_id = ${organizationId} and k.key = given.key and k.taken_at > ${keptSince(now)}
      offset 0
    ) k
  `);
  const taken = new Map<ItemKey, "same" | "other">();
  for (const { place, is_same: isSame } of rows) {
    const item = items[Number(place) - 1];
    if (item !== undefined) taken.set(item, isSame ? "same" : "other");
  }
  return taken;
}

/** Another transaction has taken a key of this batch since it was read: decide again. */
export class KeyTaken extends Error {}

/** Movements and keys of the items of locked contracts. */
export interface UsageWrites {
  consumptions: readonly Consumption[];
  /** Usage before the running period: recorded without moving a balance. */
  late: readonly Consumption[];
  /** Keys of these items. */
  keys: readonly ItemKey[];
}

/**
 * Writes movements, balances and keys, in one round trip. Call it with the contracts locked. Blocks on keys that another
 * transaction is taking; takes them in order, so that two batches cannot deadlock.
 * @throws KeyTaken if another transaction has taken one of them.
 */
export async function writeUsage(
  tx: Database,
  organizationId: string,
  { consumptions, late, keys }: UsageWrites,
  now: Date,
): Promise<void> {
  if (keys.length === 0) return;
  const movements = [
    ...consumptions.map((one) => ({ ...one, isLate: false })),
    ...late.map((one) => ({ ...one, isLate: true })),
  ];
  const moment = sql`${now.toISOString()}::timestamptz`;
  const takeKeys = tx.execute<{ taken: string }>(sql`
    with taken as (
      insert into usage_keys as k (organization_id, key, fingerprint, taken_at)
      select ${organizationId}, given.key, ${FINGERPRINT}, ${moment}
      from json_to_recordset(${keysJson(keys)}::json) as given (key text, text text)
      order by given.key collate "C"
      on conflict (organization_id, key) do update set fingerprint = excluded.fingerprint, taken_at = excluded.taken_at
        where k.taken_at <= ${keptSince(now)}
      returning 1
    )
    select count(*) as taken from taken
  `);
  const writeMovements = tx.execute(sql`
    with movement as materialized (
      select * from json_to_recordset(${JSON.stringify(movements)}::json) as given
        ("contractId" text, "serviceId" text, "limitName" text, amount numeric, "featureId" text, "operationId" text,
          "usedAt" timestamptz, "isLate" boolean, spender text, budgets json, units json)
    ), written as (
      insert into usage_ledger
        (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, late_amount, used_at,
          created_at, spender, budgets, units)
      select "contractId", ${organizationId}, "serviceId", "limitName", case when "isLate" then 'late' else 'consume' end, "featureId",
        "operationId", case when "isLate" then 0 else amount end, case when "isLate" then amount end, "usedAt", ${moment}, spender,
        budgets, units
      from movement
    )
    update usage_levels u set consumed = u.consumed + m.amount,
      used_tenths = faregate_used_tenths(u.consumed + m.amount, u.limit_value)
    from (
      select "contractId", "serviceId", "limitName", sum(amount) as amount from movement where not "isLate"
      group by 1, 2, 3
    ) m
    where u.contract_id = m."contractId" and u.service_id = m."serviceId" and u.limit_name = m."limitName"
  `);
  // Sent at once: the driver does not wait for the first before it sends the second.
  const [[written]] = await Promise.all([takeKeys, writeMovements]);
  if (Number(written?.taken) !== keys.length) throw new KeyTaken();
}
