import type { CompiledPricing } from "../core/pricing/compile.ts";
import { hasEnded, stateOf, withOverrides } from "../core/pricing/overrides.ts";
import { grant, type Grant } from "../core/pricing/subscription.ts";
import { withActors } from "../db/queries/actors.ts";
import { type ContractView, type ReadContract, readContracts } from "../db/queries/contract-view.ts";
import type { ContractOverride, OverrideView } from "../db/queries/overrides.ts";
import type { Context } from "./context.ts";
import { compiledPricings } from "./subscriptions.ts";

/*
 * Contracts as endpoints return them. What an override grants depends on the compiled pricing, so it is added here, as is
 * the scheduled change with the name of its author.
 */

/** Reads contracts as endpoints return them, in the given order. Omits deleted contracts. */
export async function showContracts(ctx: Context, named: readonly { id: string }[]): Promise<ContractView[]> {
  return withCustomTerms(ctx, await readContracts(ctx.db, named), ctx.resources.now());
}

/** Adds overrides and the pending change to the views of contracts that have some. Omits overrides that have ended. */
export async function withCustomTerms(
  ctx: Context,
  contracts: readonly ReadContract[],
  at: Date,
): Promise<ContractView[]> {
  const overrides = await shownOverrides(ctx, contracts, at);
  const scheduled = await shownChanges(ctx, contracts);
  return contracts.map((contract) => ({
    ...contract.view,
    ...(overrides.has(contract) ? { overrides: overrides.get(contract) ?? [] } : {}),
    ...scheduled.get(contract),
    ...(contract.trial === null ? {} : { trial: contract.trial }),
    ...(contract.billing === null ? {} : { billing: contract.billing }),
  }));
}

async function shownChanges(
  ctx: Context,
  contracts: readonly ReadContract[],
): Promise<Map<ReadContract, Required<Pick<ContractView, "scheduled">>>> {
  const pending = contracts.flatMap((contract) =>
    contract.scheduled === null ? [] : [{ ...contract.scheduled, contract }],
  );
  if (pending.length === 0) return new Map();
  const named = await withActors(ctx.db, pending);
  return new Map(named.map(({ contract, ...scheduled }) => [contract, { scheduled }]));
}

async function shownOverrides(
  ctx: Context,
  contracts: readonly ReadContract[],
  at: Date,
): Promise<Map<ReadContract, OverrideView[]>> {
  const lasting = contracts.flatMap((contract) =>
    overridesOf(contract)
      .filter((override) => !hasEnded(override, at))
      .map((override) => ({ override, contract })),
  );
  if (lasting.length === 0) return new Map();
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
  return shown;
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
