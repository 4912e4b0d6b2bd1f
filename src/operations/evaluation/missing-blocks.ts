import { total } from "../../core/exact.ts";
import { MAX_BLOCK_AMOUNT, withBlocks } from "../../core/pricing/blocks.ts";
import { trackedLimits } from "../../core/pricing/compile.ts";
import { type Evaluation, prepareEvaluation } from "../../core/pricing/evaluate.ts";
import { involvedLimits } from "../../core/pricing/involved-limits.ts";
import { idOf, limitValue } from "../../core/pricing/evaluation.ts";
import { isBound } from "../../core/pricing/model.ts";
import type { Prepared } from "./prepare.ts";
import type { Mode } from "./request.ts";

/* Blocks that would turn a feature on for a contract as it is. Source: contract credits §5. */

type Amounts = Readonly<Record<string, number>>;

/** Returns an evaluation whose limits are higher by these amounts, by limit id. */
function raised({ services }: Evaluation, amounts: Amounts): Evaluation {
  const extended = services.map((service) => {
    const { pricing, serviceName } = service;
    const added = trackedLimits(pricing).flatMap(({ name }) => {
      const amount = amounts[idOf(serviceName, name)] ?? 0;
      return amount > 0 ? [{ limitName: name, amount }] : [];
    });
    return { ...service, grant: withBlocks(pricing, service.grant, added) };
  });
  return prepareEvaluation(extended);
}

/**
 * Returns the smallest blocks that together turn on a feature that is off, one per limit. Undefined if no block does. An expression that demands more than the exact difference gets the next whole number.
 */
export function missingBlocks(
  { evaluation, usage }: Pick<Prepared, "evaluation" | "usage">,
  { featureId, mode, amounts }: { featureId: string; mode: Mode; amounts: Amounts | undefined },
  isOn: (evaluation: Evaluation) => boolean,
): Record<string, number> | undefined {
  const candidates = involvedLimits(evaluation, featureId, mode).flatMap(({ id }) => {
    const limit = limitValue(evaluation, id);
    if (!isBound(limit)) return [];
    const exact = Math.max(0, total([usage.get(id) ?? 0, amounts?.[id] ?? 0, -limit]));
    return [{ id, sizes: [0, exact, Math.floor(exact) + 1] }];
  });
  const chosen = Object.fromEntries(candidates.map(({ id, sizes }) => [id, Math.max(...sizes)]));
  const turnsOn = (sizes: Amounts) => isOn(raised(evaluation, sizes));
  if (candidates.length === 0 || !turnsOn(chosen)) return undefined;
  for (const { id, sizes } of candidates) {
    chosen[id] = sizes.find((size) => turnsOn({ ...chosen, [id]: size })) ?? Math.max(...sizes);
  }
  const missing = Object.entries(chosen).filter(([, size]) => size > 0);
  return missing.every(([, size]) => size <= MAX_BLOCK_AMOUNT) ? Object.fromEntries(missing) : undefined;
}
