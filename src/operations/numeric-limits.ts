import { type CompiledPricing, trackedLimits } from "../core/pricing/compile.ts";
import { UNLIMITED } from "../core/pricing/model.ts";
import { withOverrides } from "../core/pricing/overrides.ts";
import { grant } from "../core/pricing/subscription.ts";
import { type NumericLimits, readConfigurations, readLimitOverrides } from "../db/queries/overview.ts";
import type { Context } from "./context.ts";
import { compiledPricings } from "./subscriptions.ts";

const grantOf = (
  pricing: CompiledPricing,
  { plan, addOns }: { plan: string | null; addOns: Record<string, number> | null },
) => grant(pricing, plan ?? undefined, addOns ?? {});

const isFinite = (cap: unknown): cap is number => typeof cap === "number" && cap >= 0 && cap < UNLIMITED;

/**
 * Returns the finite limits that consumption can approach, per configuration. A contract's limits depend only on its
 * configuration and its overrides.
 */
export async function numericLimitsOf(ctx: Context, organizationId: string): Promise<NumericLimits> {
  const configurations = await readConfigurations(ctx.db, organizationId);
  const overridden = await readLimitOverrides(ctx.db, organizationId, ctx.resources.now());
  const compiled = await compiledPricings(ctx, [...configurations, ...overridden]);
  const caps = configurations.flatMap(({ hash, ...configuration }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    const { usageLimits } = grantOf(pricing, configuration);
    return trackedLimits(pricing).flatMap(({ name }) => {
      const cap = usageLimits.get(name);
      return isFinite(cap) ? [{ ...configuration, limitName: name, cap }] : [];
    });
  });
  const exceptions = overridden.flatMap(({ hash, contractId, serviceId, override, ...configuration }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    const { name } = override;
    const cap = withOverrides(pricing, grantOf(pricing, configuration), [override]).usageLimits.get(name);
    return [{ contractId, serviceId, limitName: name, cap: isFinite(cap) ? cap : null }];
  });
  return { caps, exceptions };
}
