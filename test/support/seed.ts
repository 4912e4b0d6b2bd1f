import type { MaybePromise } from "../../src/core/maybe-promise.ts";
import type { Sql } from "postgres";
import type { Connection } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import type { Resources } from "../../src/operations/context.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { testKeyring } from "./event-server.ts";

/** Opens the resources of a process that was started with TEST_SECRETS, to prepare its database. */
export async function seedResources(connection: Connection): Promise<Resources> {
  const settings = { tokenLifetimeSeconds: 3600, allowPublicSignup: true };
  return createResources(connection, { keyring: await testKeyring(), settings });
}

/**
 * Fills an empty, migrated database through the application, for processes started with TEST_SECRETS. Creates an ADMIN,
 * an organization, one pricing, and a contract per end user.
 * @returns a key of scope ALL.
 */
export async function contractUsers(
  connection: Connection,
  input: { pricing: string; service: string; plan: string; userIds: readonly string[] },
): Promise<string> {
  const resources = await seedResources(connection);
  await seedFirstAdmin(resources, { username: "admin", password: "password", organizationName: "Seeded" });
  const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
  const call = async (path: string, key: string, body: unknown) => {
    const isForm = body instanceof FormData;
    const answer = await app.request(`/api/v1${path}`, {
      method: "POST",
      headers: { "x-api-key": key, ...(isForm ? {} : { "content-type": "application/json" }) },
      body: isForm ? body : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const { apiKey } = await call("/users/authenticate", "", { username: "admin", password: "password" });
  const organization = await call("/organizations", apiKey, { name: "Seeded", owner: "admin" });
  const key: string = organization.apiKeys[0].key;
  const form = new FormData();
  form.append("pricing", new Blob([input.pricing]), "pricing.yml");
  await call("/services", key, form);
  for (const userId of input.userIds) {
    await call("/contracts", key, {
      userContact: { userId, username: userId },
      contractedServices: { [input.service]: "1.0.0" },
      subscriptionPlans: { [input.service]: input.plan },
      subscriptionAddOns: {},
    });
  }
  await resources.callCounter.flush();
  return key;
}

/**
 * Inserts many organizations and contracts directly into the database. Organizations `org-1`, `org-2`, … each get an
 * owner, a key `key-1`, … and a copy of the contracted pricing. End users `end-1`, `end-2`, … are distributed over
 * them; their contracts copy the first one. `hashOf` returns the stored hash of an organization's key.
 */
export async function spread(
  sql: Sql,
  {
    organizations,
    contracts,
    hashOf,
  }: { organizations: number; contracts: number; hashOf?: (n: number) => MaybePromise<string> },
): Promise<void> {
  const [model] = await sql<{ service: string; pricing: string; contract: string }[]>`
    select cs.service_id as service, cs.pricing_id as pricing, cs.contract_id as contract from contract_services cs limit 1`;
  if (model === undefined) throw new Error("there is no contract to be like");
  const { service, pricing, contract } = model;
  const copies = sql`generate_series(1, ${organizations}::int) n`;
  const ends = sql`generate_series(1, ${contracts}::int) n`;
  const numbers = Array.from({ length: organizations }, (_, i) => i + 1);
  const hashes = await Promise.all(numbers.map((n) => hashOf?.(n) ?? `hash-${n}`));
  await sql`insert into users (id, username, password_hash, role) select 'user-' || n, 'seeded-' || n, 'x', 'USER' from ${copies}`;
  await sql`insert into organizations (id, name, owner_id) select 'org-' || n, 'Seeded ' || n, 'user-' || n from ${copies}`;
  await sql`insert into organization_keys (id, organization_id, scope, key_hash, key_sealed)
    select 'key-' || n, 'org-' || n, 'ALL', hash, 'sealed' from unnest(${hashes}::text[]) with ordinality as given (hash, n)`;
  await sql`insert into services (id, organization_id, name, name_key)
    select 'service-' || n, 'org-' || n, name, name_key from services, ${copies} where id = ${service}`;
  const columns = await sql<{ name: string }[]>`
    select quote_ident(column_name) as name from information_schema.columns
    where table_name = 'pricings' and column_name not in ('id', 'organization_id', 'service_id', 'yaml_path') and is_identity = 'NO'`;
  const names = columns.map(({ name }) => name).join(", ");
  await sql.unsafe(
    `insert into pricings (id, organization_id, service_id, yaml_path, ${names})
     select 'pricing-' || n, 'org-' || n, 'service-' || n, 'seeded-' || n, ${names} from pricings, generate_series(1, $1::int) n where id = $2`,
    [organizations, pricing],
  );
  await sql`insert into contracts (id, organization_id, user_id, username, group_id, start_date, end_date, auto_renew)
    select 'contract-' || n, 'org-' || (n % ${organizations}::int + 1), 'end-' || n, 'end-' || n, 'group-' || n / 1000, now(),
      now() + interval '1 year', true
    from ${ends}`;
  await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan)
    select 'contract-' || n, 'service-' || (n % ${organizations}::int + 1), 'pricing-' || (n % ${organizations}::int + 1), 0, plan
    from contract_services, ${ends} where contract_id = ${contract}`;
  await sql`insert into usage_levels (contract_id, service_id, limit_name, position, limit_value, used_tenths)
    select 'contract-' || n, 'service-' || (n % ${organizations}::int + 1), limit_name, position, limit_value, 0
    from usage_levels, ${ends} where contract_id = ${contract}`;
}
