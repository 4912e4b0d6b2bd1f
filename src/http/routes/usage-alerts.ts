import { Hono } from "hono";
import { setAlerts, showAlerts } from "../../operations/accounts/usage-alerts.ts";
import { usageAlerts } from "../../wire/usage-alerts.ts";
import { bodyOf } from "../body.ts";
import { type AppEnv, context } from "../context.ts";
import { organizationOf } from "../params.ts";
import { json } from "../reply.ts";

/** Thresholds of usage that raise an event. */
export const usageAlertRoutes = new Hono<AppEnv>()
  .get("/", async (c) => json(c, await showAlerts(context(c), organizationOf(c))))
  .put("/", async (c) => {
    const organizationId = organizationOf(c);
    // An organization that is not there is answered before the body is read.
    await showAlerts(context(c), organizationId);
    const { thresholds } = bodyOf(c, usageAlerts, "unknownFieldsLast");
    return json(c, await setAlerts(context(c), { organizationId, thresholds }));
  });
