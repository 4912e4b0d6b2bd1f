import { authorOf } from "../../core/access/caller.ts";
import { trackedLimits } from "../../core/pricing/compile.ts";
import type { BlockOrigin } from "../../core/pricing/blocks.ts";
import { type BlockRow, findBlock, grantedEvent, insertBlocks, touchContract } from "../../db/queries/blocks.ts";
import { type ContractSnapshot, loadSnapshot } from "../../db/queries/contract-snapshots.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { type ContractAddress, contractNotFound } from "../contract-address.ts";
import { BlockBook } from "./block-book.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { type LockedContract, lockCurrent } from "../locked-contract.ts";
import { compiledPricings } from "../subscriptions.ts";
import { type BlockView, viewOne } from "./view.ts";

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
