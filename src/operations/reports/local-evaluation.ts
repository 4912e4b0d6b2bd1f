import { countEvaluators } from "../../db/queries/evaluators.ts";
import { sumOpenLeases } from "../../db/queries/holds.ts";
import { organizationRole } from "../access.ts";
import { type Context, snapshot } from "../context.ts";

/** Local evaluation under way in one organization. */
export interface LocalEvaluation {
  /** Evaluators that are connected to any process, a second late. */
  evaluators: number;
  /** Open leases. */
  leases: number;
  /** Amounts that open leases hold, by limit. */
  held: { service: string; limit: string; leases: number; amount: number }[];
}

/**
 * Reads how many local evaluators are connected, and how much their leases hold. Source: contract tokens-and-leases §8.
 * @throws Failure notFound without the organization.
 */
export async function readLocalEvaluation(ctx: Context, organizationId: string): Promise<LocalEvaluation> {
  await organizationRole(ctx, organizationId);
  return snapshot(ctx, async ({ db, resources }) => {
    const evaluators = await countEvaluators(db, organizationId);
    return { evaluators, ...(await sumOpenLeases(db, organizationId, resources.now())) };
  });
}
