import { configurationOf, priceOf } from "../../core/change/configuration.ts";
import type { Side } from "../../core/change/entitlements.ts";
import { problemOf } from "../../core/change/impact/configuration.ts";
import { type Placement, placementKey } from "../../core/change/replay/record.ts";
import type { ReplayedGroup } from "../../core/change/replay/report.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import type { ReplayedConfiguration } from "../../db/queries/replay.ts";
import type { Context } from "../context.ts";
import { type ChangePlan, targetKey } from "../policy/change-plan.ts";
import { Grouping } from "../policy/grouping.ts";
import { answerQuestions, type Answers, type QuestionsAbout } from "../policy/proposals.ts";
import { clientClosed, pause } from "../state/analysis.ts";
import { compiledPricings } from "../subscriptions.ts";

/** Longest work on the event loop without a pause: contracts may have had thousands of configurations. */
const SLICE_MS = 3;

/** A group of the report without its counts. */
export type GroupFacts = Pick<ReplayedGroup, "pricingVersion" | "configuration" | "target" | "problem"> & {
  price: Placement["price"];
};

/** Configurations of the contracts with their targets. */
export interface Placed {
  placements: Map<string, Placement>;
  groups: GroupFacts[];
  /** Pricings that contracts had of the service. */
  pricings: CompiledPricing[];
  complete: boolean;
}

/** Finds the target of each configuration: its own, that of a renamed plan, or the best fit. */
export async function placeConfigurations(
  ctx: Context,
  { plan, keepPlans }: { plan: ChangePlan; keepPlans: boolean },
  after: Side,
  configurations: readonly ReplayedConfiguration[],
  signal: AbortSignal | undefined,
): Promise<Placed> {
  const { target } = plan;
  const about: QuestionsAbout = { service: plan.service, after: target, proposes: true, certifies: false };
  const answers: Answers = new Map();
  const explicit = new Set(
    plan.targets.groups.map(({ pricingVersion, configuration }) => targetKey(pricingVersion, configuration)),
  );
  const compiled = await compiledPricings(
    ctx,
    configurations.filter(({ pricingId }) => plan.versions.get(pricingId)?.draft === undefined),
  );
  for (;;) {
    const grouping = new Grouping(ctx, plan, after, about, answers);
    const placed: Placed = {
      placements: new Map(),
      groups: [],
      pricings: [...compiled.values()].flatMap((one) => one ?? []),
      complete: true,
    };
    const numbers = new Map<string, number>();
    let since = performance.now();
    for (const row of configurations) {
      if (performance.now() - since >= SLICE_MS) {
        await pause();
        if (signal?.aborted === true) throw clientClosed();
        since = performance.now();
      }
      const { pricingId, hash, plan: name, addOns } = row;
      const version = plan.versions.get(pricingId);
      const configuration = configurationOf(name ?? undefined, addOns ?? {});
      const isNamed =
        explicit.has(targetKey(undefined, configuration)) ||
        (version !== undefined && explicit.has(targetKey(version.version, configuration)));
      let wanted: GroupFacts["target"];
      const isKept =
        version === undefined || hash === target?.hash || (keepPlans && problemOf(after, configuration) === null);
      if (!isNamed && isKept) wanted = configuration;
      else {
        const holding = { contractId: "", pricingId, plan: name, addOns, overrides: [] };
        const group = version === undefined ? undefined : (await grouping.open(holding))?.group;
        placed.complete &&= group?.proposal?.complete ?? true;
        wanted = group?.target ?? null;
      }
      const problem = problemOf(after, wanted ?? undefined);
      const before = compiled.get(hash);
      const pricingVersion = version?.version ?? before?.pricing.version ?? "";
      const key = targetKey(pricingVersion, configuration);
      const price = {
        then: before?.pricing.currency === after.pricing.pricing.currency ? listPrice(before, configuration) : null,
        replayed: wanted === null || problem !== null ? 0 : listPrice(after.pricing, wanted),
      };
      let group = numbers.get(key);
      if (group === undefined) {
        group = placed.groups.push({ pricingVersion, configuration, target: wanted, problem, price }) - 1;
        numbers.set(key, group);
      }
      placed.placements.set(placementKey(row), {
        group,
        target: problem === null ? (wanted ?? undefined) : undefined,
        price,
      });
    }
    if (grouping.missing.size === 0) {
      grouping.requireAllUsed();
      return placed;
    }
    await answerQuestions(ctx, { about, questions: [...grouping.missing.values()] }, answers, { signal });
  }
}

/** List price of a configuration per billing period. Null with a text price. */
function listPrice(pricing: CompiledPricing, configuration: ReplayedGroup["configuration"]): number | null {
  const { amount, unpriced } = priceOf(pricing, configuration);
  return unpriced.length === 0 ? amount : null;
}
