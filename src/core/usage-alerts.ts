import { isBound } from "./pricing/model.ts";

/*
 * Thresholds of usage, in percent of a limit. Each is raised once per balance, until a reset or another value of the limit.
 * Source: contract usage-records §6.
 */

/** Thresholds of an organization that has set none. */
export const DEFAULT_THRESHOLDS: readonly number[] = [80, 100];

export const MAX_THRESHOLDS = 5;
/** Percent. */
export const MAX_THRESHOLD = 200;
/** Ends a sentence about thresholds that cannot be set. */
export const THRESHOLDS_RULE = `must be a list of 1 to ${MAX_THRESHOLDS} different whole numbers from 1 to ${MAX_THRESHOLD}`;

/** True for thresholds that an organization can set. */
export function areThresholds(numbers: readonly number[]): boolean {
  return (
    numbers.length > 0 &&
    numbers.length <= MAX_THRESHOLDS &&
    new Set(numbers).size === numbers.length &&
    numbers.every((number) => Number.isInteger(number) && number > 0 && number <= MAX_THRESHOLD)
  );
}

/** Highest threshold raised for a balance, and the limit's value then. Both null: none since the last reset. */
export interface RaisedThreshold {
  alertedThreshold: number | null;
  alertedLimit: number | null;
}

/** Of a balance that has just been reset. */
export const NONE_RAISED: RaisedThreshold = { alertedThreshold: null, alertedLimit: null };

/** True if this limit has alerts: it is a number, above 0 and not unlimited. */
export function hasAlerts(limit: unknown): limit is number {
  return isBound(limit) && limit > 0;
}

/** Returns the thresholds that a balance has reached and that are above the one raised before, ascending. */
export function reachedThresholds(
  thresholds: readonly number[],
  { consumed, limit }: { consumed: number; limit: number },
  { alertedThreshold, alertedLimit }: RaisedThreshold,
): number[] {
  const raised = alertedLimit === limit ? (alertedThreshold ?? 0) : 0;
  return thresholds.filter((threshold) => threshold > raised && isAtLeast(consumed, threshold, limit));
}

/** Compares in exact decimals: consumed ≥ threshold % of the limit. */
function isAtLeast(consumed: number, threshold: number, limit: number): boolean {
  const [part, whole] = [consumed * 100, threshold * limit];
  if (Number.isSafeInteger(consumed) && Number.isSafeInteger(limit) && Math.max(part, whole) < Number.MAX_SAFE_INTEGER)
    return part >= whole;
  const [a, b] = [decimalOf(consumed), decimalOf(limit)];
  const shift = a.exponent - b.exponent;
  const left = a.digits * 100n * 10n ** BigInt(Math.max(0, shift));
  return left >= b.digits * BigInt(threshold) * 10n ** BigInt(Math.max(0, -shift));
}

/** Returns the decimal that a number is written as: digits × 10^exponent. */
function decimalOf(value: number): { digits: bigint; exponent: number } {
  const [mantissa = "", power = "0"] = String(value).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}
