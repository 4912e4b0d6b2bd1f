import { sql } from "drizzle-orm";
import type { Operation } from "../../src/wire/operation.ts";
import type { TestApi, TestUser } from "../support/api.ts";
import { insertUsers } from "../support/builders.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { yamlUpload } from "../support/uploads.ts";
import { connectProvider, eventOf, STRIPE_SECRET, subscriptionOf } from "../support/billing.ts";

/** Values of one tenant for path parameters, and other values that its requests need. */
export interface Tenant {
  organizationId: string;
  serviceName: string;
  pricingVersion: string;
  userId: string;
  scheduledId: string;
  holdId: string;
  leaseId: string;
  blockId: string;
  /** Id of a session of the owner. */
  sessionId: string;
  memberId: string;
  budgetName: string;
  /** Id of a scheduled change of the service. */
  serviceScheduledId: string;
  groupId: string;
  username: string;
  apiKeyId: string;
  webhookId: string;
  deliveryId: string;
  provider: string;
  /** Id of the connection to the provider. */
  connectionId: string;
  messageId: string;
  invitationId: string;
  changeRequestId: string;
  /** Token of a link to an invitation. Nobody has the other tenant's. */
  linkToken: string;
  featureId: string;
  token: string;
}

/** Two tenants with one of everything each, and names that do not exist. */
export interface Tenants {
  own: Tenant;
  foreign: Tenant;
  missing: Tenant;
  /** Texts that occur only in the foreign tenant's rows. */
  markers: readonly string[];
}

/** The element that each tenant's contract has an override of. */
const OVERRIDDEN = { kind: "usageLimits", name: "maxTasks" };

/** Body of expectations that the tenants' versions meet. */
const EXPECTATIONS = { expectations: "expectations:\n  - { plan: PRO, features: { darkMode: true } }\n" };

const ABSENT = "f".repeat(24);

/** Fills the organization of the test's callers, and another one that only the platform ADMIN may see. */
export async function createTenants(api: TestApi): Promise<Tenants> {
  const { owner, organizationId, all } = api.callers;
  const [colleague, stranger] = await insertUsers(api.resources, ["colleague", "stranger", "freelancer"]);
  if (colleague === undefined || stranger === undefined) throw new Error("no users");
  await api.call("POST", `/organizations/${organizationId}/members`, {
    key: owner.key,
    body: { username: "colleague", role: "EVALUATOR" },
  });
  const other = await api.newOrganization(stranger, "Quillfeather Holdings");
  const own = await fillTenant(api, {
    id: organizationId,
    key: all.key,
    owner,
    username: "colleague",
    name: "Tasker",
    userId: "own-user",
  });
  const foreign = await fillTenant(api, {
    ...other,
    owner: stranger,
    username: "stranger",
    name: "Quillfeather",
    userId: "quillfeather-user",
  });
  await publish(api, owner, own);
  return {
    own,
    foreign,
    missing: {
      organizationId: ABSENT,
      serviceName: "Nowhere",
      pricingVersion: "9.9.9",
      userId: "nobody",
      groupId: "no-group",
      username: "nobody",
      apiKeyId: ABSENT,
      scheduledId: ABSENT,
      holdId: ABSENT,
      leaseId: ABSENT,
      blockId: ABSENT,
      sessionId: ABSENT,
      memberId: "nobody",
      budgetName: ABSENT,
      serviceScheduledId: ABSENT,
      webhookId: ABSENT,
      deliveryId: "999999",
      provider: "stripe",
      connectionId: ABSENT,
      messageId: "none",
      invitationId: ABSENT,
      changeRequestId: ABSENT,
      linkToken: "0".repeat(64),
      featureId: "nowhere-board",
      token: "none",
    },
    markers: [
      "quillfeather",
      "Quillfeather",
      foreign.webhookId,
      foreign.apiKeyId,
      foreign.connectionId,
      foreign.messageId,
      other.id,
      other.key,
      other.key.slice(0, 12),
      stranger.key,
    ],
  };
}

/** Publishes the offer of this tenant's service. The other one's stays private. */
async function publish(api: TestApi, { key }: TestUser, { organizationId, serviceName }: Tenant): Promise<void> {
  await api.call("PUT", `/organizations/${organizationId}/public-offer`, { key, body: { services: [serviceName] } });
}

