import { Hono } from "hono";
import { BILLING_PROVIDERS, type BillingOutcome, type BillingProvider } from "../../core/billing/message.ts";
import type { ConnectionView } from "../../operations/billing/connections.ts";
import * as connections from "../../operations/billing/connections.ts";
import { stopFollowing } from "../../operations/billing/detach.ts";
import { listMessages } from "../../operations/billing/messages.ts";
import { receiveMessage } from "../../operations/billing/receive.ts";
import { replayMessage, replayMessages } from "../../operations/billing/replay.ts";
import { Failure } from "../../operations/errors.ts";
import { billingConnectionToSet } from "../../wire/billing.ts";
import { billingOutcome, REPEATED_OUTCOMES } from "../../wire/billing-messages.ts";
import { API_PREFIX } from "../authorize.ts";
import { bodyOf, readRawBody } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { serverUrl } from "../links.ts";
import { entryIdOf, organizationOf, pageLimit, queryParameter, scope } from "../params.ts";
import { json, reply } from "../reply.ts";

/** Largest message of a provider. */
const MAX_MESSAGE_BYTES = 512 * 1024;

/**
 * Reads organization and provider of a connection.
 * @throws Failure notFound for an unknown provider, as for an unknown path.
 */
function addressOf(c: AppContext): { organizationId: string; provider: BillingProvider } {
  const provider = BILLING_PROVIDERS.find((each) => each === c.req.param("provider"));
  if (provider === undefined) throw new Failure("notFound", `Cannot ${c.req.method} ${c.req.path}`);
  return { organizationId: organizationOf(c), provider };
}

function outcomeOf<Outcome extends BillingOutcome>(c: AppContext, known: readonly Outcome[]): Outcome | undefined {
  const given = queryParameter(c, "outcome");
  const outcome = known.find((each) => each === given);
  if (given !== undefined && outcome === undefined) {
    throw new Failure("invalid", `INVALID DATA: Outcome must be one of ${known.join(", ")}`);
  }
  return outcome;
}

/** Adds the address of a connection. It is public, so that it names the host of the request where PUBLIC_URL is not set. */
function shown(c: AppContext, { id, provider, ...connection }: ConnectionView): object {
  return { id, provider, url: `${serverUrl(c)}${API_PREFIX}/billing/${id}`, ...connection };
}

/** Connections of an organization to payment providers, and their messages. */
export const billingRoutes = new Hono<AppEnv>()
  .get("/", async (c) => {
    const list = await connections.listConnections(context(c), organizationOf(c));
    return json(
      c,
      list.map((connection) => shown(c, connection)),
    );
  })
  .get("/:provider", async (c) => json(c, shown(c, await connections.showConnection(context(c), addressOf(c)))))
  .put("/:provider", async (c) => {
    const address = addressOf(c);
    const choice = bodyOf(c, billingConnectionToSet, "unknownFieldsLast");
    const { isNew, connection } = await connections.setConnection(context(c), { ...address, choice });
    return json(c, shown(c, connection), isNew ? 201 : 200);
  })
  .delete("/:provider", async (c) => {
    await connections.deleteConnection(context(c), addressOf(c));
    return reply(c, null, 204);
  })
  .get("/:provider/messages", async (c) => {
    const query = {
      ...addressOf(c),
      outcome: outcomeOf(c, billingOutcome.options),
      userId: queryParameter(c, "user"),
      before: entryIdOf(c),
      limit: pageLimit(c),
    };
    return json(c, await listMessages(context(c), query));
  })
  .post("/:provider/messages/:messageId/replay", async (c) => {
    const messageId = c.req.param("messageId");
    return json(c, await replayMessage(context(c), { ...addressOf(c), messageId }));
  })
  .post("/:provider/replay", async (c) => {
    const outcome = outcomeOf(c, REPEATED_OUTCOMES);
    if (outcome === undefined) {
      throw new Failure("invalid", `INVALID DATA: Outcome must be one of ${REPEATED_OUTCOMES.join(", ")}`);
    }
    return json(c, await replayMessages(context(c), { ...addressOf(c), outcome }));
  });

/** Messages of payment providers. The signature of the raw body is their only credential. */
export const billingMessageRoutes = new Hono<AppEnv>().post("/:connectionId", async (c) => {
  const body = await readRawBody(c, MAX_MESSAGE_BYTES);
  const raw = { body, header: (name: string) => c.req.header(name) };
  return json(c, await receiveMessage(context(c), { connectionId: c.req.param("connectionId"), raw }));
});

/** Subscriptions that contracts follow. Mounted at /contracts and inside an organization. */
export const contractBillingRoutes = new Hono<AppEnv>().delete("/:userId/billing", async (c) => {
  await stopFollowing(context(c), { organizationId: scope(c), userId: c.req.param("userId") });
  return reply(c, null, 204);
});
