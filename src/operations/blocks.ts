import { authorOf } from "../core/access/caller.ts";
import { sum, total } from "../core/exact.ts";
import { trackedLimits } from "../core/pricing/compile.ts";
import { BLOCK_STATES, type BlockOrigin, type BlockState, type StoredBlockState } from "../core/pricing/blocks.ts";
import { type Actor, withActors } from "../db/queries/actors.ts";
import {
  type BlockFilter,
  type BlockRow,
  findBlock,
  grantedEvent,
  insertBlocks,
  type ListedBlock,
  listBlockRows,
  touchContract,
} from "../db/queries/blocks.ts";
import { type ContractSnapshot, loadSnapshot, loadSnapshots } from "../db/queries/contract-snapshots.ts";
import { recordEvents } from "../db/queries/outbox.ts";
import { serviceKey } from "../db/queries/pricings.ts";
import { sameLevel } from "../db/queries/usage.ts";
import { audit } from "./audit.ts";
import { clampPageSize, type Context, newId, transaction } from "./context.ts";
import { type ContractAddress, contractNotFound } from "./contract-address.ts";
import { BlockBook, drawnOf } from "./due-blocks.ts";
import { applyDueChangesOf } from "./due-changes.ts";
import { Failure } from "./errors.ts";
import { evaluationIfAny, evaluationWithoutBlocks, grantedLimit } from "./evaluations.ts";
import { type LockedContract, lockCurrent } from "./locked-contract.ts";
import { compiledPricings } from "./subscriptions.ts";

/*
 * Blocks: amounts beyond the plan, each with its own end. What is due of a contract is written before its blocks are read or
 * changed. Source: contract credits §1.
 */

/** Blocks of one contract that have not ended and have something left. */
const MAX_BLOCKS = 100;

/** A block as requested. */
export interface NewBlock {
  service: string;
  limit: string;
  amount: number;
  /** Undefined or past: from now on. */
  from: Date | undefined;
  /** Undefined: never. */
  expiresAt: Date | undefined;
  reason: string;
  key: string | undefined;
  /** Default: given by hand. A payment gives its block once, whatever a later message says of it. */
  origin?: Extract<BlockOrigin, "given" | "billing"> | undefined;
}

/** A block in the form that endpoints return. */
export interface BlockView {
  readonly id: string;
  readonly userId: string;
  /** Service name in lower case; null for a service that is gone. */
  readonly service: string | null;
  readonly limit: string;
  readonly amount: number;
  readonly used: number;
  readonly remaining: number;
  readonly from: Date;
  readonly expiresAt: Date | null;
  readonly state: BlockState;
  readonly origin: BlockOrigin;
  readonly reason: string;
  readonly createdAt: Date;
  readonly endedAt: Date | null;
  readonly actor: Actor;
}

/**
 * Gives a contract an amount of one limit beyond its plan. The key makes a repeated call return the first block.
 * @throws Failure notFound for an unknown contract, service or limit; invalid for a limit that is not numeric and tracked;
 * unprocessable for an end that is past; conflict for another call's key, and with too many blocks.
 */
