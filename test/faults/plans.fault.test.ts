import { drizzle } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { overTcp } from "../../src/db/postgres/address.ts";
import type { Connection } from "../../src/db/postgres/connect.ts";
import * as schema from "../../src/db/schema.ts";
import { createApp } from "../../src/http/app.ts";
import { announceExpired, renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, contractFor, tasker, upload } from "../support/contracting.ts";
import { spread } from "../support/seed.ts";
import { yamlUpload } from "../support/uploads.ts";

/*
 * Query plans of each route over 20,000 contracts in 1,000 organizations: no statement may scan a large table.
 * auto_explain reports the plans that ran.
 */

const ORGANIZATIONS = 1000;
/** Postgres reads a table of this size by index only where it also does so with 100,000: a scan costs less here. */
const CONTRACTS = 20_000;
/** Tables that grow with customers and with time. */
const LARGE = new Set([
  "users",
  "organizations",
  "organization_keys",
  "services",
  "pricings",
  "contracts",
  "contract_services",
  "contract_history",
  "contract_states",
  "contract_overrides",
  "scheduled_changes",
  "scheduled_subscriptions",
  "given_trials",
  "deleted_pricings",
  "usage_resets",
  "usage_levels",
  "holds",
  "outbox",
  "audit_log",
  "idempotency_keys",
  "pricing_decisions",
  "denials",
]);

interface Plan {
  "Node Type": string;
  "Relation Name"?: string;
  Plans?: Plan[];
}
interface Explained {
  "Query Text": string;
  Plan: Plan;
}

let api: TestApi;
/** Partitions of the ledger that have rows. */
let filled: string[] = [];
let explained: Explained[] = [];
let connection: Connection;
let app: ReturnType<typeof createApp>;

beforeAll(async () => {
  api = await createTestApi();
  const key = api.callers.all.key;
  await upload(api, key, tasker(), tasker({ version: "2.0.0" }));
  await contract(api, key, "one");
  await seed();
  const client = postgres(overTcp(api.database.url), {
    max: 3,
    onnotice: ({ message = "" }) => {
      const json = /plan:\s*(\{[\s\S]*\})/.exec(message)?.[1];
      if (json !== undefined) explained.push(JSON.parse(json) as Explained);
    },
    connection: { TimeZone: "UTC", client_min_messages: "log" },
  });
  connection = {
    client,
    db: drizzle(client, { schema }),
    waiting: { now: 0, refused: 0 },
    close: () => client.end({ timeout: 0 }),
  };
  const { keyring, settings, now } = api.resources;
  const resources = createResources(connection, { keyring, settings, now });
  app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
}, 180_000);
afterAll(async () => {
  await connection.close();
  await api.close();
});

