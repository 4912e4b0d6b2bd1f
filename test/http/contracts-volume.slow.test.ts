import { sql } from "drizzle-orm";
import { expect, onTestFinished, test } from "vitest";
import { createTestApi } from "../support/api.ts";
import { contract, type ContractBody, tasker, upload } from "../support/contracting.ts";

test("a group of 5,000 is novated in one transaction, billed anew and deleted", async () => {
  const api = await createTestApi();
  onTestFinished(() => api.close());
  const big = await api.newOrganization(api.callers.outsider, "Big");
  await upload(api, big.key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01" }));
  const seed = await contract(api, big.key, "seed", { groupId: "big" });
  const { db } = api.resources;
  await db.execute(sql`
    insert into contracts (id, organization_id, user_id, username, group_id, start_date, end_date)
    select 'c' || lpad(to_hex(n), 23, '0'), organization_id, 'big' || n, 'big' || lpad(n::text, 5, '0'), group_id, start_date, end_date
    from contracts, generate_series(1, 4999) n where id = ${seed.id}`);
  await db.execute(sql`
    insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, plan)
    select c.id, c.organization_id, s.service_id, s.pricing_id, 0, 'PRO' from contracts c, contract_services s
    where s.contract_id = ${seed.id} and c.organization_id = ${big.id} and c.id <> ${seed.id}`);
  await db.execute(sql`
    insert into usage_levels
      (contract_id, organization_id, service_id, limit_name, position, consumed, anchor, reset_at, period_value, period_unit)
    select c.id, c.organization_id, u.service_id, u.limit_name, u.position, 0, u.anchor, u.reset_at, u.period_value, u.period_unit
    from contracts c, usage_levels u where u.contract_id = ${seed.id} and c.organization_id = ${big.id} and c.id <> ${seed.id}`);
  const before = process.cpuUsage();
  const novated = await api.call<ContractBody[]>("PUT", "/contracts?groupId=big", {
    key: big.key,
    body: {
      contractedServices: { tasker: "2.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    },
  });
  expect(process.cpuUsage(before).user / 1000).toBeLessThan(10_000);
  expect(novated.status).toBe(200);
  expect(novated.body).toHaveLength(5000);
  for (const one of novated.body) {
    expect(one.contractedServices).toEqual({ tasker: "2.0.0" });
    expect(one.history).toHaveLength(1);
  }
  const billed = await api.call<ContractBody[]>("PUT", "/contracts/billingPeriod", {
    key: big.key,
    body: { renewalDays: 2 },
  });
  expect(billed.body).toHaveLength(5000);
  expect((await api.call("DELETE", "/contracts", { key: big.key })).status).toBe(204);
}, 240_000);
