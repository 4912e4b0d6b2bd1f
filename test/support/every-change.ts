import { expect } from "vitest";
import type { Method, TestApi } from "./api.ts";
import { contractFor, tasker } from "./contracting.ts";
import { yamlUpload } from "./uploads.ts";

/*
 * One successful call of every mutating route, for tests of effects that every change must have. A route without a step
 * here fails test/http/audit-log.pg.test.ts.
 */

/** A call, and the audit log entries that it causes. */
export interface Step {
  /** Method and path, as the route is declared. */
  route: string;
  actions: string[];
  key: string;
  path?: string;
  body?: unknown;
  /** Fields that one of the entries must contain. */
  entry?: object;
}

/** Executes a step's call and returns the response body. */
export type Take = (step: Step, ids: Readonly<Record<string, string>>) => Promise<Taken>;
interface Taken {
  id?: string;
  url?: string;
  changeRequest?: { id: string };
  apiKeys?: { id: string }[];
}

/** Calls a step's route with these ids in its path, and expects success. */
export async function callStep(
  api: TestApi,
  { route, key, path, body }: Step,
  ids: Readonly<Record<string, string>>,
  headers: Record<string, string> = {},
): Promise<Taken> {
  const [method = "", pattern = ""] = route.split(" ");
  const asked = (path ?? pattern).replace(/:\w+/g, (name) => ids[name.slice(1)] ?? name);
  const answer = await api.call<Taken>(method as Method, asked, { key, body, headers });
  expect(answer.status, `${method} ${asked} ${JSON.stringify(answer.body)}`).toBeLessThan(300);
  return answer.body;
}

