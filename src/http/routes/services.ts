import { type Handler, Hono } from "hono";
import type { FallbackSubscription } from "../../core/scheduled.ts";
import { type AvailabilityChange, setAvailability } from "../../operations/changes/availability.ts";
import * as later from "../../operations/changes/scheduled-availability.ts";
import { clampPageSize } from "../../operations/context.ts";
import { Failure } from "../../operations/errors.ts";
import { lintDraft } from "../../operations/catalog/pricing-source.ts";
import * as pricings from "../../operations/catalog/pricings.ts";
import { updateService } from "../../operations/catalog/service-changes.ts";
import * as services from "../../operations/catalog/services.ts";
import * as files from "../../operations/catalog/version-files.ts";
import { serviceChanges } from "../../wire/services.ts";
import { fallbackSubscription } from "../../wire/pricings.ts";
import { newExpectations } from "../../wire/version-files.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { json, reply, replyJson, replyYaml } from "../reply.ts";
import { answerOrHold } from "../held.ts";
import {
  afterOf,
  instantOf,
  leadingInteger,
  massChangeScope,
  organizationOf,
  queryParameter,
  scope,
  setNextAfter,
} from "../params.ts";
import { replyList } from "../streamed-list.ts";
import { groupsOf, overrideReasonOf, uploadOf } from "./change-bodies.ts";

interface Fallback {
  fallback: FallbackSubscription;
  /** True if the body had any key. */
  fallbackGiven: boolean;
  fallbackFailure?: Failure;
}

/**
 * Reads the fallback of an archiving. A body without keys counts as missing. The operation decides if a wrong shape
 * matters.
 */
function fallbackOf(body: unknown): Fallback {
  const fallbackGiven = typeof body === "object" && body !== null && Object.keys(body).length > 0;
  if (!fallbackGiven) return { fallback: {}, fallbackGiven };
  const read = fallbackSubscription.safeParse(body);
  if (read.success) {
    const { groups, ...forAll } = read.data;
    return { fallback: { ...forAll, ...(groups === undefined ? {} : { groups: groupsOf(groups) }) }, fallbackGiven };
  }
  const sentence = read.error.issues[0]?.message ?? "The body must be an object";
  return { fallback: {}, fallbackGiven, fallbackFailure: new Failure("unprocessable", sentence) };
}

/** Paging of the service family: bad numbers fall back to the defaults. Source: contract services-pricings §4.1. */
function paging(c: AppContext): {
  skip: number;
  limit: number;
  order: "asc" | "desc";
  after: string | undefined;
} {
  const positive = (name: string, fallback: number) => {
    const value = leadingInteger(queryParameter(c, name)) ?? 0;
    return value > 0 ? value : fallback;
  };
  const limit = clampPageSize(context(c), Math.min(positive("limit", 20), 1000));
  const offset = positive("offset", 0);
  return {
    limit,
    skip: offset > 0 ? offset : (positive("page", 1) - 1) * limit,
    order: queryParameter(c, "order") === "desc" ? "desc" : "asc",
    after: afterOf(c),
  };
}

const addressed = (c: AppContext) => ({
  organizationId: organizationOf(c),
  serviceName: c.req.param("serviceName") ?? "",
  version: c.req.param("pricingVersion") ?? "",
});

