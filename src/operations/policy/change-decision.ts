import { eq, sql } from "drizzle-orm";
import { authorOf, isPlatformAdmin } from "../../core/access/caller.ts";
import { describeConfiguration } from "../../core/change/configuration.ts";
import type { Configuration } from "../../core/change/configuration.ts";
import { checkGate } from "../../core/change/impact/gate.ts";
import type { GateResult, GateRule } from "../../core/change/impact/gate.ts";
import { type CompiledPricing } from "../../core/pricing/compile.ts";
import { checkSubscription } from "../../core/pricing/subscription.ts";
import type { Move } from "../../db/queries/contract-moves.ts";
import { lockSubscribers } from "../../db/queries/contracts.ts";
import type { ServiceRow, VersionRow } from "../../db/queries/pricings.ts";
import { lockContractsWithPending } from "../../db/queries/scheduled.ts";
import { organizations, pricingDecisions } from "../../db/schema.ts";
import { organizationRole } from "../access.ts";
import { assessChange, type ImpactView, viewImpact } from "./change-impact.ts";
import { type ChangeAction, type ChangePlan, planChange } from "./change-plan.ts";
import type { Assessment, Group } from "./assessment.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import type { PendingMove } from "../pending-changes.ts";
import { answerQuestions, type Answers, MissingAnswers } from "./proposals.ts";

/** Returns the rules of an organization's gate in their order; none if none are set. */
export async function loadGateRules(ctx: Context, organizationId: string): Promise<readonly GateRule[]> {
  const [row] = await ctx.db
    .select({ rules: organizations.gateRules })
    .from(organizations)
    .where(eq(organizations.id, organizationId));
  return row?.rules ?? [];
}

/** The result of checking a change against a gate. */
export interface GateView {
  passed: boolean;
  rules: readonly GateResult[];
}

export function holdAgainst(rules: readonly GateRule[], { report }: Assessment): GateView {
  const results = checkGate(report, rules);
  return { passed: results.every(({ passed }) => passed), rules: results };
}

/** A permitted change with the facts that it was decided on. */
export interface Decision {
  readonly plan: ChangePlan;
  /** Empty when contracts stay on their version. */
  readonly moves: readonly Move[];
  /** Where pending changes go that must follow. */
  readonly pendingMoves: readonly PendingMove[];
  readonly gate: GateView;
  readonly overrideReason: string | null;
  readonly report: ImpactView;
}

/**
 * Decides on a change while its contracts are locked. It assesses the effect on each contract, the validity of each
 * target, and the gate. Call it inside the change's transaction, with the service locked, before any write. In a
 * transaction of proposeFirst, no lock is held while best fits are computed.
 * @returns undefined when the gate has no rules and `isAssessed` is not set.
 * @throws Failure invalid or notFound for contracts that cannot move to their target; conflict for a best fit that
 * cannot be certified, and for a broken rule without an override reason; forbidden for a reason given by anybody but an
 * OWNER.
 */
export async function decideChange(
  ctx: Context,
  input: {
    service: ServiceRow;
    change: ChangeAction;
    overrideReason: string | undefined;
    isAssessed?: boolean;
    /** Rules that somebody has passed over already, as ruleKey names them. Only they may be broken, if given. */
    passedOver?: readonly string[] | undefined;
    /** Versions in the states of the moment of the change. Default: those of now. */
    versions?: readonly VersionRow[] | undefined;
  },
): Promise<Decision | undefined> {
  const { service, change } = input;
  const rules = await loadGateRules(ctx, service.organizationId);
  if (rules.length === 0 && input.isAssessed !== true) return undefined;
  const plan = await planChange(ctx, service, change, input.versions);
  await lockSubscribers(ctx.db, plan.holders);
  if (change.action === "archive" && plan.version !== undefined) {
    await lockContractsWithPending(ctx.db, sql`x.pricing_id = ${plan.version.id}`);
  }
  const assessment = await assessLocked(ctx, plan);
  const moves =
    change.action === "archive" || change.action === "novation" ? movesOf(plan, assessment, assessment.groups) : [];
  const pendingMoves = assessment.pending.flatMap(({ group, kind, contractIds }) =>
    movesOf(plan, assessment, [{ ...group, contractIds }]).map((move) => ({ ...move, kind })),
  );
  const gate = holdAgainst(rules, assessment);
  const report = viewImpact(plan, assessment);
  const overrideReason = gate.passed ? null : await overrideOf(ctx, input, { ...gate, report });
  return { plan, moves, pendingMoves, gate, overrideReason, report };
}

/**
 * Assesses under locks. Outside a transaction of proposeFirst, missing answers are computed here, while the locks are
 * held.
 */
async function assessLocked(ctx: Context, plan: ChangePlan): Promise<Assessment> {
  if (ctx.answers !== undefined) return assessChange(ctx, plan, { answers: ctx.answers, certifies: true });
  const answers: Answers = new Map();
  try {
    return await assessChange(ctx, plan, { answers, certifies: true });
  } catch (error) {
    if (!(error instanceof MissingAnswers)) throw error;
    await answerQuestions(ctx, error, answers);
    return assessChange(ctx, plan, { answers, certifies: true });
  }
}

