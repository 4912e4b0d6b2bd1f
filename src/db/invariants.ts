import { sql } from "drizzle-orm";
import { isDistributed } from "./distribution.ts";
import type { Database } from "./postgres/connect.ts";
import { holdRollUp } from "./queries/usage-rollup.ts";

/** A rule of the data, with a query that returns its violations. It returns no row in any committed state. */
export interface Invariant {
  rule: string;
  violations: string;
}

/** Amounts of open holds as rows. */
const OPEN_AMOUNTS = `
  select h.contract_id, a."serviceId" as service_id, a."limitName" as limit_name, a.amount, h.until
  from holds h cross join lateral json_to_recordset(h.amounts) as a ("serviceId" text, "limitName" text, amount numeric)
  where h.state = 'open'`;

/** Up to which movement the roll-up goes, and where the ledger starts, as SQL expressions. */
interface Marks {
  upTo: string;
  ledgerStart: string;
}

/** Reads the marks of the caller's snapshot. */
async function readMarks(tx: Database): Promise<Marks> {
  const [row] = await tx.execute<{ up_to: string; at: string }>(sql`
    select quote_nullable(up_to) as up_to, quote_nullable(at) as at from usage_rollup, usage_ledger_start`);
  return { upTo: `${row?.up_to ?? "null"}::bigint`, ledgerStart: `${row?.at ?? "null"}::timestamptz` };
}

/** Every sum of the roll-up equals its movements, of buckets after the one in which the ledger starts. */
const rollUpInvariant = (table: "hours" | "days", { upTo, ledgerStart }: Marks): Invariant => {
  const bucket = table === "hours" ? "hour" : "day";
  const key = `contract_id, service_id, limit_name, ${bucket}${table === "hours" ? "" : ", feature_id"}`;
  const feature = table === "hours" ? "" : ", coalesce(l.feature_id, '') as feature_id";
  return {
    rule: `each sum per ${bucket} equals its movements`,
    violations: `
      with moved as (
        select l.contract_id, l.service_id, l.limit_name,
          date_trunc('${bucket}', coalesce(l.used_at, l.created_at), 'UTC') as ${bucket}${feature},
          coalesce(sum(l.delta) filter (where l.kind in ('consume', 'revert', 'adjust')), 0) as counted,
          coalesce(-sum(l.delta) filter (where l.kind in ('reset', 'renew', 'remove')), 0) as cleared,
          coalesce(sum(l.late_amount), 0) as late,
          count(*) filter (where l.kind not in ('reset', 'renew', 'remove')) as entries
        from usage_ledger l
        where l.id <= ${upTo} and not (l.kind = 'adjust' and l.operation_id = 'carried')
        group by ${key}
      )
      select contract_id, service_id, limit_name, concat_ws(' ', r.counted, r.cleared, r.late, r.entries) as consumed,
        concat_ws(' ', m.counted, m.cleared, m.late, m.entries) as moved
      from usage_${table} r full join moved m using (${key})
      where (r.counted, r.cleared, r.late, r.entries) is distinct from (m.counted, m.cleared, m.late, m.entries)
        and coalesce(${bucket} > ${ledgerStart}, true)`,
  };
};

/**
 * Every balance equals the sum of its ledger rows, and what is held of it the sum of open holds. What was used of a block equals the
 * sum of its draws. The share of each limit is current.
 * Rows without a foreign key are of their contract's organization.
 */
