import { byCodePoint } from "../../core/code-points.ts";
import {
  type Bucket,
  bucketOf,
  bucketsOf,
  ceilBucket,
  countBuckets,
  MAX_BUCKETS,
  rangeOf,
  startOfBucket,
  type UsageGrouping,
  type UsageRange,
} from "../../core/usage-range.ts";
import { isDistributed } from "../../db/distribution.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { listBlockHolders } from "../../db/queries/block-listing.ts";
import { loadSnapshot } from "../../db/queries/contract-snapshots.ts";
import { readLedgerStart } from "../../db/queries/ledger-partitions.ts";
import {
  type MovementRow,
  readBuckets,
  readExactTotals,
  readGroups,
  readMovements,
  readTotals,
  readTracked,
  type UsageFilter,
  type UsageOwner,
  type UsageSums,
} from "../../db/queries/usage-history.ts";
import {
  type BlockSums,
  readDraws,
  readSpenders,
  readUnits,
  type SpenderSums,
  type UnitSums,
} from "../../db/queries/usage-parts.ts";
import { holdRollUp } from "../../db/queries/usage-rollup.ts";
import { organizationRole } from "../access.ts";
import { type Context, snapshot } from "../context.ts";
import { type ContractAddress, findContract, isAtAddress } from "../contract-address.ts";
import { drawnOf } from "../blocks/block-book.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { renewDueLevels } from "../due-holds.ts";
import { Failure } from "../errors.ts";

/** Rows per limit, or movements per page, where the caller names no number. */
const DEFAULT_TOP = 100;
/** Movements per page of a stream. */
const PAGE = 1000;

/** A validated question about usage; see rangeOf for the defaults. */
export interface UsageQuery {
  by: UsageGrouping;
  from: Date | undefined;
  to: Date | undefined;
  service: string | undefined;
  limit: string | undefined;
  /** Number of ids of a spender that make a row. Default: 1. */
  depth?: number | undefined;
  /** Default: 100. */
  top: number | undefined;
  /** Id of a movement. */
  before: number | undefined;
}

type BucketRow = { at: Date } & UsageSums;
type FeatureRow = { service: string; limit: string; featureId: string | null; counted: number; late: number };
type UserRow = { service: string; limit: string; userId: string | null; counted: number; late: number };
export type UsageRow = BucketRow | FeatureRow | UserRow | SpenderSums | UnitSums | BlockSums | MovementRow;

/** The answer to a question about usage. `totals` cover the whole range, also rows that `top` leaves out. */
export interface UsageReport {
  by: UsageGrouping;
  from: Date;
  to: Date;
  totals: UsageSums[];
  data: UsageRow[];
  /** Of movements: `before` of the next page; null if this is the last one. */
  next?: number | null;
}

/**
 * Reads the usage of one contract. Source: contract usage-records §5.
 * @throws Failure invalid for a range that is empty, too long, or begins before the ledger; notFound without the contract.
 */
export async function readContractUsage(
  ctx: Context,
  address: ContractAddress,
  query: UsageQuery,
): Promise<UsageReport> {
  const { filter, range } = await openContract(ctx, address, query);
  const { by } = query;
  if (range === undefined) return emptyReport(by, filter);
  return usageSnapshot(ctx, async ({ db }) => {
    const tracked = await readTracked(db, filter.owner.contractId, filter);
    if (by === "movement") {
      const top = query.top ?? DEFAULT_TOP;
      const rows = await readMovements(db, filter, { before: query.before, limit: top + 1 });
      const next = rows.length > top ? (rows[top - 1]?.id ?? null) : null;
      const totals = withTracked(await movementTotals({ db }, filter), tracked);
      return { by, from: range.from, to: range.to, totals, data: rows.slice(0, top), next };
    }
    return reportOf({ ...ctx, db }, query, filter, range, tracked);
  });
}

