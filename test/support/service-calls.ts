import type { Answer, Method, TestApi } from "./api.ts";
import { pricingText, type PricingParts } from "./pricings.ts";
import { yamlUpload } from "./uploads.ts";

/** A service in response bodies. */
export interface ServiceAnswer {
  name: string;
  organizationId: string;
  disabled: boolean;
  activePricings: Record<string, { id?: string; url?: string }>;
  archivedPricings?: Record<string, { id?: string; url?: string }>;
  id: string;
  error?: string;
}

/** Response body of an upload: the service with warnings about its pricing. */
export interface UploadAnswer extends ServiceAnswer {
  warnings: object[];
}

/** Returns the service without warnings, as all other calls respond with it. */
export function serviceOf(uploaded: UploadAnswer): ServiceAnswer {
  const { warnings: _, ...service } = uploaded;
  return service;
}

/** The two families of paths; equal calls must have equal effects on both. */
export const FAMILIES = ["/services", "/organizations/{organizationId}/services"] as const;
export type Family = (typeof FAMILIES)[number];

export interface FamilyCalls {
  base: string;
  key: string;
  call<T = Record<string, unknown>>(
    method: Method,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer<T>>;
  /** Uploads the first version of a service. */
  create(parts?: PricingParts): Promise<Answer<UploadAnswer>>;
  /** Uploads another version. */
  add(parts?: PricingParts): Promise<Answer<UploadAnswer>>;
  archive(name: string, version: string, fallback: unknown): Promise<Answer<ServiceAnswer>>;
}

/**
 * Returns the calls of one family in the callers' organization. Top-level paths use its ALL key, nested paths its
 * owner's key.
 */
export function familyCalls(api: TestApi, family: Family): FamilyCalls {
  const base = family.replace("{organizationId}", api.callers.organizationId);
  const key = family === "/services" ? api.callers.all.key : api.callers.owner.key;
  const call: FamilyCalls["call"] = (method, path, body, headers) =>
    api.call(method, `${base}${path}`, {
      key,
      ...(body === undefined ? {} : { body }),
      ...(headers ? { headers } : {}),
    });
  return {
    base,
    key,
    call,
    create: (parts) => call("POST", "", yamlUpload(pricingText(parts))),
    add: (parts) =>
      call("POST", `/${encodeURIComponent(parts?.name ?? "Acme")}/pricings`, yamlUpload(pricingText(parts))),
    archive: (name, version, fallback) =>
      call("PUT", `/${encodeURIComponent(name)}/pricings/${version}?availability=archived`, fallback),
  };
}

/** Contracts an end user in the callers' organization. */
export async function contract(
  api: TestApi,
  userId: string,
  services: Record<string, { version: string; plan?: string; addOns?: Record<string, number> }>,
  options: { key?: string; renewalDays?: number; autoRenew?: boolean } = {},
): Promise<void> {
  const pick = <T>(read: (one: { version: string; plan?: string; addOns?: Record<string, number> }) => T | undefined) =>
    Object.fromEntries(
      Object.entries(services).flatMap(([name, one]) => {
        const value = read(one);
        return value === undefined ? [] : [[name, value]];
      }),
    );
  const answer = await api.call("POST", "/contracts", {
    key: options.key ?? api.callers.all.key,
    body: {
      userContact: { userId, username: `name of ${userId}` },
      billingPeriod: { autoRenew: options.autoRenew ?? false, renewalDays: options.renewalDays ?? 30 },
      contractedServices: pick((one) => one.version),
      subscriptionPlans: pick((one) => one.plan),
      subscriptionAddOns: pick((one) => one.addOns),
    },
  });
  if (answer.status !== 201) throw new Error(`contract of ${userId}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** A contract in response bodies. */
export interface ContractAnswer {
  organizationId: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
  usageLevels: Record<string, Record<string, { consumed: number; resetTimeStamp?: string }>>;
  billingPeriod: { startDate: string; endDate: string; autoRenew: boolean; renewalDays: number };
  history: unknown[];
}

export async function contractOf(api: TestApi, userId: string, key = api.callers.all.key): Promise<ContractAnswer> {
  const answer = await api.call<ContractAnswer>("GET", `/contracts/${encodeURIComponent(userId)}`, { key });
  if (answer.status !== 200) throw new Error(`contract of ${userId}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Records consumption directly on a balance. */
export async function use(
  api: TestApi,
  userId: string,
  amounts: Record<string, Record<string, number>>,
): Promise<void> {
  const answer = await api.call("PUT", `/contracts/${encodeURIComponent(userId)}/usageLevels`, {
    key: api.callers.all.key,
    body: amounts,
  });
  if (answer.status !== 200) throw new Error(`use of ${userId}: ${answer.status} ${JSON.stringify(answer.body)}`);
}
