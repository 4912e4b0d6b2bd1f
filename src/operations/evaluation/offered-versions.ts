import { sideSteps } from "../../core/change/entitlements.ts";
import type { Side } from "../../core/change/entitlements.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import { type VersionRow, versionKey } from "../../db/queries/pricings.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { inSlices } from "../state/analysis.ts";
import { compiledPricings } from "../subscriptions.ts";

/*
 * Versions of a service, prepared for offers.
 */

/** Analysed expressions of each compiled pricing, which a service of one name uses. */
const sides = new WeakMap<CompiledPricing, Side>();

/** Returns versions of a service as sides of comparisons, in the order of `rows`. */
export async function sidesOf(
  ctx: Context,
  serviceKey: string,
  rows: readonly { pricingId: string; hash: string }[],
): Promise<Side[]> {
  const compiled = await compiledPricings(ctx, rows);
  const found: Side[] = [];
  for (const { pricingId, hash } of rows) {
    const pricing = compiled.get(hash);
    if (pricing === undefined) throw new Error(`pricing ${pricingId} has no model`);
    const known = sides.get(pricing);
    const side = known?.serviceName === serviceKey ? known : await inSlices(sideSteps(pricing, serviceKey));
    sides.set(pricing, side);
    found.push(side);
  }
  return found;
}

/**
 * Returns the version of a service that is offered to a user: the version that it has, if active, otherwise the newest
 * active one. Undefined if none is active. `versions` are ordered newest first.
 */
export function offeredVersion(
  versions: readonly VersionRow[],
  heldPricingId: string | undefined,
): VersionRow | undefined {
  const active = versions.filter(({ state }) => state === "active");
  return active.find(({ id }) => id === heldPricingId) ?? active[0];
}

/** Finds a version by its name. Undefined if the service lacks it. */
export function namedVersion(versions: readonly VersionRow[], version: string): VersionRow | undefined {
  const key = versionKey(version);
  return versions.find((row) => row.key === key);
}

/** @throws Failure invalid for an archived version, which is not for sale. */
export function requireActive({ state }: VersionRow, version: string, serviceName: string): void {
  if (state !== "active")
    throw new Failure("invalid", `INVALID DATA: Pricing version ${version} of service ${serviceName} is archived`);
}