export async function giveBlock(
  ctx: Context,
  { block, ...address }: ContractAddress & { block: NewBlock },
): Promise<{ block: BlockView; isNew: boolean }> {
  await applyDueChangesOf(ctx, address);
  return transaction(ctx, async (ctx) => {
    const locked = await lockCurrent(ctx, address);
    const { contract, organizationId, userId, now } = locked;
    const { contractId } = contract;
    const request = JSON.stringify([
      serviceKey(block.service),
      block.limit,
      block.amount,
      block.from ?? null,
      block.expiresAt ?? null,
      block.reason,
    ]);
    const earlier = block.key === undefined ? undefined : await findBlock(ctx.db, contractId, { key: block.key });
    if (earlier !== undefined) {
      if (earlier.request === request || block.origin === "billing")
        return { block: await viewOne(ctx, locked, earlier), isNew: false };
      throw new Failure("conflict", `CONFLICT: The key ${block.key} was used for another block`);
    }
    const serviceId = await requireLimit(ctx, contract, block);
    const from = block.from === undefined || block.from < now ? now : block.from;
    const expiresAt = block.expiresAt ?? null;
    if (expiresAt !== null && expiresAt <= from) {
      throw new Failure("unprocessable", "The expiresAt field must be after from and now");
    }
    const row: BlockRow = {
      id: newId(now),
      contractId,
      organizationId,
      serviceId,
      limitName: block.limit,
      origin: block.origin ?? "given",
      amount: block.amount,
      used: 0,
      left: block.amount,
      kept: 0,
      pendingDraw: 0,
      from,
      expiresAt,
      resetsLeft: null,
      reason: block.reason,
      key: block.key ?? null,
      request,
      createdAt: now,
      state: "open",
      endedAt: null,
      settledAt: null,
      ...(ctx.author ?? authorOf(ctx.caller)),
    };
    await requireRoom(ctx, locked);
    await insertBlocks(ctx.db, [row]);
    await touchContract(ctx.db, contractId, now);
    const view = await viewOne(ctx, { ...locked, contract: await reloaded(ctx, locked) }, row);
    await audit(ctx, { action: "block.grant", organizationId, target: userId, after: view });
    await recordEvents(ctx.db, [grantedEvent(organizationId, row, { userId, serviceName: serviceKey(block.service) })]);
    return { block: view, isNew: true };
  });
}

async function reloaded(ctx: Context, { organizationId, userId }: LockedContract): Promise<ContractSnapshot> {
  const contract = await loadSnapshot(ctx.db, organizationId, userId);
  if (contract === undefined) throw contractNotFound(userId);
  return contract;
}

/** Returns the id of the service whose limit can have blocks. */
async function requireLimit(ctx: Context, { services }: ContractSnapshot, { service, limit }: NewBlock) {
  const contracted = services.find(({ key }) => key === serviceKey(service));
  if (contracted === undefined) throw new Failure("notFound", `Service ${service} not found in the contract`);
  const pricing = (await compiledPricings(ctx, [contracted])).get(contracted.hash);
  if (pricing === undefined) throw new Error(`pricing ${contracted.pricingId} has no model`);
  const declared = pricing.usageLimits.get(limit);
  if (declared === undefined) {
    throw new Failure(
      "notFound",
      `Usage limit ${limit} not found in pricing version ${contracted.version} of service ${service}`,
    );
  }
  if (typeof declared.defaultValue !== "number" || !trackedLimits(pricing).some(({ name }) => name === limit)) {
    throw new Failure("invalid", "INVALID DATA: Blocks are for numeric usage limits that are tracked");
  }
  return contracted.serviceId;
}

async function requireRoom(ctx: Context, { contract, organizationId, userId, now }: LockedContract): Promise<void> {
  const open = contract.blocks.filter(({ drawn }) => drawn === null);
  if (open.length < MAX_BLOCKS) return;
  const book = await BlockBook.open(ctx, contract, { organizationId, userId });
  const drawn = await book.drawnNow(contract.levels, now);
  if (open.filter(({ id, left }) => drawn.get(id) !== left).length < MAX_BLOCKS) return;
  throw new Failure("conflict", `CONFLICT: A contract cannot have more than ${MAX_BLOCKS} blocks that have not ended`);
}

/**
 * Revokes what is left of a block. What was used stays.
 * @throws Failure notFound for an unknown contract or block; conflict for a block that has ended or is spent.
 */
export async function revokeBlock(ctx: Context, { id, ...address }: ContractAddress & { id: string }): Promise<void> {
  await applyDueChangesOf(ctx, address);
  await transaction(ctx, async (ctx) => {
    const locked = await lockCurrent(ctx, address);
    const { contract, organizationId, userId, now } = locked;
    const row = await findBlock(ctx.db, contract.contractId, { id });
    if (row === undefined) throw new Failure("notFound", `Block ${id} not found in the contract of ${userId}`);
    const before = await viewOne(ctx, locked, row);
    if (before.state !== "open" && before.state !== "upcoming") {
      throw new Failure("conflict", `CONFLICT: The block ${id} is ${before.state}`);
    }
    const book = await BlockBook.open(ctx, contract, { organizationId, userId });
    await book.revoke(contract.levels, id, now);
    const events = await book.write(now);
    const after = (await findBlock(ctx.db, contract.contractId, { id })) ?? row;
    await audit(ctx, {
      action: "block.revoke",
      organizationId,
      target: userId,
      before,
      after: await viewOne(ctx, locked, after),
    });
    await recordEvents(ctx.db, events ?? []);
  });
}

