import { parseSpender, type Spender } from "../../../core/pricing/budgets.ts";
import { type ContractSnapshot, loadSnapshots } from "../../../db/queries/contract-snapshots.ts";
import { changeBudgetBalances } from "../../../db/queries/budgets.ts";
import { readLedgerStart } from "../../../db/queries/ledger-partitions.ts";
import { recordEvents } from "../../../db/queries/outbox.ts";
import { lockContract } from "../../../db/queries/usage.ts";
import { fillRunningSince } from "../../../db/queries/usage-renewals.ts";
import { rememberRaised } from "../../../db/queries/usage-alerts.ts";
import {
  KeyTaken,
  lockFreeContracts,
  readContracted,
  readTakenKeys,
  writeUsage,
} from "../../../db/queries/usage-batches.ts";
import { keepsTooMuch } from "../../due-blocks.ts";
import { contractNotFound } from "../../contract-address.ts";
import { type Context, transaction } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { noteDenial } from "../budget-denials.ts";
import { isLockTimeout, LOCK_WAIT_MS, tooBusy } from "../contract-lock.ts";
import { evaluatedOrganization, prepare, type Prepared, withLockedContract } from "../prepare.ts";
import { needsRenewal } from "../renewal.ts";
import { type Circumstances, decideItem, entryOf, type Entry, noWrites, type RecordingWrites } from "./decide-item.ts";
import { withSpenders } from "../spenders.ts";
import { ratesAt, type RatesOf } from "../units.ts";
import type { ItemVerdict, RecordingMode, UsageItem, VerdictKind } from "./item.ts";

/*
 * Records a batch of usage. One transaction counts the items of all contracts that are free and have nothing due. The next
 * one waits for one of the others first, since most others are free once that one is. A contract of which something is due
 * has a transaction of its own.
 */

/** Attempts of a transaction that loses keys to others. Each loss means that another batch has committed. */
const MAX_ATTEMPTS = 20;

/** Transactions over all contracts that are left. More would not pay for contracts of which something is due. */
const MAX_PASSES = 10;

/** Verdicts of a batch in the order of its items, and how many there are of each kind. */
export interface RecordedUsage {
  counts: Record<VerdictKind, number>;
  items: ItemVerdict[];
}

interface Batch {
  organizationId: string;
  mode: RecordingMode;
}

type Verdicts = Map<Entry, ItemVerdict>;

/**
 * Counts each item once, whatever is sent again or at the same time. Items of one contract see the balances that earlier ones
 * left. Source: contract usage-records §4.
 * @throws Failure unavailable when a contract stays locked. Some items may be counted then, and the same call is safe.
 */
export async function recordUsage(
  ctx: Context,
  input: { items: readonly UsageItem[]; mode: RecordingMode },
): Promise<RecordedUsage> {
  const batch = { organizationId: evaluatedOrganization(ctx), mode: input.mode };
  const entries = input.items.map(entryOf);
  const items: ItemVerdict[] = [];
  const counts: RecordedUsage["counts"] = { counted: 0, duplicate: 0, refused: 0, unknown: 0, late: 0 };
  const note = (verdicts: Verdicts) => {
    for (const [{ item, place }, verdict] of verdicts) {
      items[place] = verdict;
      counts[verdict.verdict] += 1;
      measure(ctx, batch.organizationId, item, verdict);
    }
  };
  let left: readonly Entry[] = entries;
  for (let pass = 1; left.length > 0 && pass <= MAX_PASSES; pass += 1) {
    const [awaited = []] = pass === 1 ? [] : byEndUser(left).values();
    const done = await recordFree(ctx, batch, left, awaited[0]?.item.userId);
    note(done);
    // Something of the contract is due.
    if (awaited[0] !== undefined && !done.has(awaited[0])) note(await recordOne(ctx, batch, awaited));
    left = left.filter((entry) => !items[entry.place]);
  }
  for (const one of byEndUser(left).values()) note(await recordOne(ctx, batch, one));
  return { counts, items };
}