const ledgerInvariants = (marks: Marks): readonly Invariant[] => [
  {
    rule: "each balance equals the sum of its movements",
    violations: `
      select u.contract_id, u.service_id, u.limit_name, u.consumed, coalesce(sum(l.delta), 0) as moved
      from usage_levels u
      left join usage_ledger l using (contract_id, service_id, limit_name)
      group by u.contract_id, u.service_id, u.limit_name, u.consumed
      having u.consumed <> coalesce(sum(l.delta), 0)`,
  },
  {
    rule: "the movements of a balance that is gone end at zero",
    violations: `
      select l.contract_id, l.service_id, l.limit_name, 0 as consumed, sum(l.delta) as moved
      from usage_ledger l
      left join usage_levels u using (contract_id, service_id, limit_name)
      where u.contract_id is null
      group by l.contract_id, l.service_id, l.limit_name
      having sum(l.delta) <> 0`,
  },
  {
    rule: "no movement is of a contract that is gone",
    violations: `
      select l.contract_id, l.service_id, l.limit_name, 0 as consumed, sum(l.delta) as moved
      from usage_ledger l
      where not exists (select 1 from contracts c where c.id = l.contract_id)
      group by l.contract_id, l.service_id, l.limit_name`,
  },
  {
    rule: "each movement, sum and hold is of its contract's organization",
    violations: `
      select r.contract_id, r.service_id, r.limit_name, c.organization_id as consumed, r.organization_id as moved
      from (
        select contract_id, organization_id, service_id, limit_name from usage_ledger
        union all select contract_id, organization_id, service_id, limit_name from usage_hours
        union all select contract_id, organization_id, service_id, limit_name from usage_days
        union all select contract_id, organization_id, '', feature_id from holds
      ) r join contracts c on c.id = r.contract_id
      where r.organization_id <> c.organization_id`,
  },
  {
    rule: "what is held of each limit equals the sum of its open holds",
    violations: `
      select u.contract_id, u.service_id, u.limit_name, u.held as consumed, coalesce(sum(o.amount), 0) as moved
      from usage_levels u
      left join (${OPEN_AMOUNTS}) o using (contract_id, service_id, limit_name)
      group by u.contract_id, u.service_id, u.limit_name, u.organization_id
      having u.held <> coalesce(sum(o.amount), 0) or u.open_holds <> count(o.amount) or u.hold_due > min(o.until)`,
  },
  {
    rule: "no open hold is of a balance that is gone",
    violations: `
      select o.contract_id, o.service_id, o.limit_name, 0 as consumed, sum(o.amount) as moved
      from (${OPEN_AMOUNTS}) o
      left join usage_levels u using (contract_id, service_id, limit_name)
      where u.contract_id is null
      group by o.contract_id, o.service_id, o.limit_name`,
  },
  {
    rule: "the consumed tenths of a limit follow from balance and limit",
    violations: `
      select contract_id, service_id, limit_name, consumed, used_tenths as moved
      from usage_levels
      where used_tenths is distinct from faregate_used_tenths(consumed, limit_value)`,
  },
  {
    rule: "contracts with the same version, plan and add-ons have the same limits",
    violations: `
      select min(u.contract_id) as contract_id, u.service_id, u.limit_name, min(u.limit_value) as consumed,
        max(u.limit_value) as moved
      from usage_levels u
      join contract_services cs using (contract_id, service_id)
      where u.limit_value is not null
      group by u.service_id, u.limit_name, cs.pricing_id, cs.plan, cs.add_ons::text
      having min(u.limit_value) <> max(u.limit_value)`,
  },
  rollUpInvariant("hours", marks),
  rollUpInvariant("days", marks),
  {
    rule: "what was used of each block, and what it keeps for open holds, equals the sum of its draws, and what it had left at its period's start follows from them",
    violations: `
      select b.contract_id, b.service_id, b.limit_name, concat_ws(' ', b.used, b.kept, b.period_left) as consumed,
        concat_ws(' ', coalesce(d.amount, 0), coalesce(d.kept, 0), b.amount - coalesce(d.of_periods, 0)) as moved
      from contract_blocks b
      left join (
        select block_id, sum(amount) filter (where kind <> 'kept') as amount, sum(amount) filter (where kind = 'kept') as kept,
          sum(amount) filter (where kind = 'period') as of_periods
        from block_draws group by block_id
      ) d on d.block_id = b.id
      where b.used <> coalesce(d.amount, 0) or b.kept <> coalesce(d.kept, 0)
        or (b.settled_at is null and b.period_left <> b.amount - coalesce(d.of_periods, 0))`,
  },
  {
    rule: "each contract has as many members as it counts, and each of its balances of seats is their number",
    violations: `
      select c.id as contract_id, '' as service_id, '' as limit_name, c.member_count as consumed, coalesce(m.members, 0) as moved
      from contracts c
      left join (select contract_id, count(*) as members from contract_members group by contract_id) m on m.contract_id = c.id
      where c.member_count <> coalesce(m.members, 0)
      union all
      select u.contract_id, u.service_id, u.limit_name, u.consumed, c.member_count
      from usage_levels u join contracts c on c.id = u.contract_id
      where u.counts_members and u.consumed <> c.member_count`,
  },
  {
    rule: "each block, draw and member is of a contract, and of its organization",
    violations: `
      select r.contract_id, '' as service_id, '' as limit_name, c.organization_id as consumed, r.organization_id as moved
      from (
        select contract_id, organization_id from contract_blocks
        union all select contract_id, organization_id from block_draws
        union all select contract_id, organization_id from contract_members
      ) r left join contracts c on c.id = r.contract_id
      where r.organization_id is distinct from c.organization_id`,
  },
  {
    rule: "what was used of each budget equals the sum of its movements, in windows that the ledger has whole",
    violations: `
      select b.contract_id, b.budget as service_id, b.spender as limit_name, b.used as consumed, coalesce(m.used, 0) as moved
      from budget_balances b
      left join (
        select l.contract_id, p.value ->> 0 as budget, p.value ->> 1 as spender, (p.value ->> 3)::numeric as since,
          sum((p.value ->> 2)::numeric) as used
        from usage_ledger l cross join lateral json_array_elements(l.budgets) p
        where l.budgets is not null group by 1, 2, 3, 4
      ) m on m.contract_id = b.contract_id and m.budget = b.budget and m.spender = b.spender
        and m.since = extract(epoch from b.since) * 1000
      where b.used <> coalesce(m.used, 0) and coalesce(b.since > ${marks.ledgerStart}, true)`,
  },
  {
    rule: "what is held of each budget equals the sum of its open holds",
    violations: `
      with held as (
        select h.contract_id, a.budget, a.spender, sum(a.amount) as amount
        from holds h cross join lateral json_to_recordset(h.budgets) as a (budget text, spender text, amount numeric)
        where h.state = 'open' and h.budgets is not null group by 1, 2, 3
      )
      select b.contract_id, b.budget as service_id, b.spender as limit_name, b.held as consumed, coalesce(h.amount, 0) as moved
      from budget_balances b left join held h using (contract_id, budget, spender)
      where b.held <> coalesce(h.amount, 0)`,
  },
  {
    rule: "each budget and its balance is of a contract that says so, and of its organization",
    violations: `
      select r.contract_id, '' as service_id, '' as limit_name, c.organization_id as consumed, r.organization_id as moved
      from (
        select contract_id, organization_id from budget_balances
        union all select contract_id, organization_id from contract_budgets
      ) r left join contracts c on c.id = r.contract_id
      where r.organization_id is distinct from c.organization_id
      union all
      select c.id, '', '', c.has_budgets::text, 'has_budgets' from contracts c
      where c.has_budgets <> exists (select 1 from contract_budgets b where b.contract_id = c.id)`,
  },
];

