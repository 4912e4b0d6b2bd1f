import { Hono } from "hono";
import { BLOCK_ORIGINS, type BlockOrigin } from "../../core/pricing/blocks.ts";
import { showBalances } from "../../operations/blocks/balances.ts";
import { giveBlock, revokeBlock } from "../../operations/blocks/give.ts";
import {
  type BlockPageQuery,
  isBlockState,
  listContractBlocks,
  listOrganizationBlocks,
} from "../../operations/blocks/list.ts";
import { Failure } from "../../operations/errors.ts";
import { newBlock } from "../../wire/blocks.ts";
import { bodyOf } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { instantOf, organizationOf, pageLimit, queryParameter, scope } from "../params.ts";
import { json, reply } from "../reply.ts";

const address = (c: AppContext) => ({ organizationId: scope(c), userId: c.req.param("userId") ?? "" });

/** @throws Failure invalid for an unknown state, a wrong page size or a malformed id. */
function pageOf(c: AppContext): BlockPageQuery {
  const state = queryParameter(c, "state");
  if (state !== undefined && !isBlockState(state)) {
    throw new Failure("invalid", "INVALID DATA: state must be upcoming, open, spent, expired or revoked");
  }
  const limit = pageLimit(c);
  const before = queryParameter(c, "before");
  if (before !== undefined && !/^[0-9a-f]{24}$/.test(before)) {
    throw new Failure("invalid", "INVALID DATA: before must be the id of a block");
  }
  return { state, limit, before };
}

/** @throws Failure invalid for an unknown origin. */
function originOf(c: AppContext): BlockOrigin | undefined {
  const given = queryParameter(c, "origin");
  const origin = BLOCK_ORIGINS.find((each) => each === given);
  if (given !== undefined && origin === undefined) {
    throw new Failure("invalid", `INVALID DATA: origin must be one of ${BLOCK_ORIGINS.join(", ")}`);
  }
  return origin;
}

/** Blocks and balances of one contract. */
export const contractBlockRoutes = new Hono<AppEnv>()
  .post("/:userId/blocks", async (c) => {
    const block = bodyOf(c, newBlock, "unknownFieldsLast");
    const given = await giveBlock(context(c), { ...address(c), block });
    return json(c, given.block, given.isNew ? 201 : 200);
  })
  .get("/:userId/blocks", async (c) => json(c, await listContractBlocks(context(c), { ...address(c), ...pageOf(c) })))
  .delete("/:userId/blocks/:blockId", async (c) => {
    await revokeBlock(context(c), { ...address(c), id: c.req.param("blockId") });
    return reply(c, null, 204);
  })
  .get("/:userId/balances", async (c) => json(c, await showBalances(context(c), address(c))));

/** Blocks of all contracts of an organization. */
export const organizationBlockRoutes = new Hono<AppEnv>().get("/", async (c) =>
  json(
    c,
    await listOrganizationBlocks(context(c), {
      organizationId: organizationOf(c),
      ...pageOf(c),
      expiresBefore: instantOf(c, "expiresBefore"),
      origin: originOf(c),
    }),
  ),
);