async function seed(): Promise<void> {
  const sql = api.database.connection.client;
  await spread(sql, { organizations: ORGANIZATIONS, contracts: CONTRACTS });
  await sql`insert into usage_ledger
      (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
    select 'contract-' || n, (select organization_id from contracts where id = 'contract-' || n), 'service-' || (n % ${ORGANIZATIONS} + 1), 'maxExports', 'consume', 'tasker-bulk', 'seeded', 0, now()
    from generate_series(1, ${CONTRACTS}) n`;
  await sql`insert into holds
      (id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until, ended_at)
    select 'hold-' || id, id, organization_id, 'tasker-bulk', '[]', 'release', 'released', now(), now(), now()
    from contracts where id like 'contract-%'`;
  await sql`insert into contract_history
      (contract_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons)
    select 'contract-' || n, now(), now(), '{}', '{}', '{}' from generate_series(1, ${CONTRACTS}) n`;
  await sql`insert into contract_states
      (contract_id, since, cause, start_date, end_date, auto_renew, renewal_days, services, levels)
    select 'contract-' || n, now(), 'record', now(), now(), true, 30, '[]', '[]' from generate_series(1, ${CONTRACTS}) n`;
  await sql`insert into contract_overrides
      (contract_id, service_id, kind, name, mode, value, starts_at, ends_at, reason, set_at, actor_kind)
    select contract_id, service_id, 'usageLimits', 'maxTasks', 'add', '5', now(), now() + interval '1 day', 'seeded', now(), 'key'
    from contract_services where contract_id like 'contract-%'`;
  await sql`insert into scheduled_changes
      (id, organization_id, kind, state, contract_id, at, created_at, actor_kind)
    select 'change-' || id, organization_id, 'novation', 'pending', id, now() + interval '1 day', now(), 'key'
    from contracts where id like 'contract-%'`;
  await sql`insert into scheduled_subscriptions (change_id, position, service_id, pricing_id, service_name, version, plan)
    select 'change-' || contract_id, 0, service_id, pricing_id, 'tasker', '1.0.0', 'FREE'
    from contract_services where contract_id like 'contract-%'`;
  await sql`insert into given_trials (organization_id, user_id, service_id)
    select c.organization_id, c.user_id, cs.service_id from contract_services cs join contracts c on c.id = cs.contract_id
    where cs.contract_id like 'contract-%'`;
  await sql`update contracts set change_at = now() + interval '1 day' where id like 'contract-%'`;
  await sql`insert into usage_resets (contract_id, service_id, limit_name, at, reset_at)
    select 'contract-' || n, 'service', 'maxExports', now(), now() from generate_series(1, ${CONTRACTS}) n`;
  await sql`insert into audit_log (at, organization_id, actor_kind, action, target)
    select now(), 'org-' || (n % ${ORGANIZATIONS} + 1), 'user', 'seeded', 'seeded' from generate_series(1, 20000) n`;
  await sql`insert into pricing_decisions (service_id, organization_id, pricing_id, action, at, actor_kind, rules, report)
    select 'service-' || (n % ${ORGANIZATIONS} + 1), 'org-' || (n % ${ORGANIZATIONS} + 1), 'pricing-' || (n % ${ORGANIZATIONS} + 1), 'novation', now(), 'user', '[]', '{}'
    from generate_series(1, 20000) n`;
  await sql`insert into denials (organization_id, hour, feature_id, reason, count)
    select 'org-' || (n % ${ORGANIZATIONS} + 1), date_trunc('hour', now()) - (n % 200) * interval '1 hour', 'tasker-' || n, 'NOT_GRANTED', 1
    from generate_series(1, 20000) n`;
  await sql`insert into idempotency_keys (scope, organization_id, key, fingerprint, created_at)
    select 'org-' || (n % ${ORGANIZATIONS} + 1), 'org-' || (n % ${ORGANIZATIONS} + 1), 'seeded-' || n, 'seeded', now() from generate_series(1, 20000) n`;
  await sql`insert into outbox (id, organization_id, code, details)
    select n, 'org-' || (n % ${ORGANIZATIONS} + 1), 'PRICING_CREATED', '{}' from generate_series(1000, 20000) n`;
  await sql`update outbox_counter set last_id = 20000`;
  const name = new URL(api.database.url).pathname.slice(1);
  for (const [setting, value] of [
    ["session_preload_libraries", "auto_explain"],
    ["auto_explain.log_min_duration", "0"],
    ["auto_explain.log_nested_statements", "on"],
    ["auto_explain.log_format", "json"],
  ]) {
    await sql.unsafe(`alter database "${name}" set ${setting} = '${value}'`);
  }
  await sql.unsafe("vacuum analyze");
  const partitions = await sql<{ name: string }[]>`
    select relname as name from pg_class where relispartition and relkind = 'r' and reltuples > 1000`;
  filled = partitions.map(({ name }) => name);
  expect(filled).toHaveLength(1);
}

/** True for a large table, and for the partition of the ledger that has its rows. */
const isLarge = (relation: string): boolean => LARGE.has(relation) || filled.includes(relation);

function scans(plan: Plan): string[] {
  const relation = plan["Relation Name"];
  const own = plan["Node Type"] === "Seq Scan" && relation !== undefined && isLarge(relation) ? [relation] : [];
  return [...own, ...(plan.Plans ?? []).flatMap(scans)];
}

