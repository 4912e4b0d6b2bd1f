import { parseSpender } from "../../../core/pricing/budgets.ts";
import { evaluateBoolean } from "../../../core/pricing/evaluate.ts";
import type { Consumption } from "../../../db/queries/decision.ts";
import type { ItemKey } from "../../../db/queries/usage-batches.ts";
import { contractNotFound } from "../../contract-address.ts";
import { Failure } from "../../errors.ts";
import { carryDenial } from "../budget-denials.ts";
import { countGranted, noBalanceWrites } from "../consumption/writes.ts";
import { decide, evaluationFor, involvedLevels, offReason } from "../decision.ts";
import type { Prepared } from "../prepare.ts";
import { EXPIRED } from "../renewal.ts";
import { recordedSpender, strangerFailure } from "../spenders.ts";
import type { DecidedResult, PricedUnits, QueuedEvaluation } from "../request.ts";
import { refuseSeats } from "../seats.ts";
import { costOf, costsOf, priceUnits, ratesIn, type RatesOf, splitUnits } from "../units.ts";
import { canonicalText, type ItemVerdict, type RecordingMode, type UsageItem } from "./item.ts";

/** How far ahead the sender's clock may be. Such an item counts as of now. */
const MAX_AHEAD_MS = 5 * 60_000;

/** One item of a batch, with its place in it. */
export interface Entry extends ItemKey {
  item: UsageItem;
  place: number;
}

export const entryOf = (item: UsageItem, place: number): Entry => ({
  item,
  place,
  key: item.key,
  text: canonicalText(item),
});

/** Facts that are the same for all items of a batch. */
export interface Circumstances {
  organizationId: string;
  mode: RecordingMode;
  now: Date;
  /** Movements up to this moment may be compacted into sums. Null: none are. */
  ledgerStart: Date | null;
}

/** Collects what the items of a transaction write. */
export interface RecordingWrites extends ReturnType<typeof noBalanceWrites> {
  late: Consumption[];
  /** Items that take their key, by key. */
  keys: Map<string, Entry>;
}

export const noWrites = (): RecordingWrites => ({
  ...noBalanceWrites(),
  late: [],
  keys: new Map(),
});

/**
 * Decides one item over the balances that earlier ones left, and adds what it writes. `contract` is a Failure if it cannot be
 * evaluated; `taken` is the state of its key. Source: contract usage-records §4.
 */
