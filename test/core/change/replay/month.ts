import { nextBoundary } from "../../../../src/core/period.ts";
import { type CompiledPricing, trackedLimits } from "../../../../src/core/pricing/compile.ts";
import { evaluateFeature, featureIds, prepareEvaluation } from "../../../../src/core/pricing/evaluate.ts";
import { involvedLimits } from "../../../../src/core/pricing/involved-limits.ts";
import { grant } from "../../../../src/core/pricing/subscription.ts";
import { ContractReplay } from "../../../../src/core/change/replay/contract.ts";
import type {
  ContractRecord,
  Placement,
  RecordedLevel,
  RecordedMovement,
  RecordedTerms,
} from "../../../../src/core/change/replay/record.ts";
import { replaySteps } from "../../../../src/core/change/replay/replay.ts";
import { placementKey } from "../../../../src/core/change/replay/record.ts";
import type { ReplayPart } from "../../../../src/core/change/replay/tally.ts";
import { configurationOf } from "../../../../src/core/change/configuration.ts";
import { finish } from "../../../../src/core/steps.ts";

export const FROM = Date.UTC(2026, 9, 1);
export const TO = Date.UTC(2026, 10, 1);
const DAY_MS = 86_400_000;

/** Draws numbers below `max` from a seed. */
export function random(seed: number): (max: number) => number {
  let state = seed + 1;
  return (max) => {
    state = (state * 48_271) % 2_147_483_647;
    return Math.floor((state / 2_147_483_647) * max);
  };
}

/** Options of the terms of a contract. */
interface TermsOptions {
  readonly since: number;
  readonly plan: string | null;
  readonly addOns?: Record<string, number>;
  readonly anchor?: number;
  readonly consumed?: Record<string, number>;
}

export const termsOf = (
  pricing: CompiledPricing,
  { since, plan, addOns = {}, anchor = since, consumed }: TermsOptions,
): RecordedTerms => ({
  since,
  startDate: anchor,
  endDate: anchor + 30 * DAY_MS,
  autoRenew: true,
  renewalDays: 30,
  renewalValue: 1,
  renewalUnit: "MONTH",
  services: [{ serviceId: "s", key: "app", pricingId: "p", hash: "h", plan, addOns }],
  levels: trackedLimits(pricing).map(({ name, period }): RecordedLevel => ({
    serviceId: "s",
    limitName: name,
    anchor: period === undefined ? null : new Date(anchor).toISOString(),
    resetAt:
      period === undefined
        ? null
        : nextBoundary(new Date(anchor), period, new Date(Math.max(since, FROM) - 1)).toISOString(),
    periodValue: period?.value ?? null,
    periodUnit: period?.unit ?? null,
    ...(consumed === undefined ? {} : { consumed: consumed[name] ?? 0 }),
  })),
  overrides: null,
});

export const consumed = (
  featureId: string,
  limitName: string,
  amount: number,
  at: number,
  more: {
    operation?: string;
    usedAt?: number;
    revertedAt?: number;
    units?: Record<string, [number, number]>;
    spender?: string | null;
  } = {},
): RecordedMovement => [
  "consume",
  "s",
  limitName,
  featureId,
  more.operation ?? `at ${at}`,
  amount,
  at,
  more.usedAt ?? null,
  more.revertedAt ?? null,
  more.units ?? null,
  more.spender ?? null,
];

export const recordOf = (userId: string, terms: RecordedTerms[], more: Partial<ContractRecord>): ContractRecord => ({
  userId,
  complete: true,
  terms,
  blocks: [],
  holds: [],
  movements: [],
  ...more,
});

interface ReplayOptions {
  readonly before: CompiledPricing;
  readonly target: CompiledPricing;
  readonly placements?: ReadonlyMap<string, Placement>;
}

/** Places every configuration of the records on the plan and add-ons of the same names, with its list price. */
export function samePlaces(records: readonly ContractRecord[], price = 1): Map<string, Placement> {
  const services = records.flatMap(({ terms }) => terms.flatMap((each) => each.services));
  const keys = new Map(services.map((service) => [placementKey(service), service]));
  return new Map(
    [...keys].map(([key, { plan, addOns }], group) => [
      key,
      { group, target: configurationOf(plan ?? undefined, addOns ?? {}), price: { then: price, replayed: price } },
    ]),
  );
}

