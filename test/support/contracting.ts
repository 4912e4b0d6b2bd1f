import { expect } from "vitest";
import type { Answer, TestApi } from "./api.ts";
import { yamlUpload } from "./uploads.ts";

/** A contract in response bodies. Source: contract contracts §2. */
export interface ContractBody {
  id: string;
  userContact: Record<string, string>;
  billingPeriod: { startDate: string; endDate: string; autoRenew: boolean; renewalDays: number };
  usageLevels: Record<string, Record<string, { consumed: number; resetTimeStamp?: string }>>;
  organizationId: string;
  groupId?: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
  history: Record<string, unknown>[];
}

/**
 * Builds a pricing with every kind of limit and add-on that contracts and evaluations treat differently. Limits:
 * renewable, count-only and untracked; add-ons: one per kind of condition.
 */
export function tasker(
  options: { name?: string; version?: string; createdAt?: string; maxTasks?: number } = {},
): string {
  const { name = "Tasker", version = "1.0.0", createdAt = "2025-01-01", maxTasks = 20 } = options;
  return `
saasName: ${name}
syntaxVersion: "3.0"
version: "${version}"
createdAt: "${createdAt}"
currency: EUR
features:
  board:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks']
    serverExpression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] <= pricingContext['usageLimits']['maxTasks']
  bulk:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks'] && subscriptionContext['maxExports'] < pricingContext['usageLimits']['maxExports']
  darkMode: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['darkMode']" }
  sla: { valueType: TEXT, defaultValue: "99%", type: GUARANTEE, expression: "pricingContext['features']['sla'] === '99.9%'" }
  silent: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }
usageLimits:
  maxTasks: { valueType: NUMERIC, defaultValue: 5, unit: task, type: RENEWABLE, period: { value: 1, unit: MONTH }, linkedFeatures: [board] }
  maxExports: { valueType: NUMERIC, defaultValue: 10, unit: export, type: NON_RENEWABLE, trackable: true }
  maxSeats: { valueType: NUMERIC, defaultValue: 3, unit: seat, type: NON_RENEWABLE }
plans:
  BASIC:
    price: 0
    unit: user/month
    features: {}
  PRO:
    price: 10
    unit: user/month
    features: { darkMode: { value: true }, sla: { value: "99.9%" } }
    usageLimits: { maxTasks: { value: ${maxTasks} } }
addOns:
  extraTasks:
    price: 2
    unit: /month
    usageLimitsExtensions: { maxTasks: { value: 10 } }
    subscriptionConstraints: { minQuantity: 2, maxQuantity: 6, quantityStep: 2 }
  proOnly:
    availableFor: [PRO]
    price: 1
    unit: /month
    features: { darkMode: { value: true } }
  needsTasks:
    dependsOn: [extraTasks]
    price: 1
    unit: /month
    features: { darkMode: { value: true } }
  loner:
    excludes: [extraTasks]
    price: 1
    unit: /month
    features: { darkMode: { value: true } }
`;
}

/** A service without plans: only add-ons grant anything. */
export const ADD_ONS_ONLY = `
saasName: Extras
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  reports: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['reports']" }
  insights: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['insights']" }
usageLimits:
  maxReports: { valueType: NUMERIC, defaultValue: 7, unit: report, type: NON_RENEWABLE, trackable: true }
addOns:
  reporting:
    price: 3
    unit: /month
    features: { reports: { value: true } }
    usageLimitsExtensions: { maxReports: { value: 5 } }
`;

/** Uploads pricings as new services, or as new versions of existing ones. */
export async function upload(api: TestApi, key: string, ...texts: string[]): Promise<void> {
  for (const text of texts) {
    let made = await api.call("POST", "/services", { key, body: yamlUpload(text) });
    if (made.status === 400 && JSON.stringify(made.body).includes("already exists")) {
      const name = /saasName: (.+)/.exec(text)?.[1] ?? "";
      made = await api.call("POST", `/services/${encodeURIComponent(name)}/pricings`, { key, body: yamlUpload(text) });
    }
    expect(made, JSON.stringify(made.body)).toMatchObject({ status: 201 });
  }
}

/** Builds the body of a contract with Tasker's plan PRO; overrides replace whole fields. */
export function contractFor(userId: string, overrides: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    userContact: { userId, username: userId },
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: {},
    ...overrides,
  };
}

/** Creates a contract for this end user; fails the test unless the call succeeds. */
export async function contract(
  api: TestApi,
  key: string,
  userId: string,
  overrides: Record<string, unknown> = {},
): Promise<ContractBody> {
  const made = await api.call<ContractBody>("POST", "/contracts", { key, body: contractFor(userId, overrides) });
  expect(made).toMatchObject({ status: 201 });
  return made.body;
}

/** Returns a contract without its use, history and custom terms, as events carry it. */
export function factsOf(
  contract: ContractBody & { trial?: object; scheduled?: object },
): Omit<ContractBody, "usageLevels" | "history"> {
  const { usageLevels: _, history: __, trial: ___, scheduled: ____, ...facts } = contract;
  return facts;
}

/** Returns the contract as GET responds with it. */
export async function show(api: TestApi, key: string, userId: string): Promise<ContractBody> {
  const shown = await api.call<ContractBody>("GET", `/contracts/${encodeURIComponent(userId)}`, { key });
  expect(shown).toMatchObject({ status: 200 });
  return shown.body;
}

/** Returns the consumption of one of Tasker's limits. */
export async function consumed(api: TestApi, key: string, userId: string, limit = "maxTasks"): Promise<number> {
  return (await show(api, key, userId)).usageLevels["tasker"]?.[limit]?.consumed ?? Number.NaN;
}

/** Evaluates or consumes one feature. */
export function consume(
  api: TestApi,
  key: string,
  userId: string,
  body: Record<string, number> = { "tasker-maxTasks": 1 },
  path = "tasker-board",
): Promise<Answer> {
  return api.call("POST", `/features/${encodeURIComponent(userId)}/${path}`, { key, body });
}

/** Counts responses by status. */
export function statuses(answers: readonly { status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
