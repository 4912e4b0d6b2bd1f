import { type Side, sideSteps } from "../../core/change/entitlements.ts";
import type { ServiceRow, VersionRow } from "../../db/queries/pricings.ts";
import type { Context } from "../context.ts";
import { inSlices } from "../state/analysis.ts";
import { compiledPricings, compileModel } from "../subscriptions.ts";

/** Compiles one version of the service for comparisons. */
export async function loadSide(
  ctx: Context,
  service: ServiceRow,
  row: VersionRow | undefined,
): Promise<Side | undefined> {
  if (row === undefined) return undefined;
  const { id: pricingId, hash, draft } = row;
  const pricing =
    draft === undefined
      ? (await compiledPricings(ctx, [{ pricingId, hash }])).get(hash)
      : (ctx.resources.pricingCache.peek(hash) ?? (await compileModel(ctx, { hash, text: draft })));
  if (pricing === undefined) throw new Error(`pricing ${pricingId} has no model`);
  return inSlices(sideSteps(pricing, service.nameKey));
}