function byEndUser(entries: readonly Entry[]): Map<string, Entry[]> {
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) {
    const group = groups.get(entry.item.userId);
    if (group === undefined) groups.set(entry.item.userId, [entry]);
    else group.push(entry);
  }
  return groups;
}

/** Counts a verdict for the metrics and denials, after its commit. */
function measure({ resources }: Context, organizationId: string, { featureId }: UsageItem, of: ItemVerdict): void {
  const { callCounter, now } = resources;
  const { verdict, reason } = of;
  if (verdict === "counted") callCounter.totals.granted += 1;
  if (reason !== "LIMIT_REACHED" && reason !== "NOT_GRANTED" && reason !== "BUDGET_REACHED") return;
  callCounter.totals.denied += 1;
  callCounter.countDenial(now(), organizationId, featureId, reason === "NOT_GRANTED" ? reason : "LIMIT_REACHED");
  noteDenial(resources, of);
}

/**
 * Waits for the contract of `awaitedUser`. Then records the items of contracts that nobody has locked and that have nothing
 * due, and returns their verdicts. It waits for no contract while it has a lock.
 */
async function recordFree(
  ctx: Context,
  batch: Batch,
  entries: readonly Entry[],
  awaitedUser: string | undefined,
): Promise<Verdicts> {
  const groups = byEndUser(entries);
  return boundingLockWait(() =>
    transaction(ctx, async (ctx) => {
      const { organizationId } = batch;
      if (awaitedUser !== undefined) await lockContract(ctx.db, organizationId, awaitedUser, LOCK_WAIT_MS);
      const userIds = [...groups.keys()];
      const locked = await lockFreeContracts(ctx.db, organizationId, userIds);
      const now = ctx.resources.now();
      const snapshots = await readLocked(ctx, batch, groups, [...locked]);
      const others = userIds.filter((userId) => !locked.has(userId));
      const contracted = others.length === 0 ? locked : await readContracted(ctx.db, organizationId, others);
      const prepared = new Map<string, Prepared | Failure>();
      for (const userId of userIds) {
        const contract = snapshots.get(userId);
        if (contract === undefined && contracted.has(userId)) continue;
        const spenders = spendersOf(groups.get(userId) ?? []);
        const one = contract === undefined ? contractNotFound(userId) : await prepareFree(ctx, contract, spenders, now);
        if (one) prepared.set(userId, one);
      }
      const ready = entries.filter(({ item }) => prepared.has(item.userId));
      return decideAndWrite(
        ctx,
        { ...batch, now },
        ready,
        (userId) => prepared.get(userId) ?? contractNotFound(userId),
      );
    }),
  );
}

/** Reads locked contracts. Fills in the running periods that the items' moments are compared with. */
async function readLocked(
  { db, resources }: Context,
  { organizationId }: Batch,
  groups: ReadonlyMap<string, readonly Entry[]>,
  userIds: readonly string[],
): Promise<Map<string, ContractSnapshot>> {
  const dated = new Set(userIds.filter((userId) => groups.get(userId)?.some(({ item }) => item.at !== undefined)));
  if (dated.size === 0) return resources.snapshots.locked(db, organizationId, userIds);
  const snapshots = await loadSnapshots(db, organizationId, userIds);
  const older = [...snapshots].flatMap(([userId, { contractId, levels }]) =>
    dated.has(userId) && levels.some(({ runningSince }) => runningSince === null) ? [contractId] : [],
  );
  if (older.length === 0) return snapshots;
  await fillRunningSince(db, older);
  return loadSnapshots(db, organizationId, userIds);
}

/** Returns the spenders of items, with nobody for those without one. */
const spendersOf = (entries: readonly Entry[]): Spender[] =>
  entries.map(({ item }) => (item.spender === undefined ? [] : (parseSpender(item.spender) ?? [])));

