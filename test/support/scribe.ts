import type { TestApi } from "./api.ts";
import { contract, show } from "./contracting.ts";

/** Id of the only limit of the pricing below. */
export const CREDITS = "scribe-credits";

/** Builds a pricing whose only feature, `write`, spends credits: 1 for each unit `in`, and 2 for each `out`. */
export const scribePricing = (credits: number, plans = ""): string => `
saasName: Scribe
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
custom: { faregate: { rates: { credits: { in: 1, out: 2 } } } }
features:
  write:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['credits'] < pricingContext['usageLimits']['credits']
usageLimits:
  credits: { valueType: NUMERIC, defaultValue: ${credits}, unit: credit, type: RENEWABLE, period: { value: 1, unit: MONTH } }
plans:
  PRO: { price: 10, features: null }
${plans}`;

/** Body of a contract with a version and a plan of that pricing. */
export const subscription = (version = "1.0.0", plan = "PRO") => ({
  contractedServices: { scribe: version },
  subscriptionPlans: { scribe: plan },
  subscriptionAddOns: {},
});

/** Contracts a user to a plan of that pricing for a year. */
export async function subscribe(api: TestApi, userId: string, { plan = "PRO" } = {}): Promise<void> {
  const body = { ...subscription("1.0.0", plan), billingPeriod: { renewalDays: 365 } };
  await contract(api, api.callers.all.key, userId, body);
}

/** Returns the credits of a user that are consumed, and that are held. */
export async function creditsOf(api: TestApi, userId: string): Promise<[number, number]> {
  const level: { consumed: number; held?: number } | undefined = (await show(api, api.callers.all.key, userId))
    .usageLevels["scribe"]?.["credits"];
  return [level?.consumed ?? NaN, level?.held ?? 0];
}

/** Returns the movements of a user's usage, oldest first. */
export async function movementsOf(api: TestApi, userId: string) {
  const { body } = await api.call<{ data: { kind: string; amount: number; operation: string; estimated?: boolean }[] }>(
    "GET",
    `/contracts/${userId}/usage?by=movement`,
    { key: api.callers.all.key },
  );
  return body.data.toReversed();
}