export function replayed(
  records: readonly ContractRecord[],
  { before, target, placements }: ReplayOptions,
): ReplayPart {
  return finish(
    replaySteps({
      serviceId: "s",
      target,
      pricings: new Map([["h", before]]),
      placements: placements ?? samePlaces(records),
      from: FROM,
      to: TO,
      top: 20,
      records,
    }),
  );
}

/** Balances of one contract at the end of the range, by limit. */
export function balancesOf(
  record: ContractRecord,
  { before, target, placements }: ReplayOptions,
): Record<string, number> {
  const replay = new ContractReplay(
    {
      serviceId: "s",
      target,
      pricings: new Map([["h", before]]),
      placements: placements ?? samePlaces([record]),
      from: FROM,
      to: TO,
    },
    record,
    { counted: () => {}, denied: () => {} },
  );
  finish(replay.run());
  return Object.fromEntries(
    [...replay.balances.levels.values()].map(({ limitName, consumed }) => [limitName, consumed]),
  );
}

/**
 * Lets a contract live a month under a pricing, written apart from the replay: calls at random times, decided one after the other, with
 * resets when they are due. Returns the record of what was granted, and the balances at the end.
 */
export function livedMonth(
  pricing: CompiledPricing,
  seed: number,
): { record: ContractRecord; balances: Map<string, number> } {
  const draw = random(seed);
  const plans = pricing.pricing.plans.map(({ name }) => name);
  const anchor = FROM - draw(60) * DAY_MS - draw(DAY_MS);
  const planAt = () => plans[draw(plans.length)] ?? null;
  const tracked = trackedLimits(pricing);
  const balances = new Map(tracked.map(({ name }) => [name, 0]));
  const first = termsOf(pricing, { since: anchor, plan: planAt(), anchor, consumed: {} });
  const later = termsOf(pricing, { since: FROM + draw(31 * DAY_MS), plan: planAt(), anchor });
  const resets = new Map(
    first.levels.map(({ limitName, resetAt }) => [limitName, resetAt === null ? Infinity : Date.parse(resetAt)]),
  );
  const movements: RecordedMovement[] = [];
  const reset = (now: number) => {
    for (const { name, period } of tracked) {
      if (period === undefined || (resets.get(name) ?? Infinity) >= now) continue;
      movements.push(["renew", "s", name, null, `renew ${now}`, -(balances.get(name) ?? 0), now, null, null, null]);
      balances.set(name, 0);
      resets.set(name, nextBoundary(new Date(anchor), period, new Date(now - 1)).getTime());
    }
  };
  const times = Array.from({ length: 40 }, () => FROM + draw(31 * DAY_MS)).toSorted((one, other) => one - other);
  for (const [index, now] of times.entries()) {
    reset(now);
    const { plan } = (now >= later.since ? later : first).services[0] ?? {};
    const granted = grant(pricing, plan ?? undefined, {});
    const evaluation = prepareEvaluation([{ serviceName: "app", pricing, grant: granted }]);
    const mode = { server: draw(2) === 1 };
    const ids = featureIds(evaluation, mode).filter((id) => involvedLimits(evaluation, id, mode).length > 0);
    const featureId = ids[draw(ids.length)];
    if (featureId === undefined) continue;
    const usage = new Map(tracked.map(({ name }) => [`app-${name}`, balances.get(name) ?? 0]));
    if (!evaluateFeature(evaluation, featureId, usage, mode).eval) continue;
    const limits = involvedLimits(evaluation, featureId, mode);
    const step = draw(3) === 0 ? 100 : 3;
    for (const { limitName } of limits) {
      const amount = draw(step);
      balances.set(limitName, (balances.get(limitName) ?? 0) + amount);
      movements.push(consumed(featureId, limitName, amount, now, { operation: `call ${index}` }));
    }
  }
  reset(TO - 1);
  return { record: recordOf(`user ${seed}`, [first, later], { movements }), balances };
}