async function fillTenant(
  api: TestApi,
  given: { id: string; key: string; owner: TestUser; username: string; name: string; userId: string },
): Promise<Tenant> {
  const { id, key, owner, name, userId } = given;
  const groupId = `${userId}-group`;
  await upload(api, key, tasker({ name, version: "0.9.0" }), tasker({ name }));
  const { status } = await api.call("PUT", `/services/${name}/pricings/0.9.0/expectations`, {
    key,
    body: EXPECTATIONS,
  });
  if (status !== 200) throw new Error(`the expectations of ${name} were answered with ${status}`);
  const archived = await api.call("PUT", `/services/${name}/pricings/0.9.0?availability=archived`, {
    key,
    body: { subscriptionPlan: "BASIC" },
  });
  if (archived.status !== 200) throw new Error(JSON.stringify(archived.body));
  await contract(api, key, userId, {
    groupId,
    contractedServices: { [name]: "1.0.0" },
    subscriptionPlans: { [name]: "PRO" },
  });
  const { kind, name: limit } = OVERRIDDEN;
  const overridden = await api.call("PUT", `/contracts/${userId}/overrides/${name}/${kind}/${limit}`, {
    key,
    body: { mode: "set", value: 7, reason: `Promised by ${name}` },
  });
  if (overridden.status !== 200) throw new Error(JSON.stringify(overridden.body));
  const scheduled = await api.call<{ id: string }>("POST", `/contracts/${userId}/scheduled`, {
    key,
    body: {
      at: "2030-01-01",
      contractedServices: { [name]: "1.0.0" },
      subscriptionPlans: { [name]: "BASIC" },
      subscriptionAddOns: {},
      reason: `Asked for by ${name}`,
    },
  });
  if (scheduled.status !== 201) throw new Error(JSON.stringify(scheduled.body));
  const taken = await api.call<{ hold: { id: string } }>(
    "POST",
    `/features/${userId}/${name.toLowerCase()}-board?hold=P1D`,
    { key, body: { [`${name.toLowerCase()}-maxTasks`]: 1 } },
  );
  if (taken.status !== 200) throw new Error(JSON.stringify(taken.body));
  const leased = await api.call<{ lease: { id: string } }>(
    "POST",
    `/features/${userId}/${name.toLowerCase()}-board/leases`,
    { key, body: { for: "PT10M", amounts: { [`${name.toLowerCase()}-maxTasks`]: 1 } } },
  );
  if (leased.status !== 201) throw new Error(JSON.stringify(leased.body));
  const block = await api.call<{ id: string }>("POST", `/contracts/${userId}/blocks`, {
    key,
    body: { service: name, limit, amount: 5, reason: `Given by ${name}` },
  });
  if (block.status !== 201) throw new Error(JSON.stringify(block.body));
  const memberId = `member-of-${userId}`;
  const member = await api.call("PUT", `/contracts/${userId}/members/${memberId}`, { key, body: {} });
  if (member.status !== 201) throw new Error(JSON.stringify(member.body));
  const budgetName = `daily-of-${name}`;
  const budget = await api.call("PUT", `/contracts/${userId}/budgets/${encodeURIComponent(budgetName)}`, {
    key,
    body: { limit: `${name.toLowerCase()}-maxTasks`, spender: "*", amount: 10 },
  });
  if (budget.status !== 201) throw new Error(JSON.stringify(budget.body));
  await api.call("POST", `/features/${userId}/${name.toLowerCase()}-board?spender=${userId}`, {
    key,
    body: { [`${name.toLowerCase()}-maxTasks`]: 1 },
  });
  // An end that fell due during the tests would change rows in the name of any caller.
  const { client } = api.database.connection;
  await client`update holds set until = until + interval '23 hours' where id = ${leased.body.lease.id}`;
  await client`
    update usage_levels u set hold_due = hold_due + interval '23 hours'
    from holds h where h.id = ${leased.body.lease.id} and u.contract_id = h.contract_id`;
  const dated = await api.call<{ id: string }>(
    "PUT",
    `/services/${name}/pricings/0.9.0?availability=active&at=2030-01-01`,
    { key, body: {} },
  );
  if (dated.status !== 202) throw new Error(JSON.stringify(dated.body));
  const sessionId = (name === "Tasker" ? "5" : "6").repeat(24);
  await client`
    insert into sessions (id, user_id, token_hash, via, created_at, last_used_at, address, agent)
    values (${sessionId}, ${owner.id}, ${name}, 'password', now(), now(), '', '')`;
  const hook = await api.call<{ id: string }>("POST", "/webhooks", {
    key,
    body: { url: `https://${name.toLowerCase()}.example/hook` },
  });
  const deliveryId = name === "Tasker" ? "500001" : "500002";
  await api.database.connection.client`
    insert into webhook_deliveries (id, endpoint_id, event_id, code, payload, next_attempt_at, status, created_at)
    overriding system value
    values (${deliveryId}, ${hook.body.id}, 1, 'PRICING_CREATED', ${JSON.stringify({ name })}, now(), 'failed', now())`;
  const prices = { price_pro: { service: name, plan: "PRO" } };
  const { id: connectionId, send } = await connectProvider(api, { prices }, "stripe", id, owner.key);
  const messageId = `evt_${userId}`;
  const ofNobody = subscriptionOf({ metadata: { userId: `${userId}-2` }, items: ["price_unknown"] });
  const received = await send(eventOf("customer.subscription.created", ofNobody, api.resources.now(), messageId));
  if (received.status !== 200) throw new Error(JSON.stringify(received.body));
  const keys = await api.call<{ apiKeys: { id: string }[] }>("POST", `/organizations/${id}/api-keys`, {
    key: owner.key,
    body: { scope: "EVALUATION" },
  });
  const invited = await api.call<{ id: string; url: string }>("POST", `/organizations/${id}/invitations`, {
    key: owner.key,
    body: { role: "EVALUATOR", email: `${userId}@example.com` },
  });
  if (invited.status !== 201) throw new Error(JSON.stringify(invited.body));
  const setApprovals = (actions: string[]) =>
    api.call("PUT", `/organizations/${id}/approvals`, { key: owner.key, body: { actions } });
  await setApprovals(["gate"]);
  const held = await api.call<{ changeRequest: { id: string } }>("PUT", `/organizations/${id}/gate`, {
    key: owner.key,
    body: { rules: [{ rule: "noPriceRise" }] },
  });
  if (held.status !== 202) throw new Error(JSON.stringify(held.body));
  await setApprovals([]);
  const issued = await api.call<{ pricingToken: string }>("POST", `/features/${userId}/pricing-token`, { key });
  return {
    organizationId: id,
    serviceName: name,
    pricingVersion: "0.9.0",
    userId,
    scheduledId: scheduled.body.id,
    holdId: taken.body.hold.id,
    leaseId: leased.body.lease.id,
    blockId: block.body.id,
    sessionId,
    memberId,
    budgetName,
    serviceScheduledId: dated.body.id,
    groupId,
    username: given.username,
    apiKeyId: keys.body.apiKeys.at(-1)?.id ?? "",
    webhookId: hook.body.id,
    deliveryId,
    provider: "stripe",
    connectionId,
    messageId,
    invitationId: invited.body.id,
    changeRequestId: held.body.changeRequest.id,
    linkToken: name === "Tasker" ? (invited.body.url.split("/").at(-1) ?? "") : "f".repeat(64),
    featureId: `${name.toLowerCase()}-board`,
    token: issued.body.pricingToken,
  };
}

