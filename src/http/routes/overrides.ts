import { Hono } from "hono";
import { OVERRIDE_KINDS } from "../../core/pricing/overrides.ts";
import { listContractOverrides, listOverrides, showOverride } from "../../operations/contracts/override-listing.ts";
import { type ElementAddress, removeOverride, setOverride } from "../../operations/contracts/overrides.ts";
import { overrideChange } from "../../wire/overrides.ts";
import { bodyOf } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { instantOf, pagingOf, queryParameter, scope, setNextAfter } from "../params.ts";
import { json, reply } from "../reply.ts";

const address = (c: AppContext) => ({ organizationId: scope(c), userId: c.req.param("userId") ?? "" });

/** Returns the element of the path; undefined where its kind is none, so that there is no such route. */
function elementOf(c: AppContext): ElementAddress | undefined {
  const kind = OVERRIDE_KINDS.find((each) => each === c.req.param("kind"));
  if (kind === undefined) return undefined;
  return { ...address(c), service: c.req.param("serviceName") ?? "", kind, name: c.req.param("name") ?? "" };
}

const ELEMENT = "/:userId/overrides/:serviceName/:kind/:name";

/** Overrides of one contract. */
export const contractOverrideRoutes = new Hono<AppEnv>()
  .get("/:userId/overrides", async (c) => json(c, await listContractOverrides(context(c), address(c))))
  .get(ELEMENT, async (c) => {
    const element = elementOf(c);
    return element === undefined ? c.notFound() : json(c, await showOverride(context(c), element));
  })
  .put(ELEMENT, async (c) => {
    const element = elementOf(c);
    if (element === undefined) return c.notFound();
    const change = bodyOf(c, overrideChange, "unknownFieldsLast");
    return json(c, await setOverride(context(c), { ...element, change }));
  })
  .delete(ELEMENT, async (c) => {
    const element = elementOf(c);
    if (element === undefined) return c.notFound();
    await removeOverride(context(c), element);
    return reply(c, null, 204);
  });

/** Overrides of all contracts. */
export const overrideRoutes = new Hono<AppEnv>().get("/", async (c) => {
  const query = (name: string) => queryParameter(c, name);
  const listed = await listOverrides(context(c), {
    organizationId: scope(c),
    service: query("service"),
    name: query("name"),
    state: query("state"),
    endsBefore: instantOf(c, "endsBefore"),
    ...pagingOf(c),
  });
  c.get("request").headers["X-Total-Count"] = String(listed.total);
  setNextAfter(c, listed.next);
  return json(c, listed.overrides);
});