export function decideItem(
  { organizationId, mode, now, ledgerStart }: Circumstances,
  {
    entry,
    contract,
    taken,
    rates,
  }: {
    entry: Entry;
    contract: Prepared | Failure;
    taken: "same" | "other" | undefined;
    /** Rates of the moment of the item. Default: those of now. */
    rates?: RatesOf | undefined;
  },
  writes: RecordingWrites,
): ItemVerdict {
  const { item } = entry;
  const { key, featureId } = item;
  const refused = (reason: ItemVerdict["reason"], error?: string): ItemVerdict => ({
    key,
    verdict: "refused",
    ...(reason === undefined ? {} : { reason }),
    ...(error === undefined ? {} : { error }),
  });

  const earlier = writes.keys.get(key);
  const keyState = taken ?? (earlier === undefined ? undefined : earlier.text === entry.text ? "same" : "other");
  if (keyState === "same") return { key, verdict: "duplicate" };
  if (keyState === "other") return refused("KEY_REUSED");
  if (item.at !== undefined && item.at.getTime() > now.getTime() + MAX_AHEAD_MS) return refused("FUTURE");

  if (!("evaluation" in contract)) return verdictOfFailure(item, contract);
  const spender = item.spender === undefined ? undefined : parseSpender(item.spender);
  const stranger = strangerFailure(contract, { userId: item.userId, spender });
  if (stranger !== undefined) return { ...refused("MEMBER_NOT_FOUND", stranger.message), verdict: "unknown" };
  const split = splitUnits(item.amounts);
  let amounts = split.amounts;
  let pricedUnits: PricedUnits | undefined;
  try {
    if (split.units !== undefined) {
      pricedUnits = priceUnits(split.units, rates ?? ratesIn(contract.evaluation));
      amounts = { ...amounts, ...costOf(pricedUnits) };
    }
    refuseSeats(contract.evaluation, amounts);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return refused("INVALID_EXPECTED_CONSUMPTION", error.message);
  }
  const request: QueuedEvaluation = {
    organizationId,
    userId: item.userId,
    featureId,
    expected: amounts,
    pricedUnits,
    mode: { server: mode.server },
    strict: mode.strict,
    dryRun: false,
    explain: false,
    blocks: item.blocks,
    spender,
    unitCosts: split.units && contract.budgets && costsOf(split.units, rates ?? ratesIn(contract.evaluation)),
    usedAt: countedMoment(contract, item, { featureId, mode, now }),
  };
  const { result, counts, parts } = decide(contract, request);
  if (result.error !== null) {
    const { code, message } = result.error;
    return { ...refused(code, message), verdict: code === "FLAG_NOT_FOUND" ? "unknown" : "refused" };
  }
  const foreign = Object.keys(amounts).find((id) => !Object.hasOwn(result.used ?? {}, id));
  if (foreign !== undefined) return refused("UNKNOWN_LIMIT", `Feature ${featureId} has no limit ${foreign}`);

  const involved = involvedLevels(contract, request);
  let usedAt = item.at !== undefined && item.at.getTime() < now.getTime() ? item.at : undefined;
  if (usedAt !== undefined) {
    const at = usedAt.getTime();
    const isTooOld = ledgerStart !== null && at < ledgerStart.getTime();
    const isLate = isTooOld || involved.some(({ level }) => level.runningSince !== null && at < +level.runningSince);
    if (isLate && mode.late === "count") usedAt = undefined;
    else if (isTooOld) return refused("TOO_OLD");
    else if (isLate) {
      const { contractId } = contract.contract;
      const recorded = recordedSpender(spender);
      for (const { id, level } of involved) {
        const { serviceId, limitName } = level;
        const amount = amounts[id] ?? 0;
        const units = pricedUnits?.[id];
        const of = { contractId, serviceId, limitName, featureId, operationId: key };
        writes.late.push({ ...of, amount, usedAt, spender: recorded, units });
      }
      writes.keys.set(key, entry);
      return { key, verdict: "late" };
    }
  }

  if (!counts) {
    const verdict = refused(reasonOff(contract, request, result));
    return result.budget === undefined ? verdict : carryDenial(result.budget, verdict);
  }
  countGranted(contract, request, { result, parts, involved }, writes, { operationId: key, usedAt });
  writes.keys.set(key, entry);
  return { key, verdict: "counted" };
}

/** Returns the moment of an item that budgets count by: undefined for now, as for one that counts as of now because it is late. */
function countedMoment(
  prepared: Prepared,
  { at }: UsageItem,
  { featureId, mode, now }: { featureId: string; mode: RecordingMode; now: Date },
): Date | undefined {
  if (prepared.budgets === undefined || at === undefined || at >= now) return undefined;
  const involved = involvedLevels(prepared, { featureId, mode });
  const isLate = involved.some(({ level }) => level.runningSince !== null && at < level.runningSince);
  return isLate && mode.late === "count" ? undefined : at;
}

/** Returns why a request was denied: only its amounts did not fit, or the feature is off. */
function reasonOff(
  prepared: Prepared,
  { featureId, mode, blocks }: QueuedEvaluation,
  result: DecidedResult,
): "BUDGET_REACHED" | "LIMIT_REACHED" | "NOT_GRANTED" {
  if (result.budget !== undefined) return "BUDGET_REACHED";
  const evaluation = evaluationFor(prepared, { blocks });
  if (evaluateBoolean(evaluation, featureId, prepared.usage, mode)) return "LIMIT_REACHED";
  return offReason({ ...prepared, evaluation }, featureId, result, mode);
}

function verdictOfFailure({ key, userId }: UsageItem, { message: error }: Failure): ItemVerdict {
  if (error === contractNotFound(userId).message) {
    return { key, verdict: "unknown", reason: "CONTRACT_NOT_FOUND", error };
  }
  return { key, verdict: "refused", reason: error === EXPIRED ? "CONTRACT_EXPIRED" : "CONTRACT_INVALID", error };
}
