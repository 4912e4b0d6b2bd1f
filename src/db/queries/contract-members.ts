import { and, desc, eq, exists, lt, type SQL, sql } from "drizzle-orm";
import { patternText } from "../../core/pricing/budgets.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf, textArray } from "../postgres/lists.ts";
import { contractMembers, contracts } from "../schema.ts";

/*
 * Members of contracts, and the balances that count them. Call everything that writes with the contract locked.
 */

export type MemberRow = typeof contractMembers.$inferSelect;

/** Reads one member of a contract; undefined for none. */
export async function findMember(db: Database, contractId: string, memberId: string): Promise<MemberRow | undefined> {
  const [row] = await db
    .select()
    .from(contractMembers)
    .where(and(eq(contractMembers.contractId, contractId), eq(contractMembers.memberId, memberId)));
  return row;
}

/** Returns those of the ids that are members of a contract. */
export async function knownMembers(
  db: Database,
  contractId: string,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await db
    .select({ id: contractMembers.memberId })
    .from(contractMembers)
    .where(and(eq(contractMembers.contractId, contractId), isAnyOf(contractMembers.memberId, ids)));
  return new Set(rows.map(({ id }) => id));
}

/** A member by its contract and id. */
export interface MemberName {
  readonly contractId: string;
  readonly memberId: string;
}

/** Key of a member. Ids of contracts contain no space. */
export const memberKey = ({ contractId, memberId }: MemberName): string => `${contractId} ${memberId}`;

/** Returns the keys of those that are members, of any number of contracts. */
export async function knownMemberKeys(db: Database, asked: readonly MemberName[]): Promise<ReadonlySet<string>> {
  const rows = await db.execute<MemberName & Record<string, unknown>>(sql`
    select asked."contractId", asked."memberId"
    from json_to_recordset(${JSON.stringify(asked)}::text::json) as asked ("contractId" text, "memberId" text)
    join contract_members m on m.contract_id = asked."contractId" and m.member_id = asked."memberId"`);
  return new Set(rows.map(memberKey));
}

/** Reads all members of a contract. */
export function readMembers(db: Database, contractId: string): Promise<MemberRow[]> {
  return db.select().from(contractMembers).where(eq(contractMembers.contractId, contractId));
}

/** Reads members of a contract, newest first: those older than `before` that have the text in their id or name. */
export async function pageMembers(
  db: Database,
  contractId: string,
  { matches, before, limit }: { matches: SQL | undefined; before: string | undefined; limit: number },
): Promise<{ rows: MemberRow[]; total: number }> {
  const where = and(eq(contractMembers.contractId, contractId), matches);
  const [rows, total] = await Promise.all([
    db
      .select()
      .from(contractMembers)
      .where(before === undefined ? where : and(where, lt(contractMembers.place, before)))
      .orderBy(desc(contractMembers.place))
      .limit(limit),
    db.$count(contractMembers, where),
  ]);
  return { rows, total };
}

/** SQL condition: the contract has this member. */
export function hasMember(db: Database, memberId: string): SQL {
  const { contractId, organizationId } = contractMembers;
  return exists(
    db
      .select({ one: sql`1` })
      .from(contractMembers)
      .where(
        and(
          eq(contractId, contracts.id),
          eq(organizationId, contracts.organizationId),
          eq(contractMembers.memberId, memberId),
        ),
      ),
  );
}

/** Changes of a contract's list of members. */
export interface MemberChanges {
  added: readonly MemberRow[];
  removed: readonly MemberRow[];
  /** With their new names. */
  changed: readonly MemberRow[];
}

/**
 * Changes the list of a locked contract, its number of members, and each balance that counts them. Writes a movement per member.
 * Gives the contract a new row version, which cached snapshots are compared with.
 */