/** Runs the steps of accounts, organizations, members, keys and instance settings. */
export async function changeAccounts(api: TestApi, taken: Take): Promise<void> {
  let ids: Record<string, string> = {};
  const take = (step: Step) => taken(step, ids);
  const { platformAdmin, owner } = api.callers;
  const admin = platformAdmin.key;
  const newcomer = { username: "newcomer", password: "sesame-open" };
  await take({
    route: "POST /users",
    actions: ["user.create", "organization.create"],
    key: admin,
    body: newcomer,
    entry: {
      organizationId: null,
      actor: { kind: "user", id: platformAdmin.id, name: platformAdmin.username },
      target: "newcomer",
      before: null,
      after: expect.objectContaining({ username: "newcomer", role: "USER" }),
    },
  });
  ids = { username: "newcomer" };
  await take({
    route: "PUT /users/:username",
    actions: ["user.update"],
    key: admin,
    body: { password: "open-sesame" },
    entry: { after: expect.objectContaining({ passwordChanged: true }) },
  });
  const recovery = await take({
    route: "POST /users/:username/recovery",
    actions: ["user.recovery"],
    key: admin,
    entry: { target: "newcomer", after: expect.objectContaining({ username: "newcomer" }) },
  });
  ids["linkToken"] = recovery.url?.split("/").at(-1) ?? "";
  await take({
    route: "POST /recovery/:linkToken",
    actions: ["user.update"],
    key: admin,
    body: { password: "sesame-open" },
    entry: { target: "newcomer", after: expect.objectContaining({ passwordChanged: true }) },
  });
  await take({ route: "PUT /users/:username/api-key", actions: ["user.key"], key: admin });
  await take({
    route: "PUT /users/:username/role",
    actions: ["user.update"],
    key: admin,
    body: { role: "ADMIN" },
    entry: {
      before: expect.objectContaining({ role: "USER" }),
      after: expect.objectContaining({ role: "ADMIN" }),
    },
  });
  const made = await take({
    route: "POST /organizations",
    actions: ["organization.create"],
    key: owner.key,
    body: { name: "Rates", owner: "owner" },
  });
  ids = { organizationId: made.id ?? "", username: "newcomer" };
  await take({
    route: "PUT /organizations/:organizationId",
    actions: ["organization.update"],
    key: owner.key,
    body: { name: "Fares" },
    entry: {
      organizationId: made.id,
      target: "Rates",
      before: { name: "Rates", ownerId: owner.id, default: false },
      after: { name: "Fares", ownerId: owner.id, default: false },
    },
  });
  await take({
    route: "POST /organizations/:organizationId/members",
    actions: ["member.add"],
    key: owner.key,
    body: { username: "newcomer", role: "EVALUATOR" },
  });
  await take({
    route: "PUT /organizations/:organizationId/members/:username",
    actions: ["member.change"],
    key: owner.key,
    body: { role: "MANAGER" },
    entry: { target: "newcomer", before: { role: "EVALUATOR" }, after: { role: "MANAGER" } },
  });
  await take({
    route: "DELETE /organizations/:organizationId/members/:username",
    actions: ["member.remove"],
    key: owner.key,
  });
  const route = "POST /organizations/:organizationId/invitations";
  const body = { role: "EVALUATOR" };
  const invited = await take({ route, actions: ["invitation.create"], key: owner.key, body });
  ids["linkToken"] = invited.url?.split("/").at(-1) ?? "";
  await take({
    route: "POST /invitations/:linkToken/accept",
    actions: ["member.add"],
    key: platformAdmin.key,
    entry: {
      target: platformAdmin.username,
      after: expect.objectContaining({ role: "EVALUATOR", invitedBy: "owner" }),
    },
  });
  const revoked = await take({ route, actions: ["invitation.create"], key: owner.key, body });
  ids["invitationId"] = revoked.id ?? "";
  await take({
    route: "DELETE /organizations/:organizationId/invitations/:invitationId",
    actions: ["invitation.revoke"],
    key: owner.key,
  });
  const keyed = await take({
    route: "POST /organizations/:organizationId/api-keys",
    actions: ["key.create"],
    key: owner.key,
    body: { scope: "EVALUATION" },
  });
  ids["apiKeyId"] = keyed.apiKeys?.at(-1)?.id ?? "";
  const expiresAt = "2026-01-01T00:00:00.000Z";
  await take({
    route: "PUT /organizations/:organizationId/api-keys/:apiKeyId",
    actions: ["key.change"],
    key: owner.key,
    body: { expiresAt, name: "web" },
    entry: {
      before: { scope: "EVALUATION", name: null, expiresAt: null },
      after: { scope: "EVALUATION", name: "web", expiresAt },
    },
  });
  await take({
    route: "DELETE /organizations/:organizationId/api-keys/:apiKeyId",
    actions: ["key.delete"],
    key: owner.key,
  });
  const rules = [{ rule: "noFeatureLost", atMost: { percent: 2 } }];
  await take({
    route: "PUT /organizations/:organizationId/gate",
    actions: ["gate.set"],
    key: owner.key,
    body: { rules },
    entry: { organizationId: made.id, target: "Fares", before: { rules: [] }, after: { rules } },
  });
  const approvals = (actions: string[]) =>
    take({
      route: "PUT /organizations/:organizationId/approvals",
      actions: ["approvals.set"],
      key: owner.key,
      body: { actions },
    });
  await approvals(["gate"]);
  for (const [verb, actions, key] of [
    ["approve", ["gate.set", "change-request.approve"], admin],
    ["reject", ["change-request.reject"], admin],
    ["withdraw", ["change-request.withdraw"], owner.key],
  ] as const) {
    const held = await take({
      route: "PUT /organizations/:organizationId/gate",
      actions: ["change-request.create"],
      key: owner.key,
      body: { rules: [] },
      entry: { target: "Change the gate's rules", after: expect.objectContaining({ action: "gate" }) },
    });
    ids["changeRequestId"] = held.changeRequest?.id ?? "";
    await take({
      route: `POST /organizations/:organizationId/change-requests/:changeRequestId/${verb}`,
      actions: [...actions],
      key,
      entry: { target: "Change the gate's rules", actor: expect.objectContaining({ kind: "user" }) },
    });
  }
  await approvals([]);
  await take({
    route: "PUT /organizations/:organizationId/usage-alerts",
    actions: ["alerts.set"],
    key: owner.key,
    body: { thresholds: [120, 50] },
    entry: {
      organizationId: made.id,
      target: "Fares",
      before: { thresholds: [80, 100] },
      after: { thresholds: [50, 120] },
    },
  });
  const prices = { price_pro: { service: "Tasker", plan: "PRO" } };
  const connected = { provider: "stripe" };
  ids = { ...ids, ...connected };
  await take({
    route: "PUT /organizations/:organizationId/billing/:provider",
    actions: ["billing.connect"],
    key: owner.key,
    body: { secret: "whsec_hidden", prices },
    entry: { organizationId: made.id, target: "stripe", before: null, after: expect.objectContaining({ prices }) },
  });
  await take({
    route: "DELETE /organizations/:organizationId/billing/:provider",
    actions: ["billing.disconnect"],
    key: owner.key,
  });
  await take({
    route: "DELETE /organizations/:organizationId",
    actions: ["organization.delete"],
    key: owner.key,
    entry: { organizationId: made.id, target: "Fares" },
  });
  await take({ route: "DELETE /users/:username", actions: ["user.delete", "organization.delete"], key: admin });
  await take({ route: "POST /cache/set", actions: ["cache.set"], key: admin, body: { key: "k", value: "hidden" } });
  await take({
    route: "POST /events/test-event",
    actions: ["event.test"],
    key: admin,
    body: { serviceName: "s", pricingVersion: "1" },
  });
}