/** Request that makes an operation about `target` succeed for an authorized caller. */
export interface Sample {
  query?: string;
  body?: unknown;
}

type Build = (target: Tenant, caller: { username: string }) => Sample;

const uploaded = (name: string, version: string) => yamlUpload(tasker({ name, version, createdAt: "2025-02-01" }));
const subscription = ({ serviceName }: Tenant) => ({
  contractedServices: { [serviceName]: "1.0.0" },
  subscriptionPlans: { [serviceName]: "BASIC" },
  subscriptionAddOns: {},
});
const inGroup = ({ groupId }: Tenant) => `?groupId=${groupId}`;

/** By method and path. Operations inside an organization use the sample of their path without it. */
const SAMPLES: Record<string, Build> = {
  "GET /users": () => ({ query: "?q=colleague" }),
  // These two hash for 200 ms for every caller, so a 422 shows that the call is allowed.
  "POST /users": () => ({ body: {} }),
  "POST /users/authenticate": () => ({ body: {} }),
  "POST /sessions": () => ({ body: {} }),
  "POST /recovery": () => ({ body: {} }),
  "POST /recovery/{linkToken}": () => ({ body: { password: "sesame-open" } }),
  "POST /auth/oidc/backchannel-logout": () => ({ body: { logout_token: "none" } }),
  "PUT /users/{username}": () => ({ body: { username: "renamed" } }),
  "PUT /users/{username}/api-key": () => ({ body: {} }),
  "PUT /users/{username}/role": () => ({ body: { role: "USER" } }),
  "POST /organizations": (_, { username }) => ({ body: { name: "Third", owner: username } }),
  "PUT /organizations/{organizationId}": () => ({ body: { name: "Renamed" } }),
  "POST /organizations/{organizationId}/members": () => ({ body: { username: "freelancer", role: "EVALUATOR" } }),
  "POST /organizations/{organizationId}/invitations": () => ({ body: { role: "EVALUATOR" } }),
  "POST /invitations/{linkToken}/accept": () => ({ body: {} }),
  "PUT /organizations/{organizationId}/members/{username}": () => ({ body: { role: "MANAGER" } }),
  "POST /organizations/{organizationId}/api-keys": () => ({ body: { scope: "EVALUATION" } }),
  "PUT /organizations/{organizationId}/api-keys/{apiKeyId}": () => ({ body: { expiresAt: null } }),
  "POST /services": () => ({ body: uploaded("Novel", "1.0.0") }),
  "POST /services/lint": () => ({ body: uploaded("Novel", "1.0.0") }),
  "PUT /services/{serviceName}": () => ({ body: { name: "Renamed" } }),
  "POST /services/{serviceName}/pricings": ({ serviceName }) => ({ body: uploaded(serviceName, "2.0.0") }),
  "GET /services/{serviceName}/diff": () => ({ query: "?from=0.9.0&to=1.0.0" }),
  "POST /services/{serviceName}/diff": ({ serviceName }) => ({ body: uploaded(serviceName, "2.0.0") }),
  "POST /services/{serviceName}/novations": () => ({ body: { pricingVersion: "1.0.0", from: ["1.0.0"] } }),
  "PUT /organizations/{organizationId}/gate": () => ({ body: { rules: [] } }),
  "PUT /organizations/{organizationId}/approvals": () => ({ body: { actions: ["gate"] } }),
  "POST /organizations/{organizationId}/change-requests/{changeRequestId}/approve": () => ({ body: {} }),
  "POST /organizations/{organizationId}/change-requests/{changeRequestId}/reject": () => ({ body: {} }),
  "PUT /organizations/{organizationId}/usage-alerts": () => ({ body: { thresholds: [50] } }),
  "POST /services/{serviceName}/impact": () => ({ body: { action: "disable" } }),
  "POST /services/{serviceName}/replay": ({ pricingVersion }) => ({ body: { pricingVersion } }),
  "PUT /services/{serviceName}/pricings/{pricingVersion}/expectations": () => ({ body: EXPECTATIONS }),
  "PUT /services/{serviceName}/pricings/{pricingVersion}": () => ({ query: "?availability=active", body: {} }),
  "POST /contracts": (target) => ({
    body: {
      userContact: { userId: "novel", username: "novel" },
      organizationId: target.organizationId,
      ...subscription(target),
    },
  }),
  "PUT /contracts": (target) => ({ query: inGroup(target), body: subscription(target) }),
  "PUT /contracts/{userId}": (target) => ({ body: subscription(target) }),
  "PUT /contracts/billingPeriod": (target) => ({ query: inGroup(target), body: { autoRenew: true, renewalDays: 5 } }),
  "PUT /contracts/{userId}/usageLevels": ({ serviceName }) => ({
    body: { [serviceName.toLowerCase()]: { maxTasks: 1 } },
  }),
  "PUT /contracts/{userId}/userContact": () => ({ body: { firstName: "Ada" } }),
  "PUT /contracts/{userId}/overrides/{serviceName}/{kind}/{name}": () => ({
    body: { mode: "add", value: 5, reason: "Agreed with support" },
  }),
  "POST /contracts/{userId}/blocks": ({ serviceName: service }) => ({
    body: { service, limit: OVERRIDDEN.name, amount: 5, reason: "Agreed with support" },
  }),
  "PUT /contracts/{userId}/members": () => ({ body: { data: [{ id: "grace" }] } }),
  "PUT /contracts/{userId}/members/{memberId}": () => ({ body: { name: "Grace" } }),
  "PUT /contracts/{userId}/budgets/{budgetName}": ({ serviceName }) => ({
    body: { limit: `${serviceName.toLowerCase()}-maxTasks`, spender: "*", amount: 20 },
  }),
  // Each tenant's contract has a pending change, so a 409 shows that the call is allowed.
  "POST /contracts/{userId}/scheduled": (target) => ({ body: { at: "2030-01-01", ...subscription(target) } }),
  "PUT /contracts/{userId}/billingPeriod": () => ({ body: { autoRenew: true, renewalDays: 5 } }),
  "POST /features/{userId}/{featureId}": ({ serviceName }) => ({
    body: { [`${serviceName.toLowerCase()}-maxTasks`]: 1 },
  }),
  "POST /holds/{holdId}": ({ serviceName }) => ({ body: { [`${serviceName.toLowerCase()}-maxTasks`]: 1 } }),
  "POST /features/{userId}/{featureId}/leases": ({ serviceName }) => ({
    body: { for: "PT1M", amounts: { [`${serviceName.toLowerCase()}-maxTasks`]: 1 } },
  }),
  "POST /leases/{leaseId}": ({ serviceName }) => ({
    body: { spent: { [`${serviceName.toLowerCase()}-maxTasks`]: 0 } },
  }),
  "POST /features/{userId}/{featureId}/unlock": ({ serviceName }) => ({
    body: { amounts: { [`${serviceName.toLowerCase()}-maxTasks`]: 1 } },
  }),
  "POST /snapshot": ({ userId }) => ({ body: { users: [{ userId }] } }),
  "POST /usage": ({ userId, serviceName, featureId }) => ({
    body: [{ userId, featureId, amounts: { [`${serviceName.toLowerCase()}-maxTasks`]: 1 }, key: "tenants" }],
  }),
  "PUT /organizations/{organizationId}/public-offer": ({ serviceName }) => ({ body: { services: [serviceName] } }),
  "POST /ofrep/v1/evaluate/flags": ({ userId }) => ({ body: { context: { targetingKey: userId } } }),
  "POST /ofrep/v1/evaluate/flags/{key}": ({ userId }) => ({ body: { context: { targetingKey: userId } } }),
  "PUT /organizations/{organizationId}/billing/{provider}": ({ serviceName }) => ({
    body: { secret: STRIPE_SECRET, prices: { price_basic: { service: serviceName, plan: "BASIC" } } },
  }),
  "POST /organizations/{organizationId}/billing/{provider}/replay": () => ({ query: "?outcome=unmapped" }),
  // Not signed: no caller has the provider's secret.
  "POST /billing/{connectionId}": () => ({ body: {} }),
  "POST /webhooks": () => ({ body: { url: "https://novel.example/hook" } }),
  "PUT /webhooks/{webhookId}": () => ({ body: { description: "new" } }),
  "POST /pricing-tokens/verify": ({ token }) => ({ body: { token } }),
  "POST /events/test-event": () => ({ body: { serviceName: "Test", pricingVersion: "1" } }),
  "GET /cache/get": () => ({ query: "?key=k" }),
  "POST /cache/set": () => ({ body: { key: "k", value: 1 } }),
};

