import { eq } from "drizzle-orm";
import { DEFAULT_THRESHOLDS } from "../../core/usage-alerts.ts";
import { organizations } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";

/** Usage alerts of an organization, ascending. */
interface Alerts {
  thresholds: readonly number[];
}

/** Shows the usage alerts of an organization. Source: contract usage-records §6. */
export async function showAlerts(ctx: Context, organizationId: string): Promise<Alerts> {
  const { thresholds } = await findAlerts(ctx, organizationId);
  return { thresholds };
}

/** Replaces the thresholds. They hold from the next movement on. */
export async function setAlerts(
  ctx: Context,
  input: { organizationId: string; thresholds: readonly number[] },
): Promise<Alerts> {
  const { organizationId } = input;
  return transaction(ctx, async (ctx) => {
    const before = await findAlerts(ctx, organizationId, "locked");
    const thresholds = input.thresholds.toSorted((one, other) => one - other);
    await ctx.db
      .update(organizations)
      .set({ usageThresholds: thresholds, updatedAt: ctx.resources.now() })
      .where(eq(organizations.id, organizationId));
    await audit(ctx, {
      action: "alerts.set",
      organizationId,
      target: before.name,
      before: { thresholds: before.thresholds },
      after: { thresholds },
    });
    return { thresholds };
  });
}

async function findAlerts(
  ctx: Context,
  organizationId: string,
  lock?: "locked",
): Promise<{ name: string; thresholds: readonly number[] }> {
  const query = ctx.db
    .select({ name: organizations.name, thresholds: organizations.usageThresholds })
    .from(organizations)
    .where(eq(organizations.id, organizationId));
  const [row] = await (lock === undefined ? query : query.for("no key update"));
  if (row === undefined) throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  return { name: row.name, thresholds: row.thresholds ?? DEFAULT_THRESHOLDS };
}
