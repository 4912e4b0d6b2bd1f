import { and, asc, eq, gt, isNull, lte, sql } from "drizzle-orm";
import type { BlockOrigin, StoredBlockState } from "../../core/pricing/blocks.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contractBlocks, contracts } from "../schema.ts";
import type { BlockRow } from "./blocks.ts";

/* Lists blocks, and the contracts that have some. */

/** Returns those of these contracts that have blocks which count. */
export async function findBlockHolders(
  db: Database,
  contractIds: readonly string[],
): Promise<{ id: string; organizationId: string; userId: string }[]> {
  const { id, organizationId, userId } = contracts;
  return db
    .select({ id, organizationId, userId })
    .from(contracts)
    .where(
      and(
        isAnyOf(id, contractIds),
        sql`${id} in (select contract_id from contract_blocks
          where ${isAnyOf(sql`contract_id`, contractIds)} and settled_at is null)`,
      ),
    )
    .orderBy(asc(id));
}

/** Lists the end users of an organization whose contracts have blocks that count. */
export async function listBlockUsers(db: Database, organizationId: string): Promise<string[]> {
  const rows = await db
    .selectDistinct({ userId: contracts.userId })
    .from(contractBlocks)
    .innerJoin(contracts, eq(contracts.id, contractBlocks.contractId))
    .where(and(eq(contractBlocks.organizationId, organizationId), isNull(contractBlocks.settledAt)));
  return rows.map(({ userId }) => userId);
}

/** Lists who has blocks that count: the contract, or contracts of the organization. */
export async function listBlockHolders(
  db: Database,
  owner: { contractId: string } | { organizationId: string },
): Promise<{ organizationId: string; userId: string }[]> {
  const { organizationId, userId } = contracts;
  return db
    .selectDistinct({ organizationId, userId })
    .from(contractBlocks)
    .innerJoin(contracts, eq(contracts.id, contractBlocks.contractId))
    .where(
      and(
        "contractId" in owner
          ? eq(contractBlocks.contractId, owner.contractId)
          : eq(contractBlocks.organizationId, owner.organizationId),
        isNull(contractBlocks.settledAt),
      ),
    );
}

/** Block of a listing, with the contract that it belongs to and the name of its service. */
export interface ListedBlock {
  block: BlockRow;
  userId: string;
  /** Service name in lower case; null for a service that is gone. */
  service: string | null;
}

/** Selects blocks; undefined matches everything. */
export interface BlockFilter {
  contractId?: string | undefined;
  organizationId?: string | undefined;
  expiresBefore?: Date | undefined;
  origin?: BlockOrigin | undefined;
  /** Stored state that the state of the answer may follow from. */
  states?: readonly StoredBlockState[] | undefined;
  /**
   * Only blocks that may be spent: fixed so, or open with at least as much consumed of their limit as they have left. What is
   * drawn of them is never more than what was consumed.
   */
  maybeSpent?: boolean | undefined;
  /** Only blocks that begin after this moment, or by it. */
  begins?: { when: "after" | "by"; moment: Date } | undefined;
}

/** Lists blocks, newest first. */
export async function listBlockRows(
  db: Database,
  filter: BlockFilter,
  page: { before: string | undefined; limit: number },
): Promise<ListedBlock[]> {
  return db
    .select({
      block: contractBlocks,
      userId: contracts.userId,
      service: sql<string | null>`(select s.name_key from services s
        where s.id = ${contractBlocks.serviceId} and s.organization_id = ${contractBlocks.organizationId})`,
    })
    .from(contractBlocks)
    .innerJoin(contracts, eq(contracts.id, contractBlocks.contractId))
    .where(
      and(
        filter.contractId === undefined ? undefined : eq(contractBlocks.contractId, filter.contractId),
        filter.organizationId === undefined ? undefined : eq(contractBlocks.organizationId, filter.organizationId),
        filter.expiresBefore === undefined
          ? undefined
          : sql`${contractBlocks.expiresAt} < ${filter.expiresBefore.toISOString()}::timestamptz`,
        filter.origin === undefined ? undefined : eq(contractBlocks.origin, filter.origin),
        filter.states === undefined ? undefined : isAnyOf(contractBlocks.state, filter.states),
        filter.maybeSpent === true
          ? sql`(${contractBlocks.state} = 'spent' or exists (
              select 1 from usage_levels u
              where u.contract_id = ${contractBlocks.contractId} and u.service_id = ${contractBlocks.serviceId}
                and u.limit_name = ${contractBlocks.limitName} and u.consumed >= ${contractBlocks.left}))`
          : undefined,
        filter.begins === undefined
          ? undefined
          : (filter.begins.when === "after" ? gt : lte)(contractBlocks.from, filter.begins.moment),
        page.before === undefined ? undefined : sql`${contractBlocks.id} < ${page.before}`,
      ),
    )
    .orderBy(sql`${contractBlocks.id} desc`)
    .limit(page.limit);
}
