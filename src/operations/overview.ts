import {
  countContracts,
  countLimitsReached,
  countVersions,
  findNear,
  type NearUser,
  type StateCounts,
} from "../db/overview.ts";
import { organizationRole } from "./access.ts";
import { capsOf } from "./caps.ts";
import type { Context } from "./context.ts";

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
