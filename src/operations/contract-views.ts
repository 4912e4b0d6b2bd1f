import type { CompiledPricing } from "../core/pricing/compile.ts";
import { hasEnded, stateOf, withOverrides } from "../core/pricing/overrides.ts";
import { grant, type Grant } from "../core/pricing/subscription.ts";
import { withActors } from "../db/queries/actors.ts";
import { type ContractView, type ReadContract, readContracts } from "../db/queries/contracts.ts";
import type { ContractOverride, OverrideView } from "../db/queries/overrides.ts";
import type { Context } from "./context.ts";
import { compiledPricings } from "./subscriptions.ts";

/*
 * Contracts as endpoints return them. What an override grants depends on the compiled pricing, so it is added here.
 */

/** Reads contracts as endpoints return them, in the given order. Omits deleted contracts. */
export async function showContracts(ctx: Context, named: readonly { id: string }[]): Promise<ContractView[]> {
  return withShownOverrides(ctx, await readContracts(ctx.db, named), ctx.resources.now());
}

/** Adds the overrides that have not ended at that moment to the views of contracts that have some. */
export async function withShownOverrides(
  ctx: Context,
  contracts: readonly ReadContract[],
  at: Date,
): Promise<ContractView[]> {
  const lasting = contracts.flatMap((contract) =>
    overridesOf(contract)
      .filter((override) => !hasEnded(override, at))
      .map((override) => ({ override, contract })),
  );
  if (lasting.length === 0) return contracts.map(({ view }) => view);
  const views = await viewOverrides(
    ctx,
    lasting.map(({ override }) => override),
    at,
  );
  const shown = new Map<ReadContract, OverrideView[]>();
  for (const [index, { contract }] of lasting.entries()) {
    const view = views[index];
    if (view !== undefined) shown.set(contract, [...(shown.get(contract) ?? []), view]);
  }
  return contracts.map((contract) => {
    const overrides = shown.get(contract);
    return overrides === undefined ? contract.view : { ...contract.view, overrides };
  });
}

/** Returns a contract's overrides with its configuration. Omits those of services that it no longer has. */
export function overridesOf({ view, services, overrides }: ReadContract): ContractOverride[] {
  const { organizationId, userContact } = view;
  return overrides.flatMap((override) => {
    const contracted = services.find(({ serviceId }) => serviceId === override.serviceId);
    return contracted === undefined ? [] : [{ ...override, organizationId, userId: userContact.userId, contracted }];
  });
}

/** Shows overrides as they are at that moment, with the value that they replace. Source: contract custom-terms §3. */
export async function viewOverrides(
  ctx: Context,
  overrides: readonly ContractOverride[],
  at: Date,
): Promise<OverrideView[]> {
  if (overrides.length === 0) return [];
  const compiled = await compiledPricings(
    ctx,
    overrides.map(({ contracted }) => contracted),
  );
  const named = await withActors(ctx.db, overrides);
  return named.map(({ organizationId, userId, contracted, setAt, actor, ...override }) => {
    const pricing = compiled.get(contracted.hash);
    if (pricing === undefined) throw new Error(`pricing ${contracted.pricingId} has no model`);
    const { kind, name, mode, value, from, until, reason } = override;
    const state = stateOf(pricing, override, at);
    const granted = grantOf(pricing, contracted);
    const effective = state === "active" ? withOverrides(pricing, granted, [override]) : granted;
    return {
      organizationId,
      userId,
      service: contracted.key,
      kind,
      name,
      mode,
      value,
      from,
      until,
      reason,
      state,
      granted: granted[kind].get(name) ?? null,
      effective: effective[kind].get(name) ?? null,
      setAt,
      actor,
    };
  });
}

function grantOf(pricing: CompiledPricing, { plan, addOns }: ContractOverride["contracted"]): Grant {
  return grant(pricing, plan ?? undefined, addOns ?? {});
}