/** Undefined if something of the contract is due. */
async function prepareFree(
  ctx: Context,
  contract: ContractSnapshot,
  spenders: readonly Spender[],
  now: Date,
): Promise<Prepared | Failure | undefined> {
  try {
    if (needsRenewal(contract, now)) return undefined;
    const prepared = await prepare(ctx, contract, now);
    return keepsTooMuch(contract, prepared.evaluation) ? undefined : await withSpenders(ctx, prepared, spenders);
  } catch (error) {
    if (!(error instanceof Failure) || error.code === "unavailable") throw error;
    return error;
  }
}

/** Records the items of one contract in its own transaction, which waits for the lock and renews what is due. */
async function recordOne(ctx: Context, batch: Batch, entries: readonly Entry[]): Promise<Verdicts> {
  const userId = entries[0]?.item.userId ?? "";
  const { organizationId } = batch;
  try {
    return await boundingLockWait(() =>
      transaction(ctx, async (ctx) => {
        const isDated = entries.some(({ item }) => item.at !== undefined);
        return withLockedContract(ctx, { organizationId, userId }, async (ctx, prepared) => {
          const isOlder = prepared.contract.levels.some(({ runningSince }) => runningSince === null);
          const contract =
            isDated && isOlder ? await withRunningSince(ctx, organizationId, userId, prepared) : prepared;
          const budgeted = await withSpenders(ctx, contract, spendersOf(entries));
          return decideAndWrite(ctx, { ...batch, now: prepared.at }, entries, () => budgeted);
        });
      }),
    );
  } catch (error) {
    if (!(error instanceof Failure) || error.code === "unavailable") throw error;
    // Nothing can be counted, so nothing is written: only duplicates have another verdict.
    return decideAndWrite(ctx, { ...batch, now: ctx.resources.now() }, entries, () => error);
  }
}

async function withRunningSince(
  ctx: Context,
  organizationId: string,
  userId: string,
  prepared: Prepared,
): Promise<Prepared> {
  await fillRunningSince(ctx.db, [prepared.contract.contractId]);
  const contract = (await loadSnapshots(ctx.db, organizationId, [userId])).get(userId);
  return contract === undefined ? prepared : prepare(ctx, contract, prepared.at);
}

async function decideAndWrite(
  ctx: Context,
  batch: Omit<Circumstances, "ledgerStart">,
  entries: readonly Entry[],
  contractOf: (userId: string) => Prepared | Failure,
): Promise<Verdicts> {
  const { organizationId, now } = batch;
  const taken = await readTakenKeys(ctx.db, organizationId, entries, now);
  const isDated = entries.some(({ item }) => item.at !== undefined);
  const circumstances = { ...batch, ledgerStart: isDated ? await readLedgerStart(ctx.db) : null };
  const writes: RecordingWrites = noWrites();
  const verdicts: Verdicts = new Map();
  for (const entry of entries) {
    const contract = contractOf(entry.item.userId);
    const rates = await ratesOfItem(ctx, entry.item, contract, now);
    verdicts.set(entry, decideItem(circumstances, { entry, contract, taken: taken.get(entry), rates }, writes));
  }
  await writeUsage(ctx.db, organizationId, { ...writes, keys: [...writes.keys.values()] }, now);
  await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
  await rememberRaised(ctx.db, writes.raised);
  await recordEvents(ctx.db, writes.events);
  return verdicts;
}

/** Returns the rates of the moment of an item that was in the past; undefined for those of now. */
async function ratesOfItem(
  ctx: Context,
  { at, amounts }: UsageItem,
  contract: Prepared | Failure,
  now: Date,
): Promise<RatesOf | undefined> {
  const isPriced = at !== undefined && at < now && Object.values(amounts).some((amount) => typeof amount !== "number");
  return isPriced && "evaluation" in contract ? ratesAt(ctx, contract.contract.contractId, at) : undefined;
}

/**
 * Runs a transaction, and again when another batch has taken one of its keys meanwhile.
 * @throws Failure unavailable after a lock timeout.
 */
async function boundingLockWait<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (isLockTimeout(error)) throw tooBusy();
      if (!(error instanceof KeyTaken)) throw error;
      if (attempt === MAX_ATTEMPTS) throw tooBusy();
    }
  }
}
