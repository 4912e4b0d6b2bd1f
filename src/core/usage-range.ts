/** Ways to group the usage of a contract. */
export const CONTRACT_GROUPINGS = ["hour", "day", "month", "feature", "spender", "unit", "block", "movement"] as const;
/** Ways to group the usage of an organization. */
export const ORGANIZATION_GROUPINGS = ["day", "feature", "user", "spender", "unit", "block"] as const;
export type UsageGrouping = (typeof CONTRACT_GROUPINGS)[number] | (typeof ORGANIZATION_GROUPINGS)[number];

/** A bucket of time, in UTC. */
export type Bucket = "hour" | "day" | "month";

/** Maximum buckets per answer. */
export const MAX_BUCKETS = 1000;
const DEFAULT_BUCKETS = { hour: 48, day: 30, month: 12 } as const;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Bucket that ranges of the grouping consist of. */
export function bucketOf(by: UsageGrouping): Bucket {
  return by === "hour" || by === "month" ? by : "day";
}

/** Returns the start of the bucket of a moment. */
export function startOfBucket(bucket: Bucket, at: Date): Date {
  if (bucket === "month") return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1));
  const length = bucket === "hour" ? HOUR_MS : DAY_MS;
  return new Date(Math.floor(at.getTime() / length) * length);
}

/** Adds buckets to the start of one. */
export function addBuckets(bucket: Bucket, start: Date, count: number): Date {
  if (bucket === "month") return new Date(Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + count, 1));
  return new Date(start.getTime() + count * (bucket === "hour" ? HOUR_MS : DAY_MS));
}

/** Returns the first start of a bucket at or after a moment. */
export function ceilBucket(bucket: Bucket, at: Date): Date {
  const start = startOfBucket(bucket, at);
  return start.getTime() === at.getTime() ? start : addBuckets(bucket, start, 1);
}

/** A half-open range of time: `from ≤ at < to`. */
export interface UsageRange {
  from: Date;
  to: Date;
  /** True if the caller chose `from`. */
  isFromGiven: boolean;
}

/**
 * Returns the range of an answer: rounded to whole buckets, except for movements, and capped at the end of the bucket that
 * holds `now`. Source: contract usage-records §5.
 */
export function rangeOf(
  by: UsageGrouping,
  given: { from?: Date | undefined; to?: Date | undefined },
  now: Date,
): UsageRange {
  const bucket = bucketOf(by);
  const isExact = by === "movement";
  const end = addBuckets(bucket, startOfBucket(bucket, now), 1);
  const wanted = given.to === undefined ? end : isExact ? given.to : ceilBucket(bucket, given.to);
  const to = wanted < end ? wanted : end;
  if (given.from === undefined) {
    const isWhole = startOfBucket(bucket, to).getTime() === to.getTime();
    const from = isWhole
      ? addBuckets(bucket, to, -DEFAULT_BUCKETS[bucket])
      : new Date(to.getTime() - DEFAULT_BUCKETS.day * DAY_MS);
    return { from, to, isFromGiven: false };
  }
  return { from: isExact ? given.from : startOfBucket(bucket, given.from), to, isFromGiven: true };
}

/** Counts the buckets of a range, up to one more than the maximum. */
export function countBuckets(bucket: Bucket, { from, to }: Pick<UsageRange, "from" | "to">): number {
  if (bucket !== "month") return Math.ceil((to.getTime() - from.getTime()) / (bucket === "hour" ? HOUR_MS : DAY_MS));
  return (to.getUTCFullYear() - from.getUTCFullYear()) * 12 + to.getUTCMonth() - from.getUTCMonth();
}

/** Lists the starts of all buckets of a range. */
export function bucketsOf(bucket: Bucket, range: Pick<UsageRange, "from" | "to">): Date[] {
  return Array.from({ length: Math.max(0, countBuckets(bucket, range)) }, (_, i) => addBuckets(bucket, range.from, i));
}
