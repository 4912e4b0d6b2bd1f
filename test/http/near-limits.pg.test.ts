import { afterAll, beforeAll, expect, test } from "vitest";
import { fillLimitValues } from "../../src/operations/numeric-limits.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

/* The limits that balances keep. Histories are in near-limits.slow.test.ts. */

let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker());
});
afterAll(() => api.close());

test("balances without a limit are filled in many small transactions, unlimited ones with infinity", async () => {
  const { client } = api.database.connection;
  await contract(api, key, "one");
  const [row] = await client<Record<"service_id" | "pricing_id", string>[]>`
    select service_id, pricing_id from contract_services limit 1`;
  const { service_id: service = "", pricing_id: pricing = "" } = row ?? {};
  await client`insert into contracts (id, organization_id, user_id, username, start_date, end_date)
    select 'old-' || n, ${api.callers.organizationId}, 'old-' || n, 'old', '2025-06-01', '2025-12-01'
    from generate_series(1, 2500) n`;
  await client`insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
    select 'old-' || n, ${service}, ${pricing}, 0, 'PRO', '{}' from generate_series(1, 2500) n`;
  await client`insert into usage_levels (contract_id, service_id, limit_name, position, consumed)
    select 'old-' || n, ${service}, name, 0, 12 from generate_series(1, 2500) n, unnest(array['maxTasks', 'gone']) name`;
  await fillLimitValues(api.resources);
  const found = await client`select limit_name, limit_value::text, used_tenths, count(*)::integer from usage_levels
    where contract_id like 'old-%' group by 1, 2, 3 order by 1`;
  expect([...found]).toEqual([
    { limit_name: "gone", limit_value: "Infinity", used_tenths: 0, count: 2500 },
    { limit_name: "maxTasks", limit_value: "20", used_tenths: 6, count: 2500 },
  ]);
});
