import { and, desc, eq, lt } from "drizzle-orm";
import type { GateRule } from "../../core/change/impact/gate.ts";
import { withActors } from "../../db/queries/actors.ts";
import { versionKey } from "../../db/queries/pricings.ts";
import { organizations, pricingDecisions, pricings } from "../../db/schema.ts";
import { lockOrganization } from "../access.ts";
import { audit } from "../audit.ts";
import { needsApproval, settleApproval } from "../policy/approval.ts";
import { loadGateRules } from "../policy/change-decision.ts";
import { type Context, transaction } from "../context.ts";
import { requireService, type ServiceAddress, versionNotFound } from "../service-address.ts";

/** Returns the gate rules for pricing changes of an organization. */
export async function showGate(ctx: Context, organizationId: string): Promise<{ rules: readonly GateRule[] }> {
  return { rules: await loadGateRules(ctx, organizationId) };
}

/** Replaces the rules; an empty list disables the gate. */
export async function setGate(
  ctx: Context,
  input: { organizationId: string; rules: readonly GateRule[] },
): Promise<{ rules: readonly GateRule[] }> {
  const { organizationId } = input;
  return transaction(ctx, async (ctx) => {
    // An approval stands for the rules that it replaces, so they must not change after they are read.
    const { name } = await lockOrganization(ctx, organizationId);
    const before = await loadGateRules(ctx, organizationId);
    const rules = input.rules.length === 0 ? null : [...input.rules];
    await ctx.db
      .update(organizations)
      .set({ gateRules: rules, updatedAt: ctx.resources.now() })
      .where(eq(organizations.id, organizationId));
    await audit(ctx, {
      action: "gate.set",
      organizationId,
      target: name,
      before: { rules: before },
      after: { rules: input.rules },
    });
    if (await needsApproval(ctx, organizationId, "gate")) {
      const report = { before, after: input.rules };
      await settleApproval(ctx, {
        organizationId,
        action: "gate",
        summary: "Change the gate's rules",
        operation: "setGate",
        input,
        report,
        basis: before,
      });
    }
    return { rules: input.rules };
  });
}

/**
 * Lists decisions on a service's pricing changes, newest first. `pricingVersion` limits them to one version. Decisions
 * of an organization that the service has left name its rules and contracts, so the new one cannot read them.
 */
export async function listDecisions(
  ctx: Context,
  input: ServiceAddress & { pricingVersion: string | undefined; before: number | undefined; limit: number },
) {
  const service = await requireService(ctx, input);
  const pricingId = input.pricingVersion === undefined ? undefined : await findId(ctx, service.id, input);
  const rows = await ctx.db
    .select()
    .from(pricingDecisions)
    .where(
      and(
        eq(pricingDecisions.serviceId, service.id),
        eq(pricingDecisions.organizationId, service.organizationId),
        pricingId === undefined ? undefined : eq(pricingDecisions.pricingId, pricingId),
        input.before === undefined ? undefined : lt(pricingDecisions.id, input.before),
      ),
    )
    .orderBy(desc(pricingDecisions.id))
    .limit(input.limit + 1);
  const decided = await withActors(ctx.db, rows.slice(0, input.limit));
  const data = decided.map(({ id, at, action, version, actor, rules, overrideReason, report }) => ({
    id,
    at,
    action,
    pricingVersion: version,
    actor,
    rules,
    overrideReason,
    report,
  }));
  return { data, next: rows.length > input.limit ? (data.at(-1)?.id ?? null) : null };
}

async function findId(
  ctx: Context,
  serviceId: string,
  input: ServiceAddress & { pricingVersion: string | undefined },
): Promise<string> {
  const version = input.pricingVersion ?? "";
  const [row] = await ctx.db
    .select({ id: pricings.id })
    .from(pricings)
    .where(and(eq(pricings.serviceId, serviceId), eq(pricings.versionKey, versionKey(version))));
  if (row === undefined) throw versionNotFound({ ...input, version });
  return row.id;
}