/** Streams all movements of a contract, newest first, in pages. Throws what readContractUsage throws before the first page. */
export async function streamMovements(
  ctx: Context,
  address: ContractAddress,
  query: UsageQuery,
): Promise<AsyncIterable<MovementRow[]>> {
  const { filter, range } = await openContract(ctx, address, query);
  return (async function* () {
    if (range === undefined) return;
    for (let before = query.before; ;) {
      const page = await readMovements(ctx.db, filter, { before, limit: PAGE });
      if (page.length > 0) yield page;
      if (page.length < PAGE) return;
      before = page.at(-1)?.id;
    }
  })();
}

/**
 * Reads the usage of all contracts of an organization: the sums of theirs. Source: contract usage-records §5.
 * @throws Failure invalid for a range that is empty, too long, or begins before the ledger.
 */
export async function readOrganizationUsage(
  ctx: Context,
  organizationId: string,
  query: UsageQuery,
): Promise<UsageReport> {
  const range = checkedRange(ctx, query);
  await organizationRole(ctx, organizationId);
  const inside = await insideLedger(ctx, query.by, range);
  const filter = filterOf({ organizationId }, query, inside ?? range);
  if (inside === undefined) return emptyReport(query.by, filter);
  await writeDue(ctx, { organizationId });
  return usageSnapshot(ctx, ({ db }) => reportOf({ ...ctx, db }, query, filter, inside, []));
}

/**
 * Reads sums and movements of one moment. Workers of a distributed database have no snapshot in common: batches of the roll-up wait
 * there meanwhile.
 */
async function usageSnapshot<T>(ctx: Context, read: (ctx: Context) => Promise<T>): Promise<T> {
  const isRollUpHeld = await isDistributed(ctx.db);
  return snapshot(ctx, async (inner) => {
    // The first statement: it takes no snapshot.
    if (isRollUpHeld) await holdRollUp(inner.db);
    return read(inner);
  });
}

async function openContract(ctx: Context, address: ContractAddress, query: UsageQuery) {
  const wanted = checkedRange(ctx, query);
  const { id, organizationId, userId } = await findContract(ctx, address);
  const range = await insideLedger(ctx, query.by, wanted);
  await writeDue(ctx, { organizationId, userId });
  const filter = filterOf({ contractId: id }, query, range ?? wanted);
  return { filter: { ...filter, isDistributed: await isDistributed(ctx.db) }, range };
}

/** Writes what is due, so that every movement has an id. */
async function writeDue(ctx: Context, address: { organizationId: string; userId?: string }): Promise<void> {
  await applyDueChangesOf(ctx, address);
  await renewDueLevels(ctx, isAtAddress(address));
}

function filterOf<O extends UsageOwner>(
  owner: O,
  { service, limit }: UsageQuery,
  { from, to }: UsageRange,
): UsageFilter & { owner: O } {
  return { owner, from, to, service: service === undefined ? undefined : serviceKey(service), limit };
}

function checkedRange(ctx: Context, query: UsageQuery): UsageRange {
  const range = rangeOf(query.by, query, ctx.resources.now());
  if (range.from >= range.to) throw new Failure("invalid", "INVALID DATA: from must be before to");
  const { by } = query;
  if (by !== "hour" && by !== "day" && by !== "month") return range;
  if (countBuckets(by, range) <= MAX_BUCKETS) return range;
  throw new Failure("invalid", `INVALID DATA: At most ${MAX_BUCKETS} ${by}s can be asked for at once`);
}

/**
 * Bounds a default range by the start of the ledger; undefined if no whole bucket remains.
 * @throws Failure invalid if the caller's range begins before it.
 */
async function insideLedger(ctx: Context, by: UsageGrouping, range: UsageRange): Promise<UsageRange | undefined> {
  const start = await readLedgerStart(ctx.db);
  if (start === null || range.from >= start) return range;
  if (range.isFromGiven) {
    throw new Failure("invalid", `INVALID DATA: The record of usage starts at ${start.toISOString()}`);
  }
  const from = ceilBucket(bucketOf(by), start);
  return from < range.to ? { ...range, from } : undefined;
}

const emptyReport = (by: UsageGrouping, { from, to }: UsageFilter): UsageReport => ({
  by,
  from,
  to,
  totals: [],
  data: [],
  ...(by === "movement" ? { next: null } : {}),
});

