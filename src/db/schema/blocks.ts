import { sql } from "drizzle-orm";
import { check, index, integer, pgTable, primaryKey, text, unique } from "drizzle-orm/pg-core";
import type { ActorKind } from "../../core/access/caller.ts";
import type { BlockOrigin, StoredBlockState } from "../../core/pricing/blocks.ts";
import { amount, moment } from "./columns.ts";

/**
 * Blocks: what a contract may use of one limit beyond its plan; see core/pricing/blocks.ts. A block counts in the running period
 * of its level until it is settled.
 */
export const contractBlocks = pgTable(
  "contract_blocks",
  {
    id: text("id").notNull(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    serviceId: text("service_id").notNull(),
    limitName: text("limit_name").notNull(),
    origin: text("origin").$type<BlockOrigin>().notNull(),
    amount: amount("amount").notNull(),
    /** Sum of the fixed draws. What the running period draws is not fixed yet. */
    used: amount("used").notNull().default(0),
    /** Rest at the start of the running period. */
    left: amount("period_left").notNull(),
    /** Amount that open holds still need of an ended block, beyond its draw. Sum of its draws of kind `kept`. */
    kept: amount("kept").notNull().default(0),
    /** Draw of the running period. Written before a change that may end its level, which fixes it. */
    pendingDraw: amount("pending_draw").notNull().default(0),
    from: moment("starts_at").notNull(),
    /** Null: it never ends. */
    expiresAt: moment("expires_at"),
    /** Number of resets until the block ends, including the last one. Null: no reset carries it over. */
    resetsLeft: integer("resets_left"),
    reason: text("reason").notNull(),
    /** Idempotency key of the call that gave the block, and the body of that call. */
    key: text("key"),
    request: text("request"),
    createdAt: moment("created_at").notNull(),
    state: text("state").$type<StoredBlockState>().notNull().default("open"),
    endedAt: moment("ended_at"),
    /** When it stopped to count: at the first reset after its end. Null while it counts. */
    settledAt: moment("settled_at"),
    actorKind: text("actor_kind").$type<ActorKind>().notNull(),
    actorId: text("actor_id"),
  },
  (t) => [
    primaryKey({ name: "contract_blocks_pk", columns: [t.id, t.organizationId] }),
    unique("contract_blocks_key_unique").on(t.contractId, t.key, t.organizationId),
    // No foreign key on the contract, as for holds: triggers delete the rows with it, and move them along.
    index("contract_blocks_contract_idx").on(t.contractId, t.id),
    index("contract_blocks_organization_idx").on(t.organizationId, t.id),
    index("contract_blocks_counting_idx")
      .on(t.contractId)
      .where(sql`${t.settledAt} is null`),
    // Partial index of what retention deletes.
    index("contract_blocks_carried_idx")
      .on(t.settledAt)
      .where(sql`${t.origin} = 'rollover' and ${t.settledAt} is not null`),
    // Partial index of ends to write, which the sweep looks for every second.
    index("contract_blocks_due_idx")
      .on(t.expiresAt)
      .where(sql`${t.state} = 'open'`),
    check("contract_blocks_state_known", sql`${t.state} in ('open', 'spent', 'expired', 'revoked')`),
    check("contract_blocks_origin_known", sql`${t.origin} in ('given', 'rollover', 'billing')`),
    check("contract_blocks_ended_whole", sql`(${t.state} = 'open') = (${t.endedAt} is null)`),
    check("contract_blocks_kept", sql`${t.kept} >= 0 and ${t.used} + ${t.kept} <= ${t.amount}`),
    check("contract_blocks_amounts", sql`${t.used} >= 0 and ${t.used} <= ${t.amount} and ${t.left} >= 0`),
  ],
);

/**
 * Fixed draws of blocks. An end of a period of the level fixes one, and the end of the block. Of kind `kept`: changes of what an
 * ended block keeps for open holds, which is no draw.
 */
export const blockDraws = pgTable(
  "block_draws",
  {
    blockId: text("block_id").notNull(),
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    kind: text("kind").$type<"period" | "end" | "kept">().notNull(),
    at: moment("at").notNull(),
    amount: amount("amount").notNull(),
  },
  (t) => [
    primaryKey({ name: "block_draws_pk", columns: [t.blockId, t.at, t.kind, t.organizationId] }),
    index("block_draws_contract_idx").on(t.contractId, t.at),
    check("block_draws_kind_known", sql`${t.kind} in ('period', 'end', 'kept')`),
  ],
);