/** Identifies a rule of a gate. */
export const ruleKey = (rule: GateRule): string => JSON.stringify(rule);

async function overrideOf(
  ctx: Context,
  input: { service: ServiceRow; overrideReason: string | undefined; passedOver?: readonly string[] | undefined },
  gate: GateView & { report: ImpactView },
): Promise<string> {
  const { service, overrideReason: reason, passedOver } = input;
  const broken = gate.rules.filter(({ passed }) => !passed);
  if (
    reason !== undefined &&
    passedOver !== undefined &&
    broken.every(({ rule }) => passedOver.includes(ruleKey(rule)))
  )
    return reason;
  if (reason === undefined || passedOver !== undefined) {
    const reasons = broken.map((result) => result.reason);
    throw new Failure("conflict", `CONFLICT: The gate is closed: ${reasons.join("; ")}`, { gate });
  }
  const isOwner =
    isPlatformAdmin(ctx.caller) ||
    (ctx.caller.kind === "user" && (await organizationRole(ctx, service.organizationId)) === "OWNER");
  if (isOwner) return reason;
  throw new Failure("forbidden", "PERMISSION ERROR: Only the OWNER of an organization can override its gate", { gate });
}

/** A group with the contracts that it stands for. */
type MovingGroup = Omit<Group, "contractIds"> & { readonly contractIds: readonly string[] };

/** Computes each group's move, and validates the targets again under the locks. */
function movesOf(
  plan: ChangePlan,
  { after, report, groups: counted }: Assessment,
  groups: readonly MovingGroup[],
): Move[] {
  const { service, target } = plan;
  if (after === undefined || target === undefined) return [];
  const moves: Move[] = [];
  for (const group of groups) {
    const { configuration, verdict, chosenBy } = group;
    if (group.target === undefined) {
      throw new Failure(
        "invalid",
        `Pricing version ${target.version} of service ${service.name} offers nothing to contracts with ${describeConfiguration(configuration)}`,
      );
    }
    if (chosenBy === "bestFit" && verdict?.ok !== true) {
      throw new Failure(
        "conflict",
        `CONFLICT: What fits contracts with ${describeConfiguration(configuration)} best cannot be certified: ${verdict?.reason ?? "it was not checked"}. Name their target in groups`,
      );
    }
    const index = counted.findIndex((each) => each === group);
    const problem = report.configurations[index]?.problem ?? null;
    const move = checkTarget(service, target, after.pricing, group.target);
    if (chosenBy === "group" && problem !== null) throw unfit(service, target, problem.message);
    moves.push({ contractIds: group.contractIds, ...move });
  }
  return moves;
}

function unfit(
  service: ServiceRow,
  { version }: VersionRow,
  message: string,
  code: "invalid" | "notFound" = "invalid",
) {
  return new Failure(
    code,
    `The configuration provided to novate affected contracts is not valid for version ${version} of service ${service.nameKey}. Error: Error: ${message}`,
  );
}

/**
 * Validates a target. Returns the plan as given, and add-ons in the pricing's spelling.
 * @throws Failure notFound for unknown names, invalid for a subscription that is not allowed. Source: contract
 * services-pricings §5.
 */
export function checkTarget(
  service: ServiceRow,
  version: VersionRow,
  pricing: CompiledPricing,
  target: Configuration,
): Pick<Move, "plan" | "addOns"> {
  const checked = checkSubscription(pricing, { serviceName: service.nameKey, version: version.version, ...target });
  // Drizzle reads `constructor` of values, which objects without a prototype lack.
  if (checked.ok) return { plan: target.plan ?? null, addOns: { ...checked.addOns } };
  const missing = checked.rule === "planUnknown" || checked.rule === "addOnUnknown";
  throw unfit(service, version, checked.message, missing ? "notFound" : "invalid");
}

/** Stores the decision behind a change; does nothing for undefined. Call it in the change's transaction. */
export async function keepDecision(ctx: Context, decision: Decision | undefined): Promise<void> {
  if (decision === undefined) return;
  const { plan, gate, overrideReason, report } = decision;
  const about = plan.action === "novation" ? plan.target : plan.version;
  await ctx.db.insert(pricingDecisions).values({
    serviceId: plan.service.id,
    organizationId: plan.service.organizationId,
    pricingId: about?.id ?? null,
    version: about?.version ?? null,
    action: plan.action,
    at: ctx.resources.now(),
    ...(ctx.author ?? authorOf(ctx.caller)),
    rules: [...gate.rules],
    overrideReason,
    report,
  });
}

/** Audit fields of a decision: the counts, the rules and the override reason. */
export function auditOf(decision: Decision | undefined): object {
  if (decision === undefined) return {};
  const { gate, overrideReason, report } = decision;
  return { impact: report.counts, gate: gate.rules, ...(overrideReason === null ? {} : { overrideReason }) };
}