export async function changeMembers(
  tx: Database,
  contractId: string,
  { added, removed, changed }: MemberChanges,
  { count, now }: { count: number; now: Date },
): Promise<void> {
  const moment = sql`${now.toISOString()}::timestamptz`;
  const gone = removed.map(({ memberId }) => memberId);
  await tx
    .delete(contractMembers)
    .where(and(eq(contractMembers.contractId, contractId), isAnyOf(contractMembers.memberId, gone)));
  await tx.execute(sql`
    insert into contract_members (contract_id, organization_id, member_id, name, place, created_at)
    select c.id, c.organization_id, m."memberId", m.name, m.place, ${moment}
    from contracts c
    cross join json_to_recordset(${JSON.stringify(added)}::json) as m ("memberId" text, name text, place text)
    where c.id = ${contractId}
  `);
  await tx.execute(sql`
    update contract_members m set name = given.name
    from json_to_recordset(${JSON.stringify(changed)}::json) as given ("memberId" text, name text)
    where m.contract_id = ${contractId} and m.member_id = given."memberId"
  `);
  await tx.update(contracts).set({ memberCount: count, updatedAt: now }).where(eq(contracts.id, contractId));
  const moves = [...gone.map((id) => ({ id, delta: -1 })), ...added.map(({ memberId: id }) => ({ id, delta: 1 }))];
  if (moves.length === 0) return;
  await tx.execute(sql`
    with counted as (
      update usage_levels set consumed = ${count}::integer,
        used_tenths = faregate_used_tenths(${count}::integer, limit_value)
      where contract_id = ${contractId} and counts_members
      returning organization_id, service_id, limit_name
    )
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select ${contractId}, organization_id, service_id, limit_name, 'adjust', m.id, m.delta, ${moment}
    from counted cross join json_to_recordset(${JSON.stringify(moves)}::json) as m (id text, delta integer)
  `);
}

/**
 * Sets the balances of seats of locked contracts to their numbers of members, each with a movement. Call it after every change of
 * their levels: a level may be new, or have counted something else before.
 */
export async function countSeats(
  tx: Database,
  { contractIds, now, operationId }: { contractIds: readonly string[]; now: Date; operationId: string },
): Promise<void> {
  if (contractIds.length === 0) return;
  await tx.execute(sql`
    with wrong as (
      select u.contract_id, u.service_id, u.limit_name, u.consumed, c.member_count
      from usage_levels u join contracts c on c.id = u.contract_id
      where u.contract_id = any(${textArray(contractIds)}) and u.counts_members and u.consumed <> c.member_count
    ), counted as (
      update usage_levels u set consumed = w.member_count,
        used_tenths = faregate_used_tenths(w.member_count, u.limit_value), alerted_threshold = null, alerted_limit = null
      from wrong w
      where u.contract_id = w.contract_id and u.service_id = w.service_id and u.limit_name = w.limit_name
      returning u.contract_id, u.organization_id, u.service_id, u.limit_name, w.member_count - w.consumed as delta
    )
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, organization_id, service_id, limit_name, 'adjust', ${operationId}, delta, ${now.toISOString()}::timestamptz
    from counted
  `);
}

/**
 * Sums what members used of each limit in its running period, by member and limit id. Contains amounts above 0 only. Costs the
 * movements of these periods.
 */
export async function sumMemberUse(
  db: Database,
  contractId: string,
  ids: readonly string[],
): Promise<Map<string, Record<string, number>>> {
  const byBeginning = new Map(ids.map((id) => [patternText([id]), id]));
  const rows = await db.execute<{ beginning: string; limit: string; used: number }>(sql`
    select split_part(l.spender, '/', 1) as beginning, s.name_key || '-' || u.limit_name as "limit", sum(l.delta)::float8 as used
    from usage_levels u
    join services s on s.id = u.service_id
    cross join lateral (
      select spender, delta from usage_ledger m
      where m.contract_id = u.contract_id and m.service_id = u.service_id and m.limit_name = u.limit_name
        and m.created_at >= coalesce(u.running_since, '-infinity')
        and coalesce(m.used_at, m.created_at) >= coalesce(u.running_since, '-infinity') and m.spender is not null offset 0
    ) l
    where u.contract_id = ${contractId} and ${isAnyOf(sql`split_part(l.spender, '/', 1)`, [...byBeginning.keys()])}
    group by 1, 2, u.position, s.name_key
    having sum(l.delta) > 0
    order by s.name_key collate "C", u.position
  `);
  const used = new Map<string, Record<string, number>>();
  for (const { beginning, limit, used: amount } of rows) {
    const id = byBeginning.get(beginning);
    if (id !== undefined) used.set(id, { ...used.get(id), [limit]: amount });
  }
  return used;
}
