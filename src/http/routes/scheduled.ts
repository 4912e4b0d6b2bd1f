import { Hono } from "hono";
import * as scheduled from "../../operations/contracts/scheduled.ts";
import { newChange } from "../../wire/scheduled.ts";
import { bodyOf } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { answerOnce } from "../idempotency.ts";
import { instantOf, pagingOf, queryParameter, scope, setNextAfter } from "../params.ts";
import { json, reply } from "../reply.ts";

const address = (c: AppContext) => ({ organizationId: scope(c), userId: c.req.param("userId") ?? "" });

/** Scheduled changes of one contract. */
export const contractScheduledRoutes = new Hono<AppEnv>()
  .get("/:userId/scheduled", async (c) => json(c, await scheduled.listContractChanges(context(c), address(c))))
  .post("/:userId/scheduled", (c) => {
    const change = bodyOf(c, newChange, "unknownFieldsLast");
    return answerOnce(c, async (ctx) => ({
      status: 201,
      value: await scheduled.scheduleChange(ctx, { ...address(c), change }),
    }));
  })
  .delete("/:userId/scheduled/:scheduledId", async (c) => {
    await scheduled.cancelChange(context(c), { ...address(c), id: c.req.param("scheduledId") });
    return reply(c, null, 204);
  });

/** Scheduled changes of all contracts. */
export const scheduledRoutes = new Hono<AppEnv>().get("/", async (c) => {
  const query = (name: string) => queryParameter(c, name);
  const listed = await scheduled.listChanges(context(c), {
    organizationId: scope(c),
    state: query("state"),
    kind: query("kind"),
    dueBefore: instantOf(c, "dueBefore"),
    ...pagingOf(c),
  });
  c.get("request").headers["X-Total-Count"] = String(listed.total);
  setNextAfter(c, listed.next);
  return json(c, listed.changes);
});