/** Returns the rules that balances and movements keep, for the snapshot of a repeatable-read transaction. */
export const readLedgerInvariants = async (tx: Database): Promise<readonly Invariant[]> =>
  ledgerInvariants(await readMarks(tx));

/**
 * A balance that differs from the sum of its ledger rows, or an amount held from that of open holds. Amounts are decimal
 * texts.
 */
export interface LedgerViolation {
  rule: string;
  contractId: string;
  serviceId: string;
  limitName: string;
  consumed: string;
  moved: string;
}

/** Counts balances and ledger rows and lists every violation, all in one repeatable-read snapshot. */
export async function checkLedger(
  db: Database,
): Promise<{ balances: number; movements: number; violations: LedgerViolation[] }> {
  const isRollUpHeld = await isDistributed(db);
  return db.transaction(
    async (tx) => {
      // The first statement: workers of a distributed database have no snapshot in common.
      if (isRollUpHeld) await holdRollUp(tx);
      const [counted] = await tx.execute<{ balances: string; movements: string }>(sql`
        select (select count(*) from usage_levels) as balances, (select count(*) from usage_ledger) as movements`);
      const violations: LedgerViolation[] = [];
      for (const { rule, violations: statement } of await readLedgerInvariants(tx)) {
        const rows = await tx.execute<
          Record<"contract_id" | "service_id" | "limit_name" | "consumed" | "moved", string>
        >(sql.raw(statement));
        for (const row of rows) {
          violations.push({
            rule,
            contractId: row.contract_id,
            serviceId: row.service_id,
            limitName: row.limit_name,
            consumed: row.consumed,
            moved: row.moved,
          });
        }
      }
      return { balances: Number(counted?.balances), movements: Number(counted?.movements), violations };
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  );
}