const INSIDE = "/organizations/{organizationId}";

/** Name of an operation in tables. */
export const nameOf = ({ method, path }: Pick<Operation, "method" | "path">): string => `${method} ${path}`;

/**
 * Returns the request for this operation.
 * @throws Error for an operation with a body and no sample, so that a new one cannot be missed.
 */
export function sampleOf(operation: Operation, target: Tenant, caller: { username: string }): Sample {
  const { method, path } = operation;
  const outside = path.startsWith(INSIDE) ? path.slice(INSIDE.length) : path;
  const build = SAMPLES[nameOf(operation)] ?? SAMPLES[`${method} ${outside}`];
  if (build !== undefined) return build(target, caller);
  if (operation.body !== undefined)
    throw new Error(`${nameOf(operation)} has a body and no sample in ${import.meta.url}`);
  return {};
}

/** Path of an operation about the rows of `target`. */
export function pathOf(operation: Operation, target: Tenant): string {
  const ofService = operation.path.includes("{serviceName}/scheduled/");
  const scheduledId = ofService ? target.serviceScheduledId : target.scheduledId;
  const values: Record<string, string> = { ...target, key: target.featureId, ...OVERRIDDEN, scheduledId };
  return operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`no tenant has a ${name}, which ${operation.path} needs`);
    return encodeURIComponent(value);
  });
}

