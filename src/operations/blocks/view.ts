import { sum, total } from "../../core/exact.ts";
import type { BlockOrigin, BlockState } from "../../core/pricing/blocks.ts";
import { type Actor, withActors } from "../../db/queries/actors.ts";
import type { ListedBlock } from "../../db/queries/block-listing.ts";
import type { BlockRow } from "../../db/queries/blocks.ts";
import type { Context } from "../context.ts";
import { drawnOf } from "./block-book.ts";
import type { LockedContract } from "../locked-contract.ts";

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

/** Returns a block of a locked contract as endpoints return it. */
export async function viewOne(ctx: Context, locked: LockedContract, block: BlockRow): Promise<BlockView> {
  const { contract, organizationId, userId, now } = locked;
  const service = contract.services.find(({ serviceId }) => serviceId === block.serviceId)?.key ?? null;
  const drawn = await drawnOf(ctx, contract, { organizationId, userId }, now);
  const [view] = await viewBlocks(ctx, [{ block, userId, service }], drawn, now);
  if (view === undefined) throw new Error("a block has no view");
  return view;
}

/** Returns blocks as endpoints return them. `drawn`: what is drawn of each by its id, beside what is fixed. */
export async function viewBlocks(
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
