import { total } from "../../core/exact.ts";
import type { BlockOrigin } from "../../core/pricing/blocks.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import type { Context } from "../context.ts";
import type { ContractAddress } from "../contract-address.ts";
import { BlockBook } from "./block-book.ts";
import { evaluationIfAny, evaluationWithoutBlocks, grantedLimit } from "../evaluations.ts";
import type { LockedContract } from "../locked-contract.ts";
import { writeDue } from "./list.ts";

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
