import { total } from "../../core/exact.ts";
import { CONTRACT_CHANGES } from "../../core/scheduled.ts";
import type { Proposal } from "../../core/change/best-fit/best-fit.ts";
import { countSubscribers, listConfigurations, readSubscribers } from "../../db/queries/subscribers.ts";
import {
  countPendingOf,
  listPendingConfigurations,
  type PendingConfiguration,
} from "../../db/queries/scheduled-services.ts";
import type { Context } from "../context.ts";
import { clientClosed } from "../state/analysis.ts";
import { pause } from "../state/analysis.ts";
import type { ChangePlan } from "./change-plan.ts";
import type { Assessment, OverrideOutcome } from "./assessment.ts";
import { Grouping } from "./grouping.ts";
import { loadSide } from "./load-side.ts";
import { type Answers, MissingAnswers, type QuestionsAbout } from "./proposals.ts";

/** Progress of an assessment: first over the distinct configurations, then over the contracts. */
export interface Progress {
  contracts: number;
  of: number;
  /** Assessed configurations, and their total. Absent while contracts are counted. */
  configurations?: number;
  ofConfigurations?: number;
}

/** Progress callback and cancellation of an assessment. */
export interface Watch {
  /** Aborted when the client no longer waits. */
  signal?: AbortSignal | undefined;
  onProgress?: ((done: Progress) => void) | undefined;
}

/** Time slice, after which counting yields to the event loop. */
const SLICE_MS = 3;

/**
 * Compares every contract before and after the change, including expired ones, because they move too. It reads 1,000
 * contracts at a time and yields in between. Call it inside a transaction; it writes nothing. With `certifies`, best
 * fits are certified.
 * @throws Failure invalid for a target group without contracts.
 * @throws MissingAnswers for configurations that `answers` lacks. Answer them outside the transaction, see
 * answerQuestions.
 */
export async function assessChange(
  ctx: Context,
  plan: ChangePlan,
  { answers, certifies = false, signal, onProgress }: Watch & { answers: Answers; certifies?: boolean },
): Promise<Assessment> {
  const about = aboutOf(plan, certifies);
  const grouping = new Grouping(ctx, plan, await loadSide(ctx, plan.service, plan.target), about, answers);
  // Distinct configurations suffice to find missing answers, before any contract is read.
  for (const holding of await listConfigurations(ctx.db, plan.holders, ctx.resources.now()))
    await grouping.open(holding);
  const pending = await pendingOf(ctx, plan);
  /** The configuration in the form of a contract's. Overrides do not count: they may end before the change is due. */
  const holdingOf = ({ pricingId, plan, addOns, contractIds: [contractId = ""] }: PendingConfiguration) => ({
    contractId,
    pricingId,
    plan,
    addOns,
    overrides: [],
  });
  for (const each of pending) await grouping.open(holdingOf(each));
  grouping.requireAllUsed();
  if (grouping.missing.size > 0) throw new MissingAnswers(about, [...grouping.missing.values()]);
  const of = await countSubscribers(ctx.db, plan.holders);
  let contracts = 0;
  const blocks = { contracts: 0, amounts: [] as number[] };
  let since = performance.now();
  for await (const page of readSubscribers(ctx.db, plan.holders, ctx.resources.now())) {
    for (const holder of page) {
      if (signal?.aborted === true) throw clientClosed();
      const counted = grouping.find(holder) ?? (await grouping.open(holder));
      counted?.impact.add({ configuration: counted.group.configuration, usage: holder.usage });
      counted?.group.contractIds.push(holder.contractId);
      if (holder.blocks !== undefined) {
        blocks.contracts += 1;
        blocks.amounts.push(holder.blocks);
      }
      if (performance.now() - since < SLICE_MS) continue;
      await pause();
      since = performance.now();
    }
    contracts += page.length;
    onProgress?.({ contracts, of: Math.max(contracts, of) });
  }
  // Without locks, contracts may have been added in the meantime.
  if (grouping.missing.size > 0) throw new MissingAnswers(about, [...grouping.missing.values()]);
  const groups = pending.flatMap((each) => {
    const counted = grouping.find({ ...holdingOf(each), usage: {} });
    return counted === undefined ? [] : [{ group: counted.group, kind: each.kind, contractIds: each.contractIds }];
  });
  const leaving = plan.action === "disable" && plan.holders.contractIds === undefined;
  const scheduled = leaving
    ? await countPendingOf(ctx.db, plan.service.id)
    : groups.reduce((sum, { contractIds }) => sum + contractIds.length, 0);
  const given = { contracts: blocks.contracts, amount: total(blocks.amounts) };
  return { ...grouping.assessment(), pending: groups, scheduled, blocks: given };
}

/** Lists what pending changes give the versions that contracts leave. By hand, a novation ends a trial. */
async function pendingOf(ctx: Context, { action, service, holders }: ChangePlan): Promise<PendingConfiguration[]> {
  const { pricingIds = [] } = holders;
  if (holders.contractIds !== undefined || (action !== "archive" && action !== "novation")) return [];
  const kinds = action === "archive" ? CONTRACT_CHANGES : (["trialEnd"] as const);
  return listPendingConfigurations(ctx.db, { serviceId: service.id, pricingIds }, kinds);
}

function aboutOf({ service, action, target }: ChangePlan, certifies: boolean): QuestionsAbout {
  const moves = action === "archive" || action === "novation";
  return {
    service,
    after: target,
    proposes: target !== undefined,
    certifies: certifies && moves,
  };
}

export type ImpactView = ReturnType<typeof viewImpact>;

export function viewImpact(plan: ChangePlan, { report, groups, scheduled, blocks }: Assessment) {
  const { service, action, version, target } = plan;
  return {
    action,
    serviceName: service.name,
    pricingVersion: version?.version ?? null,
    targetVersion: action === "activate" ? null : (target?.version ?? null),
    usage: report.usage,
    counts: report.counts,
    ...overrideTotals(groups),
    ...(scheduled === 0 ? {} : { scheduled }),
    ...(blocks.contracts === 0 ? {} : { blocks }),
    groups: groups.map((group, index) => ({
      pricingVersion: group.version.version,
      ...report.configurations[index],
      ...(group.overrides.length === 0 ? {} : { overrides: group.overrides }),
      chosenBy: group.chosenBy,
      proposal: viewProposal(group.proposal),
    })),
    unforeseen: report.unforeseen,
  };
}

/** Counts the contracts with overrides, and the overrides that a change makes superfluous or ends; nothing without any. */
function overrideTotals(groups: Assessment["groups"]) {
  const overridden = groups.filter((group) => group.overrides.length > 0);
  if (overridden.length === 0) return {};
  const count = (after: OverrideOutcome["after"]) =>
    overridden.reduce(
      (sum, group) => sum + group.contractIds.length * group.overrides.filter((each) => each.after === after).length,
      0,
    );
  return {
    overrides: {
      contracts: overridden.reduce((sum, { contractIds }) => sum + contractIds.length, 0),
      superfluous: count("superfluous"),
      inapplicable: count("inapplicable"),
      ended: count("ended"),
    },
  };
}

function viewProposal(proposal: Proposal | undefined) {
  if (proposal === undefined) return null;
  const { target, keepsEverything, complete, certificate } = proposal;
  return { target, keepsEverything, complete, certificate };
}
