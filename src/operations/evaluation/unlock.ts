import { type BilledPrices, pricesOf } from "../../core/billing/prices-of.ts";
import { configurationOf } from "../../core/change/configuration.ts";
import type { Configuration } from "../../core/change/configuration.ts";
import { usageOf, withOverridesOf } from "../../core/change/entitlements.ts";
import type { Side } from "../../core/change/entitlements.ts";
import type { Goal } from "../../core/offers/unlock-search.ts";
import {
  type FoundPurchases,
  named,
  type NamedConfiguration,
  type Purchase,
  unlockSteps,
} from "../../core/offers/unlock.ts";
import { total } from "../../core/exact.ts";
import { withBlocks } from "../../core/pricing/blocks.ts";
import type { Spender } from "../../core/pricing/budgets.ts";
import { firstDenying } from "../../core/pricing/budget-decision.ts";
import { prepareEvaluation } from "../../core/pricing/evaluate.ts";
import { involvedLimits } from "../../core/pricing/involved-limits.ts";
import { idOf } from "../../core/pricing/evaluation.ts";
import { holdsAt } from "../../core/pricing/overrides.ts";
import type { Grant } from "../../core/pricing/subscription.ts";
import { readPrices } from "../../db/queries/billing.ts";
import { listBlockRows } from "../../db/queries/block-listing.ts";
import type { SnapshotOverride } from "../../db/queries/contract-snapshots.ts";
import type { SnapshotService } from "../../db/schema.ts";
import { listVersions, type VersionRow } from "../../db/queries/pricings.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { addedByBlocks } from "../evaluations.ts";
import { budgetParts } from "./budget-parts.ts";
import { decideByLimits, involvedLevels } from "./decision.ts";
import { missingBlocks } from "./missing-blocks.ts";
import { evaluatedOrganization, type Prepared, prepareContract } from "./prepare.ts";
import type { Mode } from "./request.ts";
import { refuseStranger, withSpenders } from "./spenders.ts";
import { versionNotFound } from "../service-address.ts";
import { inBudget } from "../state/analysis.ts";
import { namedVersion, offeredVersion, requireActive, sidesOf } from "./offered-versions.ts";

/** Computing time of one search. With its last step and the answer, a call takes less than 50 ms. */
const SEARCH_MS = 40;

/** Reason why there is no target. Source: contract offers §2. */
export type NoUnlock = "UNKNOWN_FEATURE" | "NO_EXPRESSION" | "ALREADY_ON" | "BUDGET" | "NOT_OFFERED" | "UNDECIDED";

/** The smallest purchase that turns a feature on, and those of up to three other plans. */
export interface Unlock extends Pick<Purchase, "contact" | "gains" | "losses" | "differences"> {
  readonly featureId: string;
  readonly service: string | null;
  readonly current: NamedConfiguration | null;
  readonly target: NamedConfiguration | null;
  /** Null with a target. */
  readonly reason: NoUnlock | null;
  readonly price: Purchase["price"] | null;
  /** The smallest blocks that would turn the feature on, by limit id. Undefined if blocks alone do not, or the organization gives none. */
  readonly missing?: Readonly<Record<string, number>>;
  /** Prices that a checkout of `target` has to buy, where all of it has price ids. */
  readonly billing?: BilledPrices;
  readonly alternatives: readonly (Purchase & { readonly billing?: BilledPrices })[];
  /** False when the search was cut off: `target` is then the best found so far. */
  readonly complete: boolean;
}

interface Asked {
  userId: string;
  featureId: string;
  mode: Mode;
  /** Amounts to consume by `<service>-<limit>`; undefined to ask whether the feature is on. */
  amounts: Readonly<Record<string, number>> | undefined;
  /** Searches this version instead of the offered one. */
  pricingVersion: string | undefined;
  /** The one who spends. Default: nobody. */
  spender?: Spender | undefined;
}

/**
 * Finds the smallest purchase that turns a feature on for an end user. Writes nothing but renewals that are due.
 * Source: contract offers §2.
 * @throws Failure notFound without a contract, or for an unknown version; invalid for an expired contract or an
 * archived version; unprocessable for the amount of a limit that the feature does not read.
 */
