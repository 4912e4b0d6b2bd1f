import { isPlatformAdmin } from "../core/access/caller.ts";
import { recordEvent } from "../db/outbox.ts";
import { audit } from "./audit.ts";
import { type Context, transaction } from "./context.ts";
import { Failure } from "./errors.ts";

/** What a test message says was archived. */
export interface TestEvent {
  serviceName: string;
  pricingVersion: string;
}

/**
 * Lets a platform ADMIN or a key of scope ALL do this; for everybody else the route does not exist. Failure notFound.
 * Asked before the body is looked at. Source: contract README decision 6, features-events §14 no. 12.
 */
export function requireTestEvents(ctx: Context): void {
  const { caller } = ctx;
  const allowed = isPlatformAdmin(caller) || (caller.kind === "key" && caller.scope === "ALL");
  if (!allowed || ctx.settings.allowTestEvents === false) throw new Failure("notFound", "Not found");
}

/** Sends PRICING_ARCHIVED with these details to the channel, the way real messages go. Source: features-events §9.4. */
export async function sendTestEvent(ctx: Context, event: TestEvent): Promise<void> {
  requireTestEvents(ctx);
  const organizationId = ctx.caller.kind === "key" ? ctx.caller.organizationId : null;
  const { serviceName, pricingVersion } = event;
  await transaction(ctx, async (ctx) => {
    await audit(ctx, { action: "event.test", organizationId, target: `${serviceName} ${pricingVersion}` });
    await recordEvent(ctx.db, organizationId, {
      code: "PRICING_ARCHIVED",
      details: { serviceName, pricingVersion },
    });
  });
}
