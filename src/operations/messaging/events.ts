import { isPlatformAdmin } from "../../core/access/caller.ts";
import { countRate, secondsToNextMinute } from "../../db/queries/rate-counters.ts";
import { notifyTestEvent } from "../../db/queries/test-events.ts";
import { isIdentifier, organizationRole, scopeOf } from "../access.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";

/** Test events per minute and organization, across all processes. Source: contract README, decision 6. */
const MAX_PER_MINUTE = 10;

export interface TestEvent {
  serviceName: string;
  pricingVersion: string;
}

/**
 * Requires a platform ADMIN or a key of scope ALL; for all other callers the route does not exist. Runs before the body
 * is validated. Source: contract README decision 6, features-events §14 no. 12.
 * @throws Failure notFound.
 */
export function requireTestEvents(ctx: Context): void {
  const { caller } = ctx;
  const allowed = isPlatformAdmin(caller) || (caller.kind === "key" && caller.scope === "ALL");
  if (!allowed || ctx.resources.settings.allowTestEvents === false) throw new Failure("notFound", "Not found");
}

/**
 * Sends PRICING_ARCHIVED to connected plain sockets and to those of the sender's organization. It appears in no log,
 * stream or webhook. A platform ADMIN sends for `organizationId`, or for no organization. Source: contract README
 * decision 6, features-events §9.4.
 * @throws Failure notFound, tooManyRequests.
 */
export async function sendTestEvent(
  ctx: Context,
  input: TestEvent & { organizationId: string | undefined },
): Promise<void> {
  requireTestEvents(ctx);
  const organizationId = await senderOf(ctx, input.organizationId);
  const { serviceName, pricingVersion } = input;
  const now = ctx.resources.now();
  const sender = organizationId ?? (ctx.caller.kind === "user" ? ctx.caller.id : "");
  // Outside the transaction: failed calls count too, and the counter's row is not locked until the commit.
  if ((await countRate(ctx.db, `test-event ${sender}`, now)) > MAX_PER_MINUTE) {
    throw new Failure("tooManyRequests", "Too many test events. Please try again later", {
      retryAfterSeconds: secondsToNextMinute(now),
    });
  }
  await transaction(ctx, async (ctx) => {
    await audit(ctx, { action: "event.test", organizationId, target: `${serviceName} ${pricingVersion}` });
    await notifyTestEvent(ctx.db, {
      organizationId,
      event: { code: "PRICING_ARCHIVED", details: { serviceName, pricingVersion } },
    });
  });
}

/**
 * Returns the sending organization; null for a platform ADMIN who names none.
 * @throws Failure notFound.
 */
async function senderOf(ctx: Context, named: string | undefined): Promise<string | null> {
  const organizationId = scopeOf(ctx.caller, { path: undefined, query: named });
  if (organizationId === undefined || ctx.caller.kind === "key") return organizationId ?? null;
  if (!isIdentifier(organizationId)) throw new Failure("notFound", "INVALID DATA: Invalid organization ID");
  await organizationRole(ctx, organizationId);
  return organizationId;
}