export async function unlockFeature(ctx: Context, asked: Asked): Promise<Unlock> {
  const prepared = await withSpenders(ctx, await prepareContract(ctx, asked.userId), [asked.spender ?? []]);
  refuseStranger(prepared, asked);
  const found = await findFeature(ctx, prepared, asked);
  if (found === undefined) return nothingFound(asked, "UNKNOWN_FEATURE");
  const { contracted, name, before, after } = found;
  const current = currentOf(contracted);
  const expression = after.pricing.features.get(name)?.[asked.mode.server ? "server" : "client"];
  const limits = (expression?.usage ?? []).filter(({ slot }) => slot >= 0).map((usage) => usage.name);
  requireKnownAmounts(asked.amounts, after.serviceName, limits);
  const answer = { service: contracted.key, current: named(before.pricing, current) };
  if (expression?.mentionsContext !== true) return { ...nothingFound(asked, "NO_EXPRESSION"), ...answer };
  const on = isOn(prepared, asked);
  if (isDeniedByBudget(prepared, asked, on)) return { ...nothingFound(asked, "BUDGET"), ...answer };
  if (on) return { ...nothingFound(asked, "ALREADY_ON"), ...answer };
  const goal = goalOf(prepared, asked, found);
  const searched = await inBudget(SEARCH_MS, (isOver) => unlockSteps({ before, after, current }, goal, isOver));
  const missing = (await givesBlocks(ctx, prepared))
    ? missingBlocks(prepared, asked, (evaluation) => isOn({ ...prepared, evaluation }, asked))
    : undefined;
  const unlock = await withPrices(ctx, contracted.key, answerOf(asked, answer, searched));
  return missing === undefined ? unlock : { ...unlock, missing };
}

/** Returns true if the organization uses blocks. The answers of others do not mention them. */
async function givesBlocks(ctx: Context, { contract }: Prepared): Promise<boolean> {
  if (contract.blocks.length > 0) return true;
  const organizationId = evaluatedOrganization(ctx);
  return (await listBlockRows(ctx.db, { organizationId }, { before: undefined, limit: 1 })).length > 0;
}

/** Adds what a checkout of the target, and of each alternative, has to buy. */
async function withPrices(ctx: Context, serviceKey: string, unlock: Unlock): Promise<Unlock> {
  if (unlock.target === null) return unlock;
  const connected = await readPrices(ctx.db, evaluatedOrganization(ctx));
  if (connected.length === 0) return unlock;
  const priced = <Item extends { readonly target: NamedConfiguration | null }>(item: Item) => {
    const prices = pricesOf(connected, serviceKey, item.target);
    return prices === undefined ? item : { ...item, billing: prices };
  };
  return priced({ ...unlock, alternatives: unlock.alternatives.map(priced) });
}

function answerOf(
  asked: Asked,
  answer: Pick<Unlock, "service" | "current">,
  { purchases: [best, ...alternatives], complete }: FoundPurchases,
): Unlock {
  if (best === undefined)
    return { ...nothingFound(asked, complete ? "NOT_OFFERED" : "UNDECIDED"), ...answer, complete };
  const { target, contact, price, gains, losses, differences } = best;
  const { featureId } = asked;
  const changes = { gains, losses, differences };
  return { featureId, ...answer, target, reason: null, contact, price, ...changes, alternatives, complete };
}

function nothingFound({ featureId }: Asked, reason: NoUnlock): Unlock {
  return {
    featureId,
    service: null,
    current: null,
    target: null,
    reason,
    contact: false,
    price: null,
    gains: [],
    losses: [],
    differences: [],
    alternatives: [],
    complete: true,
  };
}

/** Returns the configuration that the contract has of a service. */
export function currentOf({ plan, addOns }: SnapshotService): Configuration {
  const bought = Object.entries(addOns ?? {}).filter(([, quantity]) => quantity > 0);
  return configurationOf(plan ?? undefined, Object.fromEntries(bought));
}

/** Returns the overrides of a service that hold at that moment. A novation keeps them. */
function activeOverrides(
  { overrides }: Prepared["contract"],
  { serviceId }: SnapshotService,
  at: Date,
): SnapshotOverride[] {
  return overrides.filter((override) => override.serviceId === serviceId && holdsAt(override, at));
}

interface FoundFeature {
  contracted: SnapshotService;
  /** Name of the feature in its pricing. */
  name: string;
  before: Side;
  after: Side;
}

