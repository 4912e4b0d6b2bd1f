import { BLOCK_STATES, type BlockOrigin, type BlockState, type StoredBlockState } from "../../core/pricing/blocks.ts";
import { type BlockFilter, type ListedBlock, listBlockRows } from "../../db/queries/block-listing.ts";
import { loadSnapshots } from "../../db/queries/contract-snapshots.ts";
import { clampPageSize, type Context, transaction } from "../context.ts";
import type { ContractAddress } from "../contract-address.ts";
import { drawnOf } from "./block-book.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { type LockedContract, lockCurrent } from "../locked-contract.ts";
import { type BlockView, viewBlocks } from "./view.ts";

/** One page of blocks, newest first. */
export interface BlockPage {
  data: BlockView[];
  /** The `before` of the next page; null for the last one. */
  next: string | null;
}

export interface BlockPageQuery {
  /** Undefined: all of them. */
  state: BlockState | undefined;
  before: string | undefined;
  limit: number;
}

/** Returns true for a state of blocks. */
export const isBlockState = (text: string): text is BlockState => (BLOCK_STATES as readonly string[]).includes(text);

/**
 * Lists the blocks of a contract, ended ones included.
 * @throws Failure notFound for an unknown contract.
 */
export async function listContractBlocks(ctx: Context, query: ContractAddress & BlockPageQuery): Promise<BlockPage> {
  const { contract } = await writeDue(ctx, query);
  return pageBlocks(ctx, { contractId: contract.contractId }, query);
}

/** Writes what is due of a contract, and returns the contract. */
export async function writeDue(ctx: Context, address: ContractAddress): Promise<LockedContract> {
  await applyDueChangesOf(ctx, address);
  return transaction(ctx, (ctx) => lockCurrent(ctx, address));
}

/** Lists the blocks of all contracts of an organization. */
export async function listOrganizationBlocks(
  ctx: Context,
  query: BlockPageQuery & {
    organizationId: string;
    expiresBefore: Date | undefined;
    origin: BlockOrigin | undefined;
  },
): Promise<BlockPage> {
  const { organizationId, expiresBefore, origin } = query;
  await applyDueChangesOf(ctx, { organizationId });
  return pageBlocks(ctx, { organizationId, expiresBefore, origin }, query);
}

/** Stored states that blocks of a state may have: a block that is open in its row may be upcoming or spent. */
const STORED: Readonly<Record<BlockState, readonly StoredBlockState[]>> = {
  upcoming: ["open"],
  open: ["open"],
  spent: ["open", "spent"],
  expired: ["expired"],
  revoked: ["revoked"],
};

/** Rows of one read. */
const READ_AT_ONCE = 200;

async function pageBlocks(
  ctx: Context,
  filter: BlockFilter,
  { state, before, limit: asked }: BlockPageQuery,
): Promise<BlockPage> {
  const limit = clampPageSize(ctx, asked);
  const states = state === undefined ? undefined : STORED[state];
  const now = ctx.resources.now();
  // Reading all open blocks for a page of the few that are upcoming or spent would cost an organization's size.
  const begins =
    state === "upcoming" || state === "open"
      ? ({ when: state === "upcoming" ? "after" : "by", moment: now } as const)
      : undefined;
  const data: BlockView[] = [];
  for (let cursor = before; data.length <= limit;) {
    const rows = await listBlockRows(
      ctx.db,
      { ...filter, states, begins, maybeSpent: state === "spent" },
      { before: cursor, limit: READ_AT_ONCE },
    );
    const views = await viewBlocks(ctx, rows, await drawnOfRows(ctx, rows, now), now);
    data.push(...views.filter((view) => state === undefined || view.state === state));
    cursor = rows.at(-1)?.block.id;
    if (rows.length < READ_AT_ONCE) break;
  }
  const page = data.slice(0, limit);
  return { data: page, next: data.length > limit ? (page.at(-1)?.id ?? null) : null };
}

async function drawnOfRows(
  ctx: Context,
  rows: readonly ListedBlock[],
  now: Date,
): Promise<ReadonlyMap<string, number>> {
  const open = rows.filter(({ block }) => block.state === "open" || block.kept > 0);
  const drawn = new Map<string, number>();
  for (const organizationId of new Set(open.map(({ block }) => block.organizationId))) {
    const userIds = open.filter(({ block }) => block.organizationId === organizationId).map(({ userId }) => userId);
    for (const [userId, contract] of await loadSnapshots(ctx.db, organizationId, [...new Set(userIds)])) {
      for (const [id, amount] of await drawnOf(ctx, contract, { organizationId, userId }, now)) drawn.set(id, amount);
    }
  }
  return drawn;
}
