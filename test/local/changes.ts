import { createLocalEvaluator, type LocalAnswer, type LocalEvaluator } from "../../src/local/local.ts";
import { ServiceRequestError } from "../../src/client/service-request-error.ts";
import { yamlUpload } from "../support/uploads.ts";

/*
 * Every operation that changes answers, made by one process while a local evaluator follows another. Source: contract
 * tokens-and-leases §5, §9.
 */

/** Two processes over one database, and the user key that owns the organizations. */
export interface Site {
  /** The process that makes the changes. */
  changing: string;
  /** The process that the evaluators follow. */
  followed: string;
  userKey: string;
}

/** An organization, its key of scope ALL, and its evaluator. */
export interface Tenant {
  id: string;
  key: string;
  local: LocalEvaluator;
  /** Another organization of the same owner. */
  elsewhere: string;
  /** Default of `as`: the organization's key. */
  call(method: string, path: string, body?: unknown, as?: "owner"): Promise<unknown>;
}

/** A user whose answer about a feature changes once `change` has resolved. */
interface Prepared {
  userId: string;
  featureId: string;
  change(): Promise<unknown>;
}

/** One operation. */
export interface LocalChange {
  name: string;
  /** Prepares repetition `n`, with names of its own. */
  prepare(tenant: Tenant, n: number): Promise<Prepared>;
  /** The operation ends the tenant. */
  isLast?: boolean;
}

/** Lead of changes that happen at a moment. */
const LEAD_MS = 1_500;

const pricing = (name: string, version: string, on: boolean) => `
saasName: ${name}
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-01-01"
currency: EUR
features:
  flag: { valueType: BOOLEAN, defaultValue: ${on}, type: DOMAIN, expression: "pricingContext['features']['flag']" }
plans:
  FREE: { price: 0, features: null }
  PRO: { price: 1, features: { flag: { value: true } } }
`;

const plan = (name: string, services: readonly string[]) => ({
  contractedServices: Object.fromEntries(services.map((service) => [service, "1.0.0"])),
  subscriptionPlans: Object.fromEntries(services.map((service) => [service, name])),
  subscriptionAddOns: {},
});

/** Contracts a new user to the plan FREE, without the flag. */
async function subscribe({ call }: Tenant, n: number, services = ["jobs"], more: object = {}): Promise<string> {
  const userId = `user-${n}`;
  await call("POST", "/contracts", {
    userContact: { userId, username: userId },
    ...plan("FREE", services),
    ...more,
  });
  return userId;
}

/** Uploads a service in two versions: the flag is off in 1.0.0, and on in 2.0.0. */
async function service({ call }: Tenant, name: string): Promise<string> {
  await call("POST", "/services", yamlUpload(pricing(name, "1.0.0", false)));
  await call("POST", `/services/${name}/pricings`, yamlUpload(pricing(name, "2.0.0", true)));
  return name;
}

const override = (userId: string) => `/contracts/${userId}/overrides/jobs/features/flag`;
const ON = { mode: "set", value: true, reason: "Agreed" };
const inMilliseconds = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A change by one call about a new user of the plan FREE. */
const byCall = (name: string, method: string, pathOf: (userId: string) => string, body?: unknown): LocalChange => ({
  name,
  prepare: async (tenant, n) => {
    const userId = await subscribe(tenant, n, ["jobs"], { groupId: `group-${n}` });
    return { userId, featureId: "jobs-flag", change: () => tenant.call(method, pathOf(userId), body) };
  },
});

/** A change of a service that only a new user has, beside `jobs`. */
const ofService = (name: string, change: (tenant: Tenant, service: string) => Promise<unknown>): LocalChange => ({
  name,
  prepare: async (tenant, n) => {
    const own = await service(tenant, `own${n}`);
    const userId = await subscribe(tenant, n, ["jobs", own]);
    return { userId, featureId: `${own}-flag`, change: () => change(tenant, own) };
  },
});

/** A change that `request` announces for a moment, at which it happens by itself. */
const atMoment = (
  name: string,
  request: (tenant: Tenant, userId: string, at: string) => Promise<unknown>,
): LocalChange => ({
  name,
  prepare: async (tenant, n) => {
    const userId = await subscribe(tenant, n);
    const at = Date.now() + LEAD_MS;
    await request(tenant, userId, new Date(at).toISOString());
    return { userId, featureId: "jobs-flag", change: () => inMilliseconds(at - Date.now()) };
  },
});