/** Parents before their children. */
const TABLES = [
  "users",
  "sessions",
  "organizations",
  "members",
  "organization_keys",
  "invitations",
  "recoveries",
  "mails",
  "change_requests",
  "services",
  "pricings",
  "contracts",
  "contract_services",
  "holds",
  "contract_overrides",
  "contract_blocks",
  "block_draws",
  "contract_members",
  "contract_budgets",
  "budget_balances",
  "scheduled_changes",
  "scheduled_subscriptions",
  "given_trials",
  "contract_history",
  "contract_states",
  "usage_levels",
  "usage_ledger",
  "usage_keys",
  "usage_hours",
  "usage_days",
  "usage_resets",
  "deleted_pricings",
  "webhook_endpoints",
  "webhook_deliveries",
  "billing_connections",
  "billing_subscriptions",
  "billing_links",
  "billing_messages",
  "contract_billing",
  "pricing_decisions",
];

/** Rows of every table that requests change, as {@link keepState} saved them. */
export interface KeptState {
  /** True if a row of any table was written since the last restore. It takes a sixth of the time of a restore. */
  hasChanged(): Promise<boolean>;
  restore(): Promise<void>;
}

/** Saves the rows of every table that requests change. */
export async function keepState(api: TestApi): Promise<KeptState> {
  const { client } = api.database.connection;
  const every = await client<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`;
  // A write adds a row version with a later transaction id, or removes one. A function of this language keeps the plan.
  const written = every.map(
    ({ name }) => `(select count(*) || ' ' || coalesce(sum(xmin::text::bigint), 0) from public.${name})`,
  );
  await client.unsafe(
    [
      "create schema kept",
      ...TABLES.map((name) => `create table kept.${name} as table public.${name}`),
      `create function kept.row_versions() returns text language plpgsql as $$
        begin return concat_ws(',', ${written.join(", ")}); end $$`,
    ].join(";"),
  );
  const readVersions = async () =>
    (await client<{ versions: string }[]>`select kept.row_versions() as versions`)[0]?.versions;
  const restoring = [
    ...TABLES.toReversed().map((name) => `delete from public.${name}`),
    ...TABLES.map((name) => `insert into public.${name} overriding system value table kept.${name}`),
  ].join(";");
  let restored = await readVersions();
  return {
    hasChanged: async () => (await readVersions()) !== restored,
    restore: async () => {
      await client.unsafe(restoring);
      await api.resources.invalidationsApplied?.();
      restored = await readVersions();
    },
  };
}

/** Hashes every row of this tenant, in all tables except those of the whole instance. */
export async function stateOf(api: TestApi, tenant: Tenant): Promise<string> {
  const ids = [tenant.organizationId, tenant.webhookId, tenant.apiKeyId, tenant.userId, tenant.serviceName];
  const { db } = api.database.connection;
  const children = await db.execute<{ id: string }>(sql`
    select id from services where organization_id = ${tenant.organizationId}
    union all select id from contracts where organization_id = ${tenant.organizationId}
    union all select owner_id from organizations where id = ${tenant.organizationId}`);
  const pattern = [...ids, ...children.map(({ id }) => id)].join("|");
  const rows = [...TABLES, "outbox", "outbox_staged", "idempotency_keys"].map(
    (name) => sql`select ${name}::text as t, to_jsonb(x)::text as r from ${sql.identifier(name)} x`,
  );
  const [digest] = await db.execute<{ digest: string }>(sql`
    select md5(string_agg(t || r, '' order by t, r)) as digest
    from (${sql.join(rows, sql` union all `)}) every where r ~ ${pattern}`);
  return digest?.digest ?? "";
}