/** Finds the contracted service whose searched version has the feature. Of several, the later contracted one answers. */
async function findFeature(
  ctx: Context,
  { contract, at }: Prepared,
  { featureId, pricingVersion }: Asked,
): Promise<FoundFeature | undefined> {
  const candidates: { contracted: SnapshotService; version: VersionRow }[] = [];
  const services = contract.services.filter(({ key }) => featureId.startsWith(idOf(key, "")));
  for (const contracted of services.toReversed()) {
    const versions = await listVersions(ctx.db, contracted.serviceId);
    const version =
      pricingVersion === undefined
        ? offeredVersion(versions, contracted.pricingId)
        : namedVersion(versions, pricingVersion);
    if (version !== undefined) candidates.push({ contracted, version });
  }
  const last = services.at(-1);
  if (pricingVersion !== undefined && last !== undefined) {
    const [first] = candidates;
    if (first === undefined)
      throw versionNotFound({ organizationId: "", serviceName: last.key, version: pricingVersion });
    requireActive(first.version, pricingVersion, first.contracted.key);
  }
  for (const { contracted, version } of candidates) {
    const name = featureId.slice(idOf(contracted.key, "").length);
    const rows = [contracted, { pricingId: version.id, hash: version.hash }];
    const overrides = activeOverrides(contract, contracted, at);
    const [before, after] = (await sidesOf(ctx, contracted.key, rows)).map((side) => withOverridesOf(side, overrides));
    if (before !== undefined && after?.pricing.features.has(name) === true) return { contracted, name, before, after };
  }
  return undefined;
}

/** @throws Failure unprocessable for an amount of a limit that the feature does not read. */
function requireKnownAmounts(amounts: Asked["amounts"], serviceName: string, limits: readonly string[]): void {
  const known = new Set(limits.map((limit) => idOf(serviceName, limit)));
  const unknown = Object.keys(amounts ?? {}).find((id) => !known.has(id));
  if (unknown !== undefined) throw new Failure("unprocessable", `Unknown field: amounts.${unknown}`);
}

/** Decides as a strict dry run with the amounts does, or as a plain read without them. Amounts not named count as 0. */
function isOn(
  { evaluation, usage }: Pick<Prepared, "evaluation" | "usage">,
  { userId, featureId, mode, amounts }: Asked,
): boolean {
  const unnamed = involvedLimits(evaluation, featureId, mode).map(({ id }) => [id, 0]);
  const expected = amounts === undefined ? {} : { ...Object.fromEntries(unnamed), ...amounts };
  const request = { userId, featureId, expected, mode, strict: true, dryRun: true, explain: false };
  return decideByLimits({ evaluation, usage }, request).result.eval;
}

/**
 * Returns true if a budget denies and nothing that can be bought helps. A purchase may raise the limit whose value a budget
 * takes, unless the limits alone allow the call.
 */
function isDeniedByBudget(
  prepared: Prepared,
  { featureId, mode, amounts: expected = {}, spender }: Asked,
  on: boolean,
): boolean {
  const involved = involvedLevels(prepared, { featureId, mode });
  const parts = budgetParts(prepared, involved, { spender, expected });
  return firstDenying(on ? parts : parts.filter(({ fit }) => typeof fit.budget.amount === "number")) !== undefined;
}

/** Describes what a configuration must fulfil: the contract, novated to it, could use the feature. */
function goalOf(
  { contract, evaluation, usage, at }: Prepared,
  asked: Asked,
  { contracted, name, after }: FoundFeature,
): Goal {
  // A novation keeps blocks: they count on top of what the configuration grants.
  const added = addedByBlocks(contract, at).filter(({ serviceId }) => serviceId === contracted.serviceId);
  const levels = contract.levels.filter(({ serviceId }) => serviceId === contracted.serviceId);
  // A novation keeps open holds with the levels that they hold, so usage counts, not the balance alone. A hold that spans a
  // limit which the target does not track would be released as a whole: the rest of it still counts here, because a
  // snapshot has sums per level only. The target then grants more than is needed, never less.
  const kept = Object.fromEntries(
    levels.map(({ limitName }) => [limitName, usage.get(idOf(contracted.key, limitName)) ?? 0]),
  );
  const mine = new Set(levels.map(({ limitName }) => idOf(contracted.key, limitName)));
  const others = [...usage].filter(([id]) => !mine.has(id));
  // A novation keeps the balances of limits that both versions track, and starts new ones at zero.
  const novated = new Map([...others, ...usageOf(after, kept)]);
  return {
    feature: name,
    mode: asked.mode.server ? "server" : "client",
    demanded: (limit) => {
      const id = idOf(after.serviceName, limit);
      const extra = added.find(({ limitName }) => limitName === limit)?.amount ?? 0;
      const used = total([novated.get(id) ?? 0, -extra]);
      return [used, total([used, asked.amounts?.[id] ?? 0])];
    },
    unlocks: (grant: Grant) => {
      const extended = withBlocks(after.pricing, grant, added);
      const services = evaluation.services.map((service) =>
        service.serviceName === contracted.key ? { ...service, pricing: after.pricing, grant: extended } : service,
      );
      return isOn({ evaluation: prepareEvaluation(services), usage: novated }, asked);
    },
  };
}
