import { sql } from "drizzle-orm";
import { expect } from "vitest";
import { numberEvents } from "../../src/db/queries/outbox.ts";
import { type Invariant, readLedgerInvariants } from "../../src/db/invariants.ts";
import type { TestDatabase } from "./database.ts";
import { rowsOfOtherOrganizations } from "./organizations.ts";

const INVARIANTS: readonly Invariant[] = [
  {
    rule: "a contracted service is enabled, of the contract's organization, and of the version's service",
    violations: `
      select cs.* from contract_services cs
      left join contracts c on c.id = cs.contract_id
      left join services s on s.id = cs.service_id
      left join pricings p on p.id = cs.pricing_id
      where s.id is null or p.id is null or c.id is null
        or s.disabled or s.organization_id <> c.organization_id or p.service_id <> s.id`,
  },
  {
    rule: "the newest record of a contract is what it contracts now",
    violations: `
      select c.id, r.cause, r.services, n.services as now
      from contracts c
      cross join lateral (
        select coalesce(json_agg(json_build_object(
          'serviceId', s.id, 'key', s.name_key, 'disabled', s.disabled, 'pricingId', p.id, 'version', p.version,
          'hash', p.model_hash, 'plan', cs.plan, 'addOns', cs.add_ons) order by cs.position), '[]') as services
        from contract_services cs join services s on s.id = cs.service_id join pricings p on p.id = cs.pricing_id
        where cs.contract_id = c.id
      ) n
      left join lateral (select * from contract_states where contract_id = c.id order by id desc limit 1) r on true
      where n.services::jsonb is distinct from r.services::jsonb
        or row(c.start_date, c.end_date, c.auto_renew, c.renewal_days)
          is distinct from row(r.start_date, r.end_date, r.auto_renew, r.renewal_days)`,
  },
  {
    rule: "a scheduled subscription names the contract of its change",
    violations: `
      select x.* from scheduled_subscriptions x
      where not exists (select 1 from scheduled_changes s where s.contract_id = x.contract_id and s.id = x.change_id)`,
  },
  {
    rule: "an enabled service has an active version, a disabled one has none",
    violations: `
      select s.id, s.name, s.disabled from services s
      where s.disabled = exists (select from pricings p where p.service_id = s.id and p.availability = 'active')`,
  },
  {
    rule: "every owner has one default organization",
    violations: `
      select owner_id, count(*) filter (where is_default) as defaults from organizations
      group by owner_id having count(*) filter (where is_default) <> 1`,
  },
  {
    rule: "the outbox has every id from its first to the counter's",
    violations: `
      select count(*) as rows, min(id), max(id), (select last_id from outbox_counter) as last
      from outbox
      having count(*) > 0 and (count(*) <> max(id) - min(id) + 1 or max(id) <> (select last_id from outbox_counter))`,
  },
];

/** Checks every invariant of the database; fails with the violating rows. */
export async function expectBalancesMatchLedger(database: TestDatabase): Promise<void> {
  await database.connection.db.transaction(
    async (tx) => {
      const rules = [...(await readLedgerInvariants(tx)), ...INVARIANTS];
      // All at once, because most of the time of one statement is its way to the server and back.
      const found = await Promise.all(rules.map(({ violations }) => tx.execute(sql.raw(violations))));
      for (const [at, { rule }] of rules.entries()) {
        expect({ rule, found: [...(found[at] ?? ["no answer"])] }).toEqual({ rule, found: [] });
      }
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  );
  expect(await rowsOfOtherOrganizations(database.connection.client)).toEqual([]);
}

/** A row of the outbox. */
export interface RecordedEvent {
  code: string;
  details: Record<string, string>;
}

/** Returns the public events of the outbox in order, except those of contracts, which have their own tests. */
export async function recordedEvents(database: TestDatabase): Promise<RecordedEvent[]> {
  await numberEvents(database.connection.db);
  const rows = await database.connection.db.execute<{ code: string; details: Record<string, string> }>(
    sql`select code, details from outbox where code like 'PRICING%' or code like 'SERVICE%' order by id`,
  );
  return rows.map(({ code, details }) => ({ code, details }));
}

/** Runs `work` and returns its result with the events recorded meanwhile. */
export async function eventsDuring<T>(
  database: TestDatabase,
  work: () => Promise<T>,
): Promise<{ result: T; events: RecordedEvent[] }> {
  const before = (await recordedEvents(database)).length;
  const result = await work();
  return { result, events: (await recordedEvents(database)).slice(before) };
}
