import { assessChange, type ImpactView, viewImpact, type Watch } from "../policy/change-impact.ts";
import { type ChangeAction, planChange } from "../policy/change-plan.ts";
import { type GateView, holdAgainst, loadGateRules } from "../policy/change-decision.ts";
import { listVersions, type VersionRow } from "../../db/queries/pricings.ts";
import { countSubscribers } from "../../db/queries/subscribers.ts";
import { type Context, transactionOnce } from "../context.ts";
import { answerQuestions, type Answers, MissingAnswers } from "../policy/proposals.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { requireService, type ServiceAddress } from "../service-address.ts";

type Shown = ImpactView | ReturnType<typeof withoutCertificates>;
export type ImpactAnswer = Shown & { gate: GateView };

/** Drops the proofs of best fits. Every decision keeps them. */
function withoutCertificates(view: ImpactView) {
  const groups = view.groups.map(({ proposal, ...group }) => {
    if (proposal === null) return { ...group, proposal };
    const { certificate: _, ...rest } = proposal;
    return { ...group, proposal: rest };
  });
  return { ...view, groups };
}

/** Adds drafts as the latest uploads, in the order of listVersions: newest `createdAt` of the file first. */
function withDrafts(versions: readonly VersionRow[], drafts: readonly VersionRow[]): readonly VersionRow[] {
  // The sort is stable: of one moment, the earlier upload comes first.
  return [...versions, ...drafts].sort((one, other) => other.declaredAt.getTime() - one.declaredAt.getTime());
}

/**
 * Computes the effect of a change on every contract of a service, and the gate's result. Changes nothing. It validates
 * the change immediately; the returned function computes the answer. Failures as in planChange and assessChange.
 */
export async function openImpact(
  ctx: Context,
  input: ServiceAddress & {
    change: ChangeAction;
    includesCertificates: boolean;
    /** Drafts that count as uploaded, see readDrafts. */
    drafts?: readonly VersionRow[] | undefined;
  },
): Promise<(watch: Watch) => Promise<ImpactAnswer>> {
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  const service = await requireService(ctx, input);
  const versions = withDrafts(await listVersions(ctx.db, service.id), input.drafts ?? []);
  const plan = await planChange(ctx, service, input.change, versions);
  const rules = await loadGateRules(ctx, plan.service.organizationId);
  return async (watch) => {
    const answers: Answers = new Map();
    for (;;) {
      try {
        // A transaction only for its cursor, so all contracts come from one snapshot. No automatic retry: progress is
        // reported meanwhile.
        return await transactionOnce(ctx, async (ctx) => {
          const assessment = await assessChange(ctx, plan, { ...watch, answers });
          const view = viewImpact(plan, assessment);
          const shown = input.includesCertificates ? view : withoutCertificates(view);
          return { ...shown, gate: holdAgainst(rules, assessment) };
        });
      } catch (error) {
        // Each round answers all known questions. Contracts added in between can raise a few more.
        if (!(error instanceof MissingAnswers)) throw error;
        const of = await countSubscribers(ctx.db, plan.holders);
        const ofConfigurations = error.questions.length;
        const onAssessed = (configurations: number) =>
          watch.onProgress?.({ contracts: 0, of, configurations, ofConfigurations });
        await answerQuestions(ctx, error, answers, { signal: watch.signal, onAssessed });
      }
    }
  };
}