/** Time of the tests' clock. */
const THEN = "2025-06-15T10:00:00Z";
const body = (value: unknown) => JSON.stringify(value);
const CALLS: [title: string, method: string, path: string, body?: string | FormData][] = [
  ["one feature", "POST", "/features/one/tasker-board", "{}"],
  ["a consumption", "POST", "/features/one/tasker-board", body({ "tasker-maxTasks": 1 })],
  ["a revert", "POST", "/features/one/tasker-board?revert=true"],
  ["all features", "POST", "/features/one?details=true"],
  ["all features at a past moment", "POST", `/features/one?details=true&at=${THEN}`],
  ["a contract at a past moment", "GET", `/contracts/one?at=${THEN}`],
  ["a token", "POST", "/features/one/pricing-token"],
  ["the features there are", "GET", "/features"],
  ["one contract", "GET", "/contracts/one"],
  ["a page of contracts", "GET", "/contracts?limit=20&sort=username"],
  ["contracts by name", "GET", "/contracts?username=one"],
  ["contracts that end soon", "GET", "/contracts?state=ending"],
  ["contracts near a limit", "GET", "/contracts?near=0.8"],
  ["overrides", "GET", "/overrides?state=active"],
  ["a contract's overrides", "GET", "/contracts/one/overrides"],
  ["scheduled changes", "GET", "/scheduled"],
  ["a service's scheduled changes", "GET", "/services/Tasker/scheduled"],
  ["a contract's scheduled changes", "GET", "/contracts/one/scheduled"],
  ["the overview", "GET", "/organizations/{organizationId}/overview"],
  ["denials", "GET", "/organizations/{organizationId}/denials"],
  ["trends", "GET", "/organizations/{organizationId}/trends"],
  ["a new contract", "POST", "/contracts", body(contractFor("two"))],
  ["a novation", "PUT", "/contracts/two", body({ ...contractFor("two"), subscriptionPlans: { tasker: "BASIC" } })],
  ["usage put right", "PUT", "/contracts/two/usageLevels", body({ tasker: { maxTasks: 1 } })],
  ["a contact changed", "PUT", "/contracts/two/userContact", body({ firstName: "Two" })],
  ["a contract deleted", "DELETE", "/contracts/two"],
  ["services", "GET", "/services"],
  ["one service", "GET", "/services/tasker"],
  ["its pricings", "GET", "/services/tasker/pricings"],
  ["one pricing", "GET", "/services/tasker/pricings/1.0.0"],
  ["two pricings compared", "GET", "/services/tasker/diff?from=1.0.0&to=2.0.0"],
  ["what disabling would do", "POST", "/services/tasker/impact", body({ action: "disable" })],
  ["what archiving would do", "POST", "/services/tasker/impact", body({ action: "archive", pricingVersion: "1.0.0" })],
  ["a novation of all", "POST", "/services/tasker/novations", body({ pricingVersion: "2.0.0" })],
  ["what was decided on", "GET", "/services/tasker/decisions"],
  [
    "an archived pricing",
    "PUT",
    "/services/tasker/pricings/1.0.0?availability=archived",
    body({ subscriptionPlan: "PRO", subscriptionAddOns: {} }),
  ],
  ["a new service", "POST", "/services", yamlUpload(tasker({ name: "Planned" }))],
  ["a service deleted", "DELETE", "/services/planned"],
];

test.each(CALLS)("%s reads no large table from one end to the other", async (_, method, path, given) => {
  explained = [];
  const { organizationId, owner, all } = api.callers;
  const answer = await app.request(`/api/v1${path.replace("{organizationId}", organizationId)}`, {
    method,
    headers: {
      "x-api-key": path.startsWith("/organizations/") ? owner.key : all.key,
      ...(typeof given === "string" ? { "content-type": "application/json" } : {}),
    },
    ...(given === undefined ? {} : { body: given }),
  });
  expect(answer.status, await answer.text()).toBeLessThan(300);
  expect(explained.length).toBeGreaterThan(0);
  const bad = explained.flatMap((one) => scans(one.Plan).map((table) => `${table}: ${one["Query Text"]}`));
  expect(bad).toEqual([]);
});

test("the sweeps for contracts that have ended read no large table from one end to the other", async () => {
  await api.database.connection.client`update contracts set auto_renew = true, end_date = now() + interval '1 day'`;
  await api.database.connection.client.unsafe("vacuum analyze contracts");
  explained = [];
  expect(await renewDueContracts(connection.db, new Date())).toBe(0);
  expect(await announceExpired(connection.db, new Date())).toBe(0);
  expect(explained).toHaveLength(2);
  expect(explained.flatMap((one) => scans(one.Plan))).toEqual([]);
});
