import { trackedLimits } from "../core/pricing/compile.ts";
import { UNLIMITED } from "../core/pricing/model.ts";
import { grant } from "../core/pricing/subscription.ts";
import {
  type Cap,
  countContracts,
  countLimitsReached,
  countVersions,
  findNear,
  type NearUser,
  readConfigurations,
  type StateCounts,
} from "../db/overview.ts";
import { organizationRole } from "./access.ts";
import type { Context } from "./context.ts";
import { compiledPricings } from "./subscriptions.ts";

const MAX_NEAR = 20;

/** What an organization looks at first; exact, however many contracts it has. */
export interface Overview {
  contracts: StateCounts;
  near: { share: number; total: number; users: NearUser[] };
  limitsReached: { hours: number; total: number };
  services: number;
  activeVersions: number;
}

/** `near` is the share of a limit from which on somebody is near it. Failure notFound for an unknown organization. */
export async function readOverview(
  ctx: Context,
  input: { organizationId: string; near: number; hours: number },
): Promise<Overview> {
  const { organizationId, near: share, hours } = input;
  await organizationRole(ctx, organizationId);
  const now = ctx.now();
  const caps = await capsOf(ctx, organizationId);
  return {
    contracts: await countContracts(ctx.db, organizationId, now),
    near: { share, ...(await findNear(ctx.db, { organizationId, caps, share, now, atMost: MAX_NEAR })) },
    limitsReached: { hours, total: await countLimitsReached(ctx.db, organizationId, hours) },
    ...(await countVersions(ctx.db, organizationId)),
  };
}

/** The limits that somebody can be near to, by what is contracted: limits of contracts are known for each configuration. */
async function capsOf(ctx: Context, organizationId: string): Promise<Cap[]> {
  const configurations = await readConfigurations(ctx.db, organizationId);
  const compiled = await compiledPricings(ctx, configurations);
  return configurations.flatMap(({ hash, plan, addOns, ...configuration }) => {
    const pricing = compiled.get(hash);
    if (pricing === undefined) return [];
    const { usageLimits } = grant(pricing, plan ?? undefined, addOns ?? {});
    return trackedLimits(pricing).flatMap(({ name }) => {
      const cap = usageLimits.get(name);
      return typeof cap === "number" && cap >= 0 && cap < UNLIMITED
        ? [{ ...configuration, plan, limitName: name, cap }]
        : [];
    });
  });
}
