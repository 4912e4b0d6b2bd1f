import { trackedLimits } from "../core/pricing/compile.ts";
import { UNLIMITED } from "../core/pricing/model.ts";
import { grant } from "../core/pricing/subscription.ts";
import { type NumericLimit, readConfigurations } from "../db/queries/overview.ts";
import type { Context } from "./context.ts";
import { compiledPricings } from "./subscriptions.ts";

/**
 * Returns the finite limits that consumption can approach, per configuration. A contract's limits depend only on its
 * configuration.
 */
export async function numericLimitsOf(ctx: Context, organizationId: string): Promise<NumericLimit[]> {
  const configurations = await readConfigurations(ctx.db, organizationId);
  const compiled = await compiledPricings(ctx, configurations);
  return configurations.flatMap(({ hash, plan, addOns, ...configuration }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    const { usageLimits } = grant(pricing, plan ?? undefined, addOns ?? {});
    return trackedLimits(pricing).flatMap(({ name }) => {
      const cap = usageLimits.get(name);
      return typeof cap === "number" && cap >= 0 && cap < UNLIMITED
        ? [{ ...configuration, plan, limitName: name, cap }]
        : [];
    });
  });
}
