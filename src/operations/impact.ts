import {
  assessChange,
  type ChangeAction,
  type ImpactView,
  planChange,
  viewImpact,
  type Watch,
} from "./change-impact.ts";
import { type GateView, holdAgainst, loadGateRules } from "./change-decision.ts";
import { type Context, transactionOnce } from "./context.ts";
import { answerQuestions, type Answers, MissingAnswers } from "./proposals.ts";
import { requireService, type ServiceAddress } from "./service-address.ts";

/**
 * What a change would do to every contract of a service, and what the gate would say of it; changes nothing. Whether it
 * can be asked at all is known at once, the answer when it has been worked out. Failures as in planChange and assessChange.
 */
export async function openImpact(
  ctx: Context,
  input: ServiceAddress & { change: ChangeAction },
): Promise<(watch: Watch) => Promise<ImpactView & { gate: GateView }>> {
  const plan = await planChange(ctx, await requireService(ctx, input), input.change);
  const rules = await loadGateRules(ctx, plan.service.organizationId);
  return async (watch) => {
    const answers: Answers = new Map();
    for (;;) {
      try {
        // A transaction for its cursor alone: all contracts are read as they were at one moment. Its progress is told meanwhile.
        return await transactionOnce(ctx, async (ctx) => {
          const assessment = await assessChange(ctx, plan, { ...watch, answers });
          return { ...viewImpact(plan, assessment), gate: holdAgainst(rules, assessment) };
        });
      } catch (error) {
        // Each round answers every question that there is; contracts that come in between bring a few new ones.
        if (!(error instanceof MissingAnswers)) throw error;
        await answerQuestions(ctx, error, answers, watch);
      }
    }
  };
}
