import { Hono } from "hono";
import * as team from "../../operations/contracts/team.ts";
import { Failure } from "../../operations/errors.ts";
import { isMemberId, MEMBER_ID, memberChange, memberList } from "../../wire/members.ts";
import { bodyOf } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { pageLimit, queryParameter, scope } from "../params.ts";
import { json, reply } from "../reply.ts";

const address = (c: AppContext) => ({ organizationId: scope(c), userId: c.req.param("userId") ?? "" });

/** @throws Failure unprocessable for an id that no member can have. */
function memberOf(c: AppContext): team.MemberAddress {
  const memberId = c.req.param("memberId") ?? "";
  if (!isMemberId(memberId)) throw new Failure("unprocessable", MEMBER_ID);
  return { ...address(c), memberId };
}

/** @throws Failure invalid for a wrong page size, or a `before` that no page has named. */
function pageOf(c: AppContext) {
  const limit = pageLimit(c);
  const before = queryParameter(c, "before");
  if (before !== undefined && !/^[0-9a-f]{24}$/.test(before)) {
    throw new Failure("invalid", "INVALID DATA: before must be the next of another page");
  }
  return { q: queryParameter(c, "q"), limit, before };
}

/** Members of one contract. */
export const contractMemberRoutes = new Hono<AppEnv>()
  .get("/:userId/members", async (c) => json(c, await team.listMembers(context(c), { ...address(c), ...pageOf(c) })))
  .put("/:userId/members", async (c) => {
    const { data: members } = bodyOf(c, memberList, "unknownFieldsLast");
    return json(c, await team.replaceMembers(context(c), { ...address(c), members }));
  })
  .get("/:userId/members/:memberId", async (c) => json(c, await team.showMember(context(c), memberOf(c))))
  .put("/:userId/members/:memberId", async (c) => {
    const address = memberOf(c);
    const { name } = bodyOf(c, memberChange, "unknownFieldsLast");
    const { member, isNew } = await team.putMember(context(c), { ...address, name });
    return json(c, member, isNew ? 201 : 200);
  })
  .delete("/:userId/members/:memberId", async (c) => {
    await team.removeMember(context(c), memberOf(c));
    return reply(c, null, 204);
  });
