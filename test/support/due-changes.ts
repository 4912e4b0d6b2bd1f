import type { Connection } from "../../src/db/postgres/connect.ts";
import { meterPricing } from "./pricings.ts";
import { contractUsers } from "./seed.ts";

/** A pricing with two plans and a counted limit. */
export const TWO_PLANS = meterPricing(
  "{ valueType: NUMERIC, defaultValue: 100, unit: call, type: NON_RENEWABLE, trackable: true }",
  `  SMALL: { price: 0, features: null }
  LARGE: { price: 1, features: null, usageLimits: { calls: { value: 100000 } } }`,
);

/** Contracts `count` end users, `user-1` and so on, to SMALL. Returns a key of scope ALL. */
export async function contractMany(connection: Connection, count: number): Promise<string> {
  const key = await contractUsers(connection, {
    pricing: TWO_PLANS,
    service: "meter",
    plan: "SMALL",
    userIds: ["model"],
  });
  const sql = connection.client;
  await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date)
    select 'b' || lpad(to_hex(n), 23, '0'), c.organization_id, 'user-' || n, 'user-' || n, c.start_date, c.end_date
    from contracts c, generate_series(1, ${count}::integer) n`;
  await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan)
    select c.id, cs.service_id, cs.pricing_id, 0, 'SMALL' from contracts c, contract_services cs
    where c.user_id like 'user-%'`;
  await sql`insert into usage_levels (contract_id, service_id, limit_name, position, consumed)
    select contract_id, service_id, 'calls', 0, 0 from contract_services on conflict do nothing`;
  await sql`insert into contract_states
      (contract_id, since, cause, start_date, end_date, auto_renew, renewal_days, services, levels)
    select c.id, s.since, 'creation', c.start_date, c.end_date, c.auto_renew, c.renewal_days, s.services, s.levels
    from contracts c, contract_states s where c.user_id like 'user-%'`;
  await sql`analyze`;
  return key;
}

/** Schedules LARGE for these contracts, as user-`from` to user-`to`, all for one moment. */
export async function scheduleMany(
  connection: Connection,
  { from, to, at }: { from: number; to: number; at: Date },
): Promise<void> {
  const sql = connection.client;
  const chosen = sql`c.user_id like 'user-%' and substr(c.user_id, 6)::integer between ${from}::integer and ${to}::integer`;
  await sql.begin(async (tx) => {
    await tx`insert into scheduled_changes (id, organization_id, kind, state, contract_id, at, created_at, actor_kind)
      select 'c' || substr(c.id, 2), c.organization_id, 'novation', 'pending', c.id, ${at.toISOString()}::timestamptz, now(), 'key'
      from contracts c where ${chosen}`;
    await tx`insert into scheduled_subscriptions
        (change_id, position, service_id, pricing_id, service_name, version, plan)
      select 'c' || substr(cs.contract_id, 2), 0, cs.service_id, cs.pricing_id, 'meter', '1.0.0', 'LARGE'
      from contract_services cs join contracts c on c.id = cs.contract_id where ${chosen}`;
    await tx`update contracts c set change_at = ${at.toISOString()}::timestamptz where ${chosen}`;
  });
  await sql`analyze`;
}
