import { and, asc, eq, isNull, lte, sql, type SQL } from "drizzle-orm";
import type { PrivateEvent } from "../../core/event-messages.ts";
import { sum, total } from "../../core/exact.ts";
import type { Block } from "../../core/pricing/blocks.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { blockDraws, contractBlocks, contracts } from "../schema.ts";
import type { Addressed } from "./outbox.ts";

/*
 * Blocks of contracts; see core/pricing/blocks.ts. Everything that writes is called with the contract locked, and gives the
 * contract's row a new version, which cached snapshots are compared with.
 */

export type BlockRow = typeof contractBlocks.$inferSelect;

/** A row as it counts in the running period. */
export type CountingBlock = BlockRow & Pick<Block, "drawn">;

/** Draw of a block, fixed at that moment. */
export type BlockDraw = typeof blockDraws.$inferSelect;

/** Reads the blocks of a contract that count in the running periods of its levels. */
export async function readCountingBlocks(tx: Database, contractId: string): Promise<CountingBlock[]> {
  const rows = await tx
    .select()
    .from(contractBlocks)
    .where(and(eq(contractBlocks.contractId, contractId), isNull(contractBlocks.settledAt)))
    .orderBy(asc(contractBlocks.id));
  return rows.map(toCounting);
}

/** A block that ended in the running period was drawn what it lacks since the period began. */
function toCounting(row: BlockRow): CountingBlock {
  const { state, amount, used, left } = row;
  return { ...row, drawn: state === "open" ? null : total([used, left, -amount]) };
}

export async function insertBlocks(tx: Database, rows: readonly BlockRow[]): Promise<void> {
  if (rows.length > 0) await tx.insert(contractBlocks).values([...rows]);
}

/** Writes what changed of blocks, and what was drawn from them. */
export async function changeBlocks(
  tx: Database,
  contractId: string,
  { rows, draws }: { rows: readonly BlockRow[]; draws: readonly BlockDraw[] },
): Promise<void> {
  if (rows.length > 0) {
    await tx.execute(sql`
      update contract_blocks b set used = given.used, period_left = given.left, expires_at = given."expiresAt",
        resets_left = given."resetsLeft", state = given.state, ended_at = given."endedAt", settled_at = given."settledAt",
        pending_draw = given."pendingDraw", kept = given.kept
      from json_to_recordset(${JSON.stringify(rows)}::text::json) as given
        (id text, used numeric, "left" numeric, "expiresAt" timestamptz, "resetsLeft" integer, state text,
          "endedAt" timestamptz, "settledAt" timestamptz, "pendingDraw" numeric, kept numeric)
      where b.contract_id = ${contractId} and b.id = given.id`);
  }
  if (draws.length > 0) {
    const { blockId, at, kind, organizationId } = blockDraws;
    await tx
      .insert(blockDraws)
      .values(summed(draws))
      // Several changes of one millisecond are one.
      .onConflictDoUpdate({
        target: [blockId, at, kind, organizationId],
        set: { amount: sql`${blockDraws.amount} + excluded.amount` },
      });
  }
}

/** Sums draws of one block, moment and kind: a statement cannot change a row twice. */
function summed(draws: readonly BlockDraw[]): BlockDraw[] {
  const sums = new Map<string, BlockDraw>();
  for (const draw of draws) {
    const key = `${draw.blockId} ${draw.at.getTime()} ${draw.kind}`;
    sums.set(key, { ...draw, amount: sum(sums.get(key)?.amount ?? 0, draw.amount) });
  }
  return [...sums.values()];
}

/** Gives the contract a new row version. */
export async function touchContract(tx: Database, contractId: string, now: Date): Promise<void> {
  await tx.update(contracts).set({ updatedAt: now }).where(eq(contracts.id, contractId));
}

/** Finds a block of a contract by its id, or by the key of the call that gave it. */
export async function findBlock(
  tx: Database,
  contractId: string,
  by: { id: string } | { key: string },
): Promise<BlockRow | undefined> {
  const isIt = "id" in by ? eq(contractBlocks.id, by.id) : eq(contractBlocks.key, by.key);
  const [row] = await tx
    .select()
    .from(contractBlocks)
    .where(and(eq(contractBlocks.contractId, contractId), isIt));
  return row;
}

type Named = Pick<BlockRow, "contractId" | "id" | "limitName" | "amount" | "origin">;

const namedIn = (block: Named, { userId, serviceName }: { userId: string; serviceName: string }) => ({
  contractId: block.contractId,
  userId,
  blockId: block.id,
  serviceName,
  limitName: block.limitName,
  origin: block.origin,
  amount: block.amount,
});

/** Event of a block that is given or carried over. */
export const grantedEvent = (
  organizationId: string,
  block: Named & Pick<BlockRow, "from" | "expiresAt" | "reason">,
  names: { userId: string; serviceName: string },
): Addressed => ({
  organizationId,
  event: {
    code: "BLOCK_GRANTED",
    details: {
      ...namedIn(block, names),
      from: block.from.toISOString(),
      expiresAt: block.expiresAt?.toISOString() ?? null,
      reason: block.reason,
    },
  },
});

/** Event of a block's end, with what was used and what was left of it. */
export const endedEvent = (
  organizationId: string,
  block: Named & Pick<BlockRow, "used" | "state">,
  names: { userId: string; serviceName: string },
): Addressed => ({
  organizationId,
  event: {
    code: "BLOCK_ENDED",
    details: {
      ...namedIn(block, names),
      state: block.state as Extract<PrivateEvent, { code: "BLOCK_ENDED" }>["details"]["state"],
      used: block.used,
      remaining: sum(block.amount, -block.used),
    },
  },
});

