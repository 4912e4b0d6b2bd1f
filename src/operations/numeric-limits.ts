import { withOverrides } from "../core/pricing/overrides.ts";
import { finiteLimit, grant, grantedLimits } from "../core/pricing/subscription.ts";
import {
  hasUnfilledLimits,
  type NumericLimits,
  readConfigurations,
  readLimitOverrides,
} from "../db/queries/overview.ts";
import { fillLimits, takeUnfilled } from "../db/queries/unfilled-limits.ts";
import type { Context, Resources } from "./context.ts";
import { compiledPricings } from "./subscriptions.ts";

/**
 * Returns the limits that balances do not know: those of contracts with overrides, and of balances that
 * {@link fillLimitValues} has not come to.
 */
export async function numericLimitsOf(ctx: Context, organizationId: string): Promise<NumericLimits> {
  const isUnfilled = await hasUnfilledLimits(ctx.db, organizationId);
  const configurations = isUnfilled ? await readConfigurations(ctx.db, organizationId) : [];
  const overridden = await readLimitOverrides(ctx.db, organizationId, ctx.resources.now());
  const compiled = await compiledPricings(ctx, [...configurations, ...overridden]);
  const caps = configurations.flatMap(({ hash, ...configuration }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    return grantedLimits(pricing, configuration).flatMap(({ name, value }) =>
      value === null ? [] : [{ ...configuration, limitName: name, cap: value }],
    );
  });
  const exceptions = overridden.flatMap(({ hash, contractId, serviceId, override, plan, addOns }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    const { name } = override;
    const granted = grant(pricing, plan ?? undefined, addOns ?? {});
    const cap = finiteLimit(withOverrides(pricing, granted, [override]).usageLimits.get(name));
    return [{ contractId, serviceId, limitName: name, cap }];
  });
  return { caps, exceptions };
}

/**
 * Gives balances from before the column `limit_value` their limits, in small transactions.
 * Source: src/db/migrations/README.md.
 */
export async function fillLimitValues(resources: Resources): Promise<void> {
  const ctx = { db: resources.db, resources };
  for (let more = true; more;) {
    more = await resources.db.transaction(async (tx) => {
      const unfilled = await takeUnfilled(tx);
      const compiled = await compiledPricings({ ...ctx, db: tx }, unfilled);
      const services = unfilled.map(({ contractId, serviceId, hash, ...configuration }) => {
        const pricing = compiled.get(hash);
        if (pricing === undefined) throw new Error(`pricing ${configuration.pricingId} has no model`);
        const granted = grantedLimits(pricing, configuration).flatMap(({ name, value }): [string, number][] =>
          value === null ? [] : [[name, value]],
        );
        return { contractId, serviceId, limits: Object.fromEntries(granted) };
      });
      await fillLimits(tx, services);
      return services.length > 0;
    });
  }
}
