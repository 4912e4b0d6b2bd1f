import {
  countContracts,
  countDenials,
  countLimitsReached,
  countPerDay,
  countVersions,
  type DeniedFeature,
  type StateCounts,
} from "../../db/queries/overview.ts";
import { findNear, type NearUser } from "../../db/queries/near-limits.ts";
import { countUnapplied } from "../../db/queries/billing-messages.ts";
import { organizationRole } from "../access.ts";
import { numericLimitsOf } from "../numeric-limits.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import type { Context } from "../context.ts";

const MAX_NEAR = 20;
const MAX_DENIED = 200;

/** The key figures of an organization. All counts are exact, for any number of contracts. */
export interface Overview {
  contracts: StateCounts;
  near: { share: number; total: number; users: NearUser[] };
  limitsReached: { hours: number; total: number };
  denials: { hours: number; total: number };
  services: number;
  activeVersions: number;
  /** Messages of payment providers that could not be applied. */
  billing: { unapplied: number };
}

/**
 * Computes the overview of an organization. An end user is near a limit from the share `near` of it.
 * @throws Failure notFound for an unknown organization.
 */
export async function readOverview(
  ctx: Context,
  input: { organizationId: string; near: number; hours: number },
): Promise<Overview> {
  const { organizationId, near: share, hours } = input;
  await organizationRole(ctx, organizationId);
  await applyDueChangesOf(ctx, { organizationId });
  const now = ctx.resources.now();
  const limits = await numericLimitsOf(ctx, organizationId);
  const [counted, near, limitsReached, denied, versions, unapplied] = await Promise.all([
    countContracts(ctx.db, organizationId, now),
    findNear(ctx.db, { organizationId, ...limits, share, now, atMost: MAX_NEAR }),
    countLimitsReached(ctx.db, organizationId, hours),
    denialsOf(ctx, input),
    countVersions(ctx.db, organizationId),
    countUnapplied(ctx.db, organizationId),
  ]);
  return {
    contracts: counted,
    near: { share, ...near },
    limitsReached: { hours, total: limitsReached },
    denials: { hours, total: denied.total },
    ...versions,
    billing: { unapplied },
  };
}

const TREND_DAYS = 30;
const DAY_MS = 86_400_000;

/** Counts per UTC day over the last 30 days, today last. */
export interface Trends {
  days: string[];
  newContracts: number[];
  denials: number[];
}

/**
 * Counts new contracts and denials per day.
 * @throws Failure notFound for an unknown organization.
 */
export async function readTrends(ctx: Context, organizationId: string): Promise<Trends> {
  await organizationRole(ctx, organizationId);
  await ctx.resources.callCounter.flush();
  const today = Math.floor(ctx.resources.now().getTime() / DAY_MS) * DAY_MS;
  const days = Array.from({ length: TREND_DAYS }, (_, day) =>
    new Date(today - (TREND_DAYS - 1 - day) * DAY_MS).toISOString().slice(0, 10),
  );
  const counts = await countPerDay(ctx.db, organizationId, `${days[0]}T00:00:00Z`);
  return {
    days,
    newContracts: days.map((day) => counts.newContracts.get(day) ?? 0),
    denials: days.map((day) => counts.denials.get(day) ?? 0),
  };
}

export interface DenialReport {
  hours: number;
  total: number;
  features: DeniedFeature[];
}

/**
 * Counts denials over the last `hours` hours.
 * @throws Failure notFound for an unknown organization.
 */
export async function readDenials(
  ctx: Context,
  input: { organizationId: string; hours: number },
): Promise<DenialReport> {
  await organizationRole(ctx, input.organizationId);
  return { hours: input.hours, ...(await denialsOf(ctx, input)) };
}

async function denialsOf(ctx: Context, { organizationId, hours }: { organizationId: string; hours: number }) {
  await ctx.resources.callCounter.flush();
  return countDenials(ctx.db, { organizationId, now: ctx.resources.now(), hours, atMost: MAX_DENIED });
}
