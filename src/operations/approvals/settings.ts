import { eq } from "drizzle-orm";
import type { ApprovalSettings } from "../../core/approvals.ts";
import { organizations } from "../../db/schema.ts";
import { lockOrganization } from "../access.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { readApprovals } from "../policy/approval.ts";

/** Returns which changes of an organization need a second person. */
export function showApprovals(ctx: Context, organizationId: string): Promise<ApprovalSettings> {
  return readApprovals(ctx, organizationId);
}

/** Replaces the settings; an empty list of actions needs nobody. Pending requests stay. */
export async function setApprovals(
  ctx: Context,
  { organizationId, settings }: { organizationId: string; settings: ApprovalSettings },
): Promise<ApprovalSettings> {
  return transaction(ctx, async (ctx) => {
    const { name } = await lockOrganization(ctx, organizationId);
    const before = await readApprovals(ctx, organizationId);
    await ctx.db
      .update(organizations)
      .set({ approvals: settings, updatedAt: ctx.resources.now() })
      .where(eq(organizations.id, organizationId));
    await audit(ctx, { action: "approvals.set", organizationId, target: name, before, after: settings });
    return settings;
  });
}