/**
 * Fixes what the blocks of these levels were drawn, because the levels end or restart. `levels` selects rows of
 * `usage_levels`; what each block is drawn must have been written to `pending_draw`.
 */
export async function closeBlocksOf(tx: Database, levels: SQL, now: Date): Promise<void> {
  await tx.execute(sql`
    with closed as (
      update contract_blocks b set used = b.used + b.pending_draw, period_left = b.period_left - b.pending_draw,
        settled_at = case when b.state <> 'open' then ${now.toISOString()}::timestamptz end, pending_draw = 0, kept = 0
      from contract_blocks o
      where o.contract_id = b.contract_id and o.id = b.id and b.settled_at is null and (b.contract_id, b.service_id, b.limit_name) in (
        select contract_id, service_id, limit_name from usage_levels where ${levels})
      returning b.id, b.contract_id, b.organization_id, o.pending_draw, o.kept
    )
    insert into block_draws (block_id, contract_id, organization_id, kind, at, amount)
    select id, contract_id, organization_id, kind, ${now.toISOString()}::timestamptz, amount
    from closed cross join lateral (values ('period', pending_draw), ('kept', -kept)) as fixed (kind, amount)
    where amount <> 0
    on conflict on constraint block_draws_pk do update set amount = block_draws.amount + excluded.amount`);
}

/**
 * Revokes the blocks of services that leave contracts, and returns the events of those that had not ended. Call it before
 * the services are deleted. `leaving` is a condition on `service_id`.
 */
export async function endLeavingBlocks(
  tx: Database,
  { contractIds, leaving, now }: { contractIds: readonly string[]; leaving: SQL; now: Date },
): Promise<Addressed[]> {
  const rows = await tx.execute<
    Pick<BlockRow, "id" | "contractId" | "limitName" | "origin" | "state" | "organizationId"> & {
      amount: string;
      used: string;
      userId: string;
      serviceName: string | null;
      hasEnded: boolean;
    }
  >(sql`
    with gone as (
      update contract_blocks b set used = b.used + b.pending_draw, period_left = b.period_left - b.pending_draw,
        pending_draw = 0, kept = 0, settled_at = ${now.toISOString()}::timestamptz,
        state = case when b.state <> 'open' then b.state when b.amount = b.used + b.pending_draw then 'spent' else 'revoked' end,
        ended_at = coalesce(b.ended_at, ${now.toISOString()}::timestamptz)
      from contract_blocks o
      where o.contract_id = b.contract_id and o.id = b.id and b.settled_at is null and ${isAnyOf(sql`b.contract_id`, contractIds)}
        and b.id in (select id from contract_blocks where ${isAnyOf(sql`contract_id`, contractIds)} and ${leaving})
      returning b.*, o.state <> 'open' as has_ended, o.pending_draw as drawn, o.kept as was_kept
    ), drawn as (
      insert into block_draws (block_id, contract_id, organization_id, kind, at, amount)
      select id, contract_id, organization_id, kind, ${now.toISOString()}::timestamptz, fixed.amount
      from gone cross join lateral (values ('end', drawn), ('kept', -was_kept)) as fixed (kind, amount)
      where fixed.amount <> 0
      on conflict on constraint block_draws_pk do update set amount = block_draws.amount + excluded.amount
    )
    select g.id, g.contract_id as "contractId", g.organization_id as "organizationId", g.limit_name as "limitName", g.origin,
      g.state, g.amount, g.used, g.has_ended as "hasEnded", c.user_id as "userId", s.name_key as "serviceName"
    from gone g join contracts c on c.id = g.contract_id left join services s on s.id = g.service_id
    order by g.id`);
  return rows
    .filter((row) => !row.hasEnded)
    .map((row) =>
      endedEvent(
        row.organizationId,
        { ...row, amount: Number(row.amount), used: Number(row.used) },
        { userId: row.userId, serviceName: row.serviceName ?? "" },
      ),
    );
}

/** Reads the blocks that counted at a past moment, as they were then. */
export async function readBlocksAt(db: Database, contractId: string, at: Date): Promise<CountingBlock[]> {
  const moment = sql`${at.toISOString()}::timestamptz`;
  const rows = await db
    .select()
    .from(contractBlocks)
    .where(
      and(
        eq(contractBlocks.contractId, contractId),
        lte(contractBlocks.createdAt, at),
        sql`(${contractBlocks.settledAt} is null or ${contractBlocks.settledAt} > ${moment})`,
      ),
    )
    .orderBy(asc(contractBlocks.id));
  if (rows.length === 0) return [];
  const draws = await db
    .select()
    .from(blockDraws)
    .where(and(eq(blockDraws.contractId, contractId), lte(blockDraws.at, at)));
  const sumOf = (id: string, kind: BlockDraw["kind"]) =>
    total(draws.filter((draw) => draw.blockId === id && draw.kind === kind).map((draw) => draw.amount));
  return rows.map((row) => ({
    ...row,
    left: sum(row.amount, -sumOf(row.id, "period")),
    drawn: row.endedAt !== null && row.endedAt <= at ? sumOf(row.id, "end") : null,
    kept: sumOf(row.id, "kept"),
  }));
}
