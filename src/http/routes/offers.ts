import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import { readOffer, readPublicOffer } from "../../operations/evaluation/offers.ts";
import { setPublicOffer, showPublicOffer } from "../../operations/catalog/publishing.ts";
import { publicOffer } from "../../wire/offers.ts";
import { bodyOf } from "../body.ts";
import { addressOf, type AppEnv, context } from "../context.ts";
import { nonEmpty, organizationOf, queryParameter } from "../params.ts";
import { json, replyConditionally } from "../reply.ts";

/** Offers of services. Mounted at /services and inside an organization. */
export const offerRoutes = new Hono<AppEnv>().get("/:serviceName/offer", async (c) => {
  const offer = await readOffer(context(c), {
    organizationId: organizationOf(c),
    serviceName: c.req.param("serviceName"),
    userId: nonEmpty(c, "userId"),
    pricingVersion: nonEmpty(c, "pricingVersion"),
  });
  return replyConditionally(c, JSON.stringify(offer), { "Cache-Control": "private, no-cache" });
});

/** Published offers. Any web page may read them, without a key. */
export const publicOfferRoutes = new Hono<AppEnv>().get("/:organizationId/:serviceName", async (c) => {
  const { callLimits, now } = c.get("resources");
  callLimits.countPublicOffer(addressOf(c), now(), c.get("server").settings.publicOffersPerMinute);
  for (const name of ["userId", "pricingVersion"])
    if (queryParameter(c, name) !== undefined)
      throw new Failure("invalid", `INVALID DATA: A public offer takes no ${name}`);
  const address = { organizationId: c.req.param("organizationId"), serviceName: c.req.param("serviceName") };
  const offer = await readPublicOffer(context(c), address);
  return replyConditionally(c, JSON.stringify(offer), { "Cache-Control": "public, max-age=60" });
});

/** The services of an organization whose offers are published. */
export const publishingRoutes = new Hono<AppEnv>()
  .get("/", async (c) => json(c, await showPublicOffer(context(c), organizationOf(c))))
  .put("/", async (c) => {
    const { services } = bodyOf(c, publicOffer);
    return json(c, await setPublicOffer(context(c), { organizationId: organizationOf(c), services }));
  });