type Named = Pick<UsageSums, "service" | "limit">;

const byName = (a: Named, b: Named) => byCodePoint(a.service, b.service) || byCodePoint(a.limit, b.limit);
const keyOf = ({ service, limit }: Named) => JSON.stringify([service, limit]);

/** Adds the tracked limits that did not move, and sorts all. */
function withTracked(totals: readonly UsageSums[], tracked: readonly Named[]): UsageSums[] {
  const moved = new Set(totals.map(keyOf));
  const still = tracked.filter((one) => !moved.has(keyOf(one)));
  return [...totals, ...still.map((one) => ({ ...one, counted: 0, cleared: 0, late: 0 }))].sort(byName);
}

async function reportOf(
  ctx: Context,
  { by, depth = 1, top = DEFAULT_TOP }: UsageQuery,
  filter: UsageFilter,
  { from, to }: UsageRange,
  tracked: readonly Named[],
): Promise<UsageReport> {
  const { db } = ctx;
  if (by === "spender") {
    const totals = withTracked(await readTotals(db, filter, "days"), tracked);
    return { by, from, to, totals, data: await readSpenders(db, filter, { depth, top }) };
  }
  if (by === "unit" || by === "block") {
    const totals = withTracked(await readTotals(db, filter, "days"), tracked);
    const data =
      by === "unit"
        ? await readUnits(db, filter, top)
        : await readDraws(db, filter, { running: await runningDraws(ctx, filter), top });
    return { by, from, to, totals, data };
  }
  if (by === "feature" || by === "user") {
    const { totals, rows } = await readGroups(db, filter, { by, top });
    const data = rows.map(({ service, limit, name, counted, late }): FeatureRow | UserRow =>
      by === "feature"
        ? { service, limit, featureId: name, counted, late }
        : { service, limit, userId: name, counted, late },
    );
    return { by, from, to, totals: withTracked(totals, tracked), data };
  }
  const bucket = bucketOf(by);
  const { totals: moved, rows } = await readBuckets(db, filter, bucket);
  const totals = withTracked(moved, tracked);
  return { by, from, to, totals, data: filled(bucket, { from, to }, totals, rows) };
}

/** Returns what is drawn from open blocks now and not fixed yet, by id; nothing for a range that has ended. */
async function runningDraws(ctx: Context, { owner, to }: UsageFilter): Promise<ReadonlyMap<string, number>> {
  const drawn = new Map<string, number>();
  if (to <= ctx.resources.now()) return drawn;
  for (const name of await listBlockHolders(ctx.db, owner)) {
    const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
    if (contract === undefined) continue;
    for (const [id, amount] of await drawnOf(ctx, contract, name, ctx.resources.now())) drawn.set(id, amount);
  }
  return drawn;
}

/** Lists every bucket of every limit, also those without movements. */
function filled(
  bucket: Bucket,
  range: Pick<UsageRange, "from" | "to">,
  limits: readonly Named[],
  rows: readonly BucketRow[],
): BucketRow[] {
  const found = new Map(rows.map((row) => [`${row.at.getTime()} ${keyOf(row)}`, row]));
  const keys = limits.map((limit) => ({ ...limit, key: keyOf(limit) }));
  return bucketsOf(bucket, range).flatMap((at) =>
    keys.map(({ service, limit, key }) => {
      const { counted = 0, cleared = 0, late = 0 } = found.get(`${at.getTime()} ${key}`) ?? {};
      return { at, service, limit, counted, cleared, late };
    }),
  );
}

/** Totals of a range of movements: from the roll-up if it consists of whole hours. */
function movementTotals(
  { db }: Pick<Context, "db">,
  filter: UsageFilter & { owner: { contractId: string } },
): Promise<UsageSums[]> {
  const isWhole = (bucket: Bucket) =>
    [filter.from, filter.to].every((moment) => startOfBucket(bucket, moment).getTime() === moment.getTime());
  if (isWhole("day")) return readTotals(db, filter, "days");
  return isWhole("hour") ? readTotals(db, filter, "hours") : readExactTotals(db, filter);
}