export const LOCAL_CHANGES: readonly LocalChange[] = [
  byCall("novation", "PUT", (userId) => `/contracts/${userId}`, plan("PRO", ["jobs"])),
  byCall(
    "novation of a group",
    "PUT",
    (userId) => `/contracts?groupId=${userId.replace("user", "group")}`,
    plan("PRO", ["jobs"]),
  ),
  byCall("custom terms are set", "PUT", override, ON),
  {
    name: "custom terms are removed",
    prepare: async (tenant, n) => {
      const userId = await subscribe(tenant, n);
      await tenant.call("PUT", override(userId), ON);
      return { userId, featureId: "jobs-flag", change: () => tenant.call("DELETE", override(userId)) };
    },
  },
  {
    name: "billing period of an expired contract",
    prepare: async (tenant, n) => {
      const userId = await subscribe(tenant, n);
      const found = (await tenant.call("GET", `/contracts/${userId}`)) as { billingPeriod: { startDate: string } };
      const path = `/contracts/${userId}/billingPeriod`;
      await tenant.call("PUT", path, { endDate: found.billingPeriod.startDate, autoRenew: false });
      const change = () => tenant.call("PUT", path, { autoRenew: true, renewalDays: 30 });
      return { userId, featureId: "jobs-flag", change };
    },
  },
  byCall("deletion of a contract", "DELETE", (userId) => `/contracts/${userId}`),
  byCall("deletion of all contracts", "DELETE", () => "/contracts"),
  ofService("archiving of a version", ({ call }, own) =>
    call("PUT", `/services/${own}/pricings/1.0.0?availability=archived`, { subscriptionPlan: "FREE" }),
  ),
  ofService("novation of a service's contracts", ({ call }, own) =>
    call("POST", `/services/${own}/novations`, { pricingVersion: "2.0.0", from: ["1.0.0"] }),
  ),
  ofService("renaming of a service", ({ call }, own) => call("PUT", `/services/${own}`, { name: `${own}-renamed` })),
  ofService("moving of a service", ({ id, elsewhere, call }, own) =>
    call("PUT", `/organizations/${id}/services/${own}`, { organizationId: elsewhere }, "owner"),
  ),
  ofService("disabling of a service", ({ call }, own) => call("DELETE", `/services/${own}`)),
  atMoment("a scheduled novation", ({ call }, userId, at) =>
    call("POST", `/contracts/${userId}/scheduled`, { at, ...plan("PRO", ["jobs"]) }),
  ),
  atMoment("custom terms begin", ({ call }, userId, from) => call("PUT", override(userId), { ...ON, from })),
  atMoment("custom terms end", ({ call }, userId, until) => call("PUT", override(userId), { ...ON, until })),
  { ...byCall("deletion of all services", "DELETE", () => "/services"), isLast: true },
  {
    name: "deletion of the organization",
    isLast: true,
    prepare: async (tenant, n) => ({
      userId: await subscribe(tenant, n),
      featureId: "jobs-flag",
      change: () => tenant.call("DELETE", `/organizations/${tenant.id}`, undefined, "owner"),
    }),
  },
];

/** Creates an organization with the service `jobs`, and waits until its evaluator is connected. */
export async function createTenant(site: Site): Promise<Tenant> {
  const call = async (method: string, path: string, body: unknown, key: string) => {
    const isForm = body instanceof FormData;
    const answer = await fetch(`${site.changing}/api/v1${path}`, {
      method,
      headers: { "x-api-key": key, ...(isForm || body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? undefined : (JSON.parse(text) as unknown);
  };
  const create = async (name: string) =>
    (await call("POST", "/organizations", { name, owner: "admin" }, site.userKey)) as {
      id: string;
      apiKeys: { key: string }[];
    };
  const { id, apiKeys } = await create("Followed");
  const key = apiKeys[0]?.key ?? "";
  const local = await new Promise<LocalEvaluator>((resolve) => {
    const made = createLocalEvaluator({
      url: site.followed,
      apiKey: key,
      onState: (state) => state === "connected" && resolve(made),
    });
  });
  const tenant: Tenant = {
    id,
    key,
    local,
    elsewhere: (await create("Elsewhere")).id,
    call: (method, path, body, as) => call(method, path, body, as === "owner" ? site.userKey : key),
  };
  await service(tenant, "jobs");
  return tenant;
}

/** An observed change. */
export interface Observed {
  /** From the response to the change, or its moment, to the first other answer. */
  delayMs: number;
  /** Answers of before that said that they were known to be true after the change. */
  outdated: LocalAnswer[];
}

/**
 * Makes a change, and asks until the local answer is another one.
 * @throws Error after `timeoutMs`.
 */
export async function observe({ local }: Tenant, prepared: Prepared, timeoutMs: number): Promise<Observed> {
  const { userId, featureId, change } = prepared;
  const ask = () => local.evaluate(userId, featureId).catch((error: unknown) => error);
  const before = outcome(await ask());
  await change();
  const changedAt = performance.now();
  const outdated: LocalAnswer[] = [];
  for (;;) {
    const answer = await ask();
    const now = performance.now();
    if (outcome(answer) !== before) return { delayMs: now - changedAt, outdated };
    // Ages are whole milliseconds.
    if (isAnswer(answer) && answer.ageMs !== null && now - answer.ageMs - 1 > changedAt) outdated.push(answer);
    if (now - changedAt > timeoutMs) throw new Error(`after ${timeoutMs} ms: ${before}`);
    await inMilliseconds(1);
  }
}

const isAnswer = (value: unknown): value is LocalAnswer =>
  typeof value === "object" && value !== null && "eval" in value;

function outcome(answer: unknown): string {
  if (answer instanceof ServiceRequestError) return `${answer.status} ${answer.message}`;
  if (!isAnswer(answer)) throw answer;
  return `${answer.eval} ${answer.error?.code}`;
}