async function viewOne(ctx: Context, locked: LockedContract, block: BlockRow): Promise<BlockView> {
  const { contract, organizationId, userId, now } = locked;
  const service = contract.services.find(({ serviceId }) => serviceId === block.serviceId)?.key ?? null;
  const drawn = await drawnOf(ctx, contract, { organizationId, userId }, now);
  const [view] = await viewBlocks(ctx, [{ block, userId, service }], drawn, now);
  if (view === undefined) throw new Error("a block has no view");
  return view;
}

async function viewBlocks(
  ctx: Context,
  rows: readonly ListedBlock[],
  drawn: ReadonlyMap<string, number>,
  now: Date,
): Promise<BlockView[]> {
  const named = await withActors(
    ctx.db,
    rows.map(({ block, ...of }) => ({ ...block, ...of })),
  );
  return named.map((block) => {
    const used = total([block.used, drawn.get(block.id) ?? 0]);
    const remaining = sum(block.amount, -used);
    const {
      id,
      userId,
      service,
      limitName: limit,
      amount,
      from,
      expiresAt,
      origin,
      reason,
      createdAt,
      endedAt,
    } = block;
    const running = from > now ? "upcoming" : remaining === 0 ? "spent" : "open";
    const state = block.state === "open" ? running : block.state;
    return {
      id,
      userId,
      service,
      limit,
      amount,
      used,
      remaining,
      from,
      expiresAt,
      state,
      origin,
      reason,
      createdAt,
      endedAt,
      actor: block.actor,
    };
  });
}

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

async function writeDue(ctx: Context, address: ContractAddress): Promise<LockedContract> {
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

/** Balance of one tracked limit, with what adds to it. */
export interface BalanceView {
  readonly service: string;
  readonly limit: string;
  /** Value from plan, add-ons and overrides; null for a limit that is not granted. */
  readonly granted: number | boolean | null;
  readonly blocks: readonly { id: string; remaining: number; expiresAt: Date | null; origin: BlockOrigin }[];
  /** The limit with its blocks. */
  readonly limitNow: number | boolean | null;
  readonly consumed: number;
  readonly held: number;
  readonly remaining: number | null;
  readonly resetAt: Date | null;
}

/**
 * Shows the balances of a contract, by service and limit in the order of the pricing.
 * @throws Failure notFound for an unknown contract.
 */
export async function showBalances(ctx: Context, address: ContractAddress): Promise<BalanceView[]> {
  const { contract, organizationId, userId, now } = await writeDue(ctx, address);
  const evaluation = await evaluationIfAny(ctx, contract, now);
  const plain = evaluation && (await evaluationWithoutBlocks(ctx, contract, now, evaluation));
  const open = await openBlocks(ctx, { contract, organizationId, userId, now });
  return contract.services.flatMap(({ serviceId, key: service }) =>
    contract.levels
      .filter((level) => level.serviceId === serviceId)
      .map((level): BalanceView => {
        const limitNow = grantedLimit(contract, evaluation, level) ?? null;
        const { limitName: limit, consumed, held, resetAt } = level;
        return {
          service,
          limit,
          granted: grantedLimit(contract, plain, level) ?? null,
          blocks: open
            .filter((block) => sameLevel(block, level))
            .map(({ id, remaining, expiresAt, origin }) => ({ id, remaining, expiresAt, origin })),
          limitNow,
          consumed,
          held,
          remaining: typeof limitNow === "number" ? Math.max(0, total([limitNow, -consumed, -held])) : null,
          resetAt,
        };
      }),
  );
}

/** Returns the open blocks of a contract in the order in which they are drawn. */
async function openBlocks(ctx: Context, { contract, organizationId, userId, now }: LockedContract) {
  if (contract.blocks.length === 0) return [];
  return (await BlockBook.open(ctx, contract, { organizationId, userId })).openNow(contract.levels, now);
}
