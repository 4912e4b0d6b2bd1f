import { withOverrides } from "../core/pricing/overrides.ts";
import { finiteLimit, grant, grantedLimits } from "../core/pricing/subscription.ts";
import { listBlockUsers } from "../db/queries/block-listing.ts";
import { loadSnapshots } from "../db/queries/contract-snapshots.ts";
import {
  hasUnfilledLimits,
  type LimitException,
  type NumericLimits,
  readConfigurations,
  readLimitOverrides,
} from "../db/queries/near-limits.ts";
import { fillLimits, takeUnfilled } from "../db/queries/unfilled-limits.ts";
import type { Context, Resources } from "./context.ts";
import { blocksOf, evaluationIfAny, grantedLimit } from "./evaluations.ts";
import { compiledPricings } from "./subscriptions.ts";

/**
 * Returns the limits that balances do not know: those of contracts with overrides or blocks, and of balances that
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
  const extended = await extendedLimits(ctx, organizationId);
  const isExtended = new Set(extended.map(keyOf));
  const exceptions = overridden.flatMap(({ hash, contractId, serviceId, override, plan, addOns }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    const { name } = override;
    const granted = grant(pricing, plan ?? undefined, addOns ?? {});
    const cap = finiteLimit(withOverrides(pricing, granted, [override]).usageLimits.get(name));
    return [{ contractId, serviceId, limitName: name, cap }];
  });
  return { caps, exceptions: [...exceptions.filter((each) => !isExtended.has(keyOf(each))), ...extended] };
}

const keyOf = ({ contractId, serviceId, limitName }: LimitException) => `${contractId} ${serviceId} ${limitName}`;

/** Returns the limits of an organization's contracts with blocks. Their values include what blocks add now. */
async function extendedLimits(ctx: Context, organizationId: string): Promise<LimitException[]> {
  const userIds = await listBlockUsers(ctx.db, organizationId);
  if (userIds.length === 0) return [];
  const now = ctx.resources.now();
  const extended: LimitException[] = [];
  for (const contract of (await loadSnapshots(ctx.db, organizationId, userIds)).values()) {
    const evaluation = await evaluationIfAny(ctx, contract, now);
    for (const { serviceId, limitName } of contract.levels) {
      if (blocksOf(contract.blocks, { serviceId, limitName }).length === 0) continue;
      const cap = finiteLimit(grantedLimit(contract, evaluation, { serviceId, limitName }));
      extended.push({ contractId: contract.contractId, serviceId, limitName, cap });
    }
  }
  return extended;
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
