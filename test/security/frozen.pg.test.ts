import { eq } from "drizzle-orm";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findRule } from "../../src/core/access/find-rule.ts";
import { organizations } from "../../src/db/schema.ts";
import type { Operation } from "../../src/wire/operation.ts";
import { OPERATIONS } from "../../src/wire/operations.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { createTenants, keepState, nameOf, pathOf, sampleOf, type Tenants } from "./tenants.ts";

let api: TestApi;
let tenants: Tenants;
let restore: () => Promise<void>;

beforeAll(async () => {
  api = await createTestApi();
  tenants = await createTenants(api);
  const frozenAt = api.resources.now();
  await api.resources.db
    .update(organizations)
    .set({ frozenAt })
    .where(eq(organizations.id, api.callers.organizationId));
  ({ restore } = await keepState(api));
});
afterAll(() => api.close());

const ruleOf = ({ method, path, base }: Operation) => findRule(method, path.replace(/\{[^}]+\}/g, "x"), base);

/** Calls that may change something of one organization. */
const CHANGES = OPERATIONS.filter((operation) => {
  const access = ruleOf(operation)?.access;
  if (operation.method === "GET" || access === undefined || access === "public") return false;
  return operation.path.startsWith("/organizations/{organizationId}") || access.keys.includes("ALL");
});

test.each(CHANGES.map((operation) => [nameOf(operation), operation] as const))(
  "%s of a frozen organization is refused unless it reads",
  async (_, operation) => {
    const { query = "", body } = sampleOf(operation, tenants.own, api.callers.owner);
    const inside = operation.path.startsWith("/organizations/");
    const answer = await api.call(operation.method, `${pathOf(operation, tenants.own)}${query}`, {
      key: inside ? api.callers.owner.key : api.callers.all.key,
      body,
    });
    await restore();
    if (ruleOf(operation)?.reads === true) expect(answer.status).toBeLessThan(500);
    else
      expect(answer).toMatchObject({
        status: 503,
        body: { error: "The organization is being moved. Please try again" },
      });
  },
);
