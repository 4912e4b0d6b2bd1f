import { isApplicable, OVERRIDE_STATES } from "../../core/pricing/overrides.ts";
import { readContracts } from "../../db/queries/contract-view.ts";
import {
  type ContractOverride,
  listOverriddenElements,
  type OverrideView,
  pageOverrides,
} from "../../db/queries/overrides.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { type Context, snapshot } from "../context.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { overridesOf, viewOverrides } from "../contract-views.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { compiledPricings } from "../subscriptions.ts";
import { type PageQuery, pageOf } from "./paging.ts";
import { type ElementAddress, requireOverride, viewOne } from "./overrides.ts";

/**
 * Shows the override of an element.
 * @throws Failure notFound for an unknown contract or override.
 */
export async function showOverride(ctx: Context, address: ElementAddress): Promise<OverrideView> {
  await applyDueChangesOf(ctx, address);
  return snapshot(ctx, async (ctx) =>
    viewOne(ctx, requireOverride(await readAll(ctx, address), address), ctx.resources.now()),
  );
}

/**
 * Lists the overrides of a contract, ended ones included, by service, kind and name.
 * @throws Failure notFound for an unknown contract.
 */
export async function listContractOverrides(ctx: Context, address: ContractAddress): Promise<OverrideView[]> {
  await applyDueChangesOf(ctx, address);
  return snapshot(ctx, async (ctx) => viewOverrides(ctx, await readAll(ctx, address), ctx.resources.now()));
}

async function readAll(ctx: Context, address: ContractAddress): Promise<ContractOverride[]> {
  const contracts = await readContracts(ctx.db, [await findContract(ctx, address)]);
  return contracts.flatMap(overridesOf);
}

export interface OverrideQuery extends PageQuery {
  organizationId: string | undefined;
  service: string | undefined;
  name: string | undefined;
  state: string | undefined;
  endsBefore: Date | undefined;
}

/**
 * Lists one page of an organization's overrides by their end, those without one last, and counts all matches.
 * @throws Failure invalid for wrong paging or an unknown state.
 */
export async function listOverrides(
  ctx: Context,
  query: OverrideQuery,
): Promise<{ overrides: OverrideView[]; total: number; next: string | undefined }> {
  const state = OVERRIDE_STATES.find((each) => each === query.state);
  const unknown = query.state && state === undefined;
  const page = pageOf(
    ctx,
    query,
    unknown ? [`Invalid state. Please use one of the following: ${OVERRIDE_STATES.join(", ")}`] : [],
  );
  await applyDueChangesOf(ctx, { organizationId: query.organizationId });
  return snapshot(ctx, async (ctx) => {
    const now = ctx.resources.now();
    const { organizationId, service, name, endsBefore } = query;
    const filter = {
      organizationId,
      serviceKey: service ? serviceKey(service) : undefined,
      name: name || undefined,
      endsBefore,
    };
    const inapplicable = state === undefined ? [] : await inapplicableElements(ctx, filter);
    const listed = await pageOverrides(ctx.db, filter, { state, inapplicable, now, ...page });
    return { overrides: await viewOverrides(ctx, listed.overrides, now), total: listed.total, next: listed.next };
  });
}

/** Returns the keys of overridden elements that their version lacks. */
async function inapplicableElements(
  ctx: Context,
  filter: Parameters<typeof listOverriddenElements>[1],
): Promise<string[]> {
  const elements = await listOverriddenElements(ctx.db, filter);
  const compiled = await compiledPricings(ctx, elements);
  return elements
    .filter(({ hash, ...element }) => {
      const pricing = compiled.get(hash);
      return pricing !== undefined && !isApplicable(pricing, { ...element, mode: "set" });
    })
    .map(({ key }) => key);
}