/** Services and pricings. Mounted at /services and inside an organization. */
export const serviceRoutes = new Hono<AppEnv>()
  .get("/", async (c) => {
    const listed = await services.listServices(context(c), {
      organizationId: scope(c),
      disabled: queryParameter(c, "disabled") === "true",
      name: queryParameter(c, "name"),
      ...paging(c),
    });
    setNextAfter(c, listed.next);
    return json(c, listed.services);
  })
  .post("/", async (c) =>
    json(
      c,
      await services.createService(context(c), { organizationId: organizationOf(c), source: await uploadOf(c) }),
      201,
    ),
  )
  .post("/lint", async (c) =>
    json(c, await lintDraft(context(c), { organizationId: organizationOf(c), source: await uploadOf(c) })),
  )
  .delete("/", async (c) => {
    const organizationId = massChangeScope(c);
    return answerOrHold(c, async (ctx) => {
      const count = await services.pruneServices(ctx, { organizationId });
      return json(c, { message: `Pruned ${count} services` });
    });
  })
  .get("/:serviceName", async (c) => json(c, await services.showService(context(c), addressed(c))))
  .put("/:serviceName", async (c) => {
    const { name, organizationId } = bodyOf(c, serviceChanges);
    const changes = { name, targetOrganizationId: organizationId, overrideReason: overrideReasonOf(c) };
    return answerOrHold(c, async (ctx) => json(c, await updateService(ctx, { ...addressed(c), ...changes })));
  })
  .delete("/:serviceName", (c) =>
    answerOrHold(c, async (ctx) => {
      await services.disableService(ctx, { ...addressed(c), overrideReason: overrideReasonOf(c) });
      return reply(c, null, 204);
    }),
  )
  .get("/:serviceName/pricings", async (c) => {
    const input = { ...addressed(c), status: queryParameter(c, "pricingStatus") };
    const { isLarge, batches } = await pricings.listPricings(context(c), input);
    if (isLarge) return replyList(c, batches);
    for await (const batch of batches) return replyJson(c, `[${batch.join(",")}]`, 200);
    return json(c, []);
  })
  .post("/:serviceName/pricings", async (c) =>
    json(c, await pricings.addPricing(context(c), { ...addressed(c), source: await uploadOf(c) }), 201),
  )
  .get("/:serviceName/pricings/:pricingVersion", async (c) =>
    replyJson(c, await pricings.showPricing(context(c), addressed(c)), 200),
  )
  .get("/:serviceName/pricings/:pricingVersion/public-url", async (c) => {
    const path = await pricings.publicPath(context(c), addressed(c));
    const base = c.get("resources").settings.publicUrl ?? new URL(c.req.url).origin;
    return json(c, { path, url: `${base}${path}` });
  })
  .get("/:serviceName/versions", async (c) => json(c, await files.listVersionFiles(context(c), addressed(c))))
  .get("/:serviceName/pricings/:pricingVersion/source", async (c) =>
    replyYaml(c, await files.showSource(context(c), addressed(c))),
  )
  .get("/:serviceName/pricings/:pricingVersion/expectations", async (c) =>
    replyYaml(c, await files.showExpectations(context(c), addressed(c))),
  )
  .put("/:serviceName/pricings/:pricingVersion/expectations", async (c) =>
    json(c, await files.setExpectations(context(c), { ...addressed(c), ...bodyOf(c, newExpectations) })),
  )
  .put("/:serviceName/pricings/:pricingVersion", async (c) => {
    const availability = queryParameter(c, "availability") ?? "archived";
    // Activation ignores the body that clients send.
    const body: Fallback =
      availability === "active" ? { fallback: {}, fallbackGiven: false } : fallbackOf(c.get("body"));
    if (availability !== "active" && availability !== "archived") {
      throw (
        body.fallbackFailure ??
        new Failure(
          "invalid",
          availability === ""
            ? "No availability provided"
            : 'Invalid availability status. Either provide "active" or "archived"',
        )
      );
    }
    const overrideReason = overrideReasonOf(c);
    if (queryParameter(c, "at") !== undefined) return scheduleAt(c, { availability, overrideReason, ...body });
    const change: AvailabilityChange = { ...addressed(c), availability, overrideReason, ...body };
    return answerOrHold(c, async (ctx) => json(c, await setAvailability(ctx, change)));
  })
  .get("/:serviceName/scheduled", async (c) => json(c, await later.listServiceChanges(context(c), addressed(c))))
  .delete("/:serviceName/scheduled/:scheduledId", async (c) => {
    await later.cancelServiceChange(context(c), { ...addressed(c), id: c.req.param("scheduledId") });
    return reply(c, null, 204);
  })
  .delete("/:serviceName/pricings/:pricingVersion", (c) =>
    answerOrHold(c, async (ctx) => {
      await pricings.deletePricing(ctx, addressed(c));
      return reply(c, null, 204);
    }),
  );

/** Schedules another availability of a version, or answers with the service that will have it anyway. */
async function scheduleAt(
  c: AppContext,
  { fallbackFailure, ...change }: Pick<later.LaterAvailability, "availability" | "overrideReason"> & Fallback,
): Promise<Response> {
  if (fallbackFailure !== undefined) throw fallbackFailure;
  const at = instantOf(c, "at") ?? c.get("resources").now();
  const body = change.fallbackGiven ? (c.get("body") as object) : null;
  return answerOrHold(c, async (ctx) => {
    const answer = await later.scheduleAvailability(ctx, { ...addressed(c), ...change, at, body });
    return "service" in answer ? json(c, answer.service) : json(c, answer.scheduled, 202);
  });
}

/** Serves the text of an uploaded pricing, unchanged and without a key. */
export const publicPricing: Handler<AppEnv> = async (c) => {
  const text = await pricings.publicText(c.get("resources"), decodeURIComponent(c.req.path));
  if (text === undefined) throw new Failure("notFound", `Cannot GET ${c.req.path}`);
  return reply(c, text, 200, { "Content-Type": "text/yaml; charset=utf-8" });
};
