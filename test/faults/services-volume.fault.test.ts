import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { contract, type FamilyCalls, familyCalls } from "../support/service-calls.ts";

/** More than the parameters that one statement may have. */
const MANY = 66_000;

let api: TestApi;
let to: FamilyCalls;
beforeAll(async () => {
  api = await createTestApi();
  to = familyCalls(api, "/services");
  // Without usage limits, whose rows would only slow the test down.
  const lean = { name: "Large", usageLimits: " {}", features: `\n  export: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN }`, addOns: " {}" }; // prettier-ignore
  await to.create(lean);
  await to.add({ ...lean, version: "2.0.0", createdAt: "2025-04-01" });
  await contract(api, "model", { Large: { version: "1.0.0", plan: "PRO" } });
  // Copies one contract in SQL: creating them through the API would take minutes.
  const { client } = api.database.connection;
  await client`
    insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew, renewal_days)
    select lpad(to_hex(n), 24, '0'), organization_id, 'user-' || n, username, start_date, end_date, auto_renew, renewal_days
    from contracts, generate_series(1, ${MANY}::int) n where user_id = 'model'`;
  await client`
    insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, plan, add_ons)
    select lpad(to_hex(n), 24, '0'), organization_id, service_id, pricing_id, position, plan, add_ons
    from contract_services, generate_series(1, ${MANY}::int) n`;
  await client`analyze`;
});
afterAll(() => api.close());

test("a version with more contracts than a statement has parameters is archived, and its service removed", async () => {
  const count = async (version: string) => {
    const [row] = await api.database.connection.client<{ n: number }[]>`
      select count(*)::int as n from contract_services cs join pricings p on p.id = cs.pricing_id
      join services s on s.id = p.service_id where s.name = 'Large' and p.version = ${version}`;
    return row?.n;
  };
  expect(await to.archive("Large", "1.0.0", { subscriptionPlan: "FREE" })).toMatchObject({ status: 200 });
  expect([await count("1.0.0"), await count("2.0.0")]).toEqual([0, MANY + 1]);
  await expectBalancesMatchLedger(api.database);
  expect((await to.call("DELETE", "/Large")).status).toBe(204);
  expect(await count("2.0.0")).toBe(0);
  await expectBalancesMatchLedger(api.database);
});