/** Runs the steps of services, contracts and webhooks, top-level (`""`) or below an organization's path. */
export async function changeServices(
  api: TestApi,
  below: "" | "/organizations/:organizationId",
  taken: Take,
): Promise<void> {
  let ids: Record<string, string> = {};
  const take = (step: Step) => taken(step, ids);
  const { owner } = api.callers;
  const { id, key: organizationKey } = await api.newOrganization(owner, "Tasks");
  const key = below === "" ? organizationKey : owner.key;
  ids = { organizationId: id, serviceName: "Tasker", pricingVersion: "1.0.0", userId: "ada" };
  const step = (route: string, actions: string[], rest: Partial<Step> = {}) => {
    const [method = "", path = ""] = route.split(" ");
    const { path: other, ...given } = rest;
    return take({ route: `${method} ${below}${path}`, actions, key, ...given, path: `${below}${other ?? path}` });
  };
  await step("POST /services", ["service.create", "pricing.create"], { body: yamlUpload(tasker()) });
  await take({
    route: "PUT /organizations/:organizationId/public-offer",
    actions: ["offer.publish"],
    key: owner.key,
    body: { services: ["tasker"] },
    entry: { organizationId: id, target: "Tasks", before: { services: [] }, after: { services: ["Tasker"] } },
  });
  await step("POST /services/:serviceName/pricings", ["pricing.create"], {
    body: yamlUpload(tasker({ version: "2.0.0", createdAt: "2025-02-01" })),
    entry: { organizationId: id, target: "Tasker 2.0.0" },
  });
  await step("PUT /services/:serviceName/pricings/:pricingVersion/expectations", ["pricing.expectations"], {
    body: { expectations: "expectations:\n  - { plan: PRO, features: { darkMode: true } }\n" },
    entry: {
      target: "Tasker 1.0.0",
      before: { bytes: null },
      after: { bytes: 62 },
    },
  });
  await step("POST /contracts", ["contract.create"], {
    body: contractFor("ada", { groupId: "g" }),
    entry: {
      target: "ada",
      actor:
        below === "" ? expect.objectContaining({ kind: "key" }) : { kind: "user", id: owner.id, name: owner.username },
      after: expect.objectContaining({
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "PRO" },
      }),
    },
  });
  const element = "/contracts/:userId/overrides/:serviceName/:kind/:name";
  const overridden = element.replace(":kind/:name", "usageLimits/maxTasks");
  await step(`PUT ${element}`, ["override.set"], {
    path: overridden,
    body: { mode: "add", value: 50, reason: "Launch week" },
    entry: { target: "ada", before: null, after: expect.objectContaining({ granted: 20, effective: 70 }) },
  });
  await step(`DELETE ${element}`, ["override.remove"], {
    path: overridden,
    entry: { target: "ada", before: expect.objectContaining({ effective: 70 }), after: null },
  });
  const given = await step("POST /contracts/:userId/blocks", ["block.grant"], {
    body: { service: "tasker", limit: "maxTasks", amount: 10, reason: "Thanks" },
    entry: { target: "ada", before: null, after: expect.objectContaining({ amount: 10, state: "open" }) },
  });
  ids["blockId"] = given.id ?? "";
  await step("DELETE /contracts/:userId/blocks/:blockId", ["block.revoke"], {
    entry: {
      target: "ada",
      before: expect.objectContaining({ state: "open" }),
      after: expect.objectContaining({ state: "revoked" }),
    },
  });
  await step("PUT /contracts/:userId/members", ["contract.members"], {
    body: { data: [{ id: "grace" }] },
    entry: { target: "ada", before: { members: 0 }, after: { members: 1, added: 1, removed: 0, changed: 0 } },
  });
  ids["memberId"] = "alan";
  await step("PUT /contracts/:userId/members/:memberId", ["contract.members"], {
    body: { name: "Alan" },
    entry: { target: "ada", before: null, after: expect.objectContaining({ id: "alan", name: "Alan" }) },
  });
  await step("DELETE /contracts/:userId/members/:memberId", ["contract.members"], {
    entry: { target: "ada", before: expect.objectContaining({ id: "alan" }), after: null },
  });
  ids["budgetName"] = "daily";
  await step("PUT /contracts/:userId/budgets/:budgetName", ["budget.set"], {
    body: { limit: "tasker-maxTasks", spender: "*", amount: 10 },
    entry: { target: "ada", before: null, after: expect.objectContaining({ spender: "*", amount: 10 }) },
  });
  await step("DELETE /contracts/:userId/budgets/:budgetName", ["budget.delete"], {
    entry: { target: "ada", before: expect.objectContaining({ amount: 10 }), after: null },
  });
  const basic = {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "BASIC" },
    subscriptionAddOns: {},
  };
  const at = "/contracts/:userId/scheduled";
  const scheduled = await step(`POST ${at}`, ["schedule.create"], {
    body: { at: "2030-01-01", ...basic },
    entry: { target: "ada", before: null, after: expect.objectContaining({ state: "pending" }) },
  });
  ids["scheduledId"] = scheduled.id ?? "";
  await step(`DELETE ${at}/:scheduledId`, ["schedule.cancel"], {
    entry: { target: "ada", before: expect.objectContaining({ state: "pending" }), after: null },
  });
  const novated = {
    target: "ada",
    before: expect.objectContaining({ subscriptionPlans: { tasker: "PRO" } }),
    after: expect.objectContaining({ subscriptionPlans: { tasker: "BASIC" } }),
  };
  await step("PUT /contracts/:userId", ["contract.novate"], { body: basic, entry: novated });
  await step("PUT /contracts", ["contract.novate"], { path: "/contracts?groupId=g", body: basic });
  const applied = { services: {}, period: null, stopped: null, ends: false };
  await api.database.connection.client`
    insert into contract_billing (contract_id, organization_id, applied, provider, subscription, status, since)
    select id, organization_id, ${JSON.stringify(applied)}::json, 'stripe', 'sub_1', 'active', now()
    from contracts where organization_id = ${id} and user_id = 'ada'`;
  await step("DELETE /contracts/:userId/billing", ["billing.detach"], {
    entry: { target: "ada", before: { provider: "stripe", subscription: "sub_1" }, after: null },
  });
  if (below === "") {
    await step("PUT /contracts/:userId/usageLevels", ["contract.usage"], {
      body: { tasker: { maxTasks: 3 } },
      entry: {
        before: [{ serviceId: expect.any(String), limitName: "maxTasks", consumed: 0 }],
        after: [{ serviceId: expect.any(String), limitName: "maxTasks", consumed: 3 }],
      },
    });
    await step("PUT /contracts/:userId/userContact", ["contract.contact"], {
      body: { email: "ada@example.com" },
      entry: {
        before: expect.objectContaining({ email: null }),
        after: expect.objectContaining({ email: "ada@example.com" }),
      },
    });
    const billing = {
      before: expect.objectContaining({ autoRenew: false }),
      after: expect.objectContaining({ autoRenew: true, renewalDays: 30 }),
    };
    const body = { autoRenew: true };
    await step("PUT /contracts/:userId/billingPeriod", ["contract.billing"], { body, entry: billing });
    await step("PUT /contracts/billingPeriod", ["contract.billing"], {
      path: "/contracts/billingPeriod?groupId=g",
      body,
    });
  }
  const dated = await step("PUT /services/:serviceName/pricings/:pricingVersion", ["schedule.create"], {
    path: "/services/:serviceName/pricings/:pricingVersion?availability=archived&at=2030-01-01",
    body: { subscriptionPlan: "BASIC" },
  });
  ids["scheduledId"] = dated.id ?? "";
  await step("DELETE /services/:serviceName/scheduled/:scheduledId", ["schedule.cancel"]);
  await step("PUT /services/:serviceName/pricings/:pricingVersion", ["pricing.archive"], {
    path: "/services/:serviceName/pricings/:pricingVersion?availability=archived",
    body: { subscriptionPlan: "PRO" },
    entry: {
      before: { availability: "active" },
      after: { availability: "archived", fallback: { subscriptionPlan: "PRO" }, novatedContracts: 1 },
    },
  });
  await step("POST /services/:serviceName/novations", ["contract.novate", "pricing.novate"], {
    body: { pricingVersion: "2.0.0", from: ["2.0.0"] },
    entry: {
      target: "Tasker 2.0.0",
      before: null,
      after: expect.objectContaining({ novatedContracts: 1, gate: [] }),
    },
  });
  await step("DELETE /services/:serviceName/pricings/:pricingVersion", ["pricing.delete"]);
  await step("DELETE /contracts/:userId", ["contract.delete"], { entry: { target: "ada", after: null } });
  await api.call("POST", "/contracts", {
    key: organizationKey,
    body: contractFor("bob", { contractedServices: { tasker: "2.0.0" } }),
  });
  await step("DELETE /contracts", ["contract.delete"], { entry: { target: "bob" } });
  await step("PUT /services/:serviceName", ["service.update"], {
    body: { name: "Jobber" },
    entry: {
      before: { name: "Tasker", organizationId: id },
      after: { name: "Jobber", organizationId: id },
    },
  });
  ids["serviceName"] = "Jobber";
  await step("DELETE /services/:serviceName", ["service.disable"]);
  await step("DELETE /services", ["service.delete"], { entry: { target: "Jobber" } });

  const url = "https://hooks.example/T0000/secret-path";
  const made = await step("POST /webhooks", ["webhook.create"], {
    body: { url },
    entry: { after: { url: "https://hooks.example", description: null, codes: null, state: "enabled" } },
  });
  ids["webhookId"] = made.id ?? "";
  await step("PUT /webhooks/:webhookId", ["webhook.update"], { body: { description: "Billing" } });
  await step("POST /webhooks/:webhookId/secret", ["webhook.secret"]);
  const [delivery] = await api.database.connection.client<{ id: string }[]>`
      insert into webhook_deliveries (endpoint_id, event_id, code, payload, next_attempt_at)
      values (${ids["webhookId"]}, 1, 'CONTRACT_CREATED', '{}', now()) returning id`;
  ids["deliveryId"] = delivery?.id ?? "";
  await step("POST /webhooks/:webhookId/deliveries/:deliveryId/resend", ["webhook.resend"]);
  await step("DELETE /webhooks/:webhookId", ["webhook.delete"]);
}
