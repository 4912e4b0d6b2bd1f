import { MIGRATIONS } from "../platform/migrations.ts";
import { connect, type Connection } from "../../db/postgres/connect.ts";
import { requireMigrated } from "../../db/migrate.ts";
import { newestEvent } from "../../db/queries/outbox.ts";
import { listenForTestEvents } from "../../db/queries/test-events.ts";
import { type Broadcast, createBroadcast } from "../../events/broadcast.ts";
import { createFeed } from "../../events/feed.ts";
import { HandshakeError } from "../../events/handshake.ts";
import { createLog } from "../../events/log.ts";
import { startRetention } from "../../events/retention.ts";
import { startRollUp } from "../../events/roll-up.ts";
import { startWebhooks } from "../../events/webhooks.ts";
import { identifyCaller, refuseMove } from "../../operations/access.ts";
import { contextOf, type Resources } from "../../operations/context.ts";
import { sessionBounds } from "../../operations/session-bounds.ts";
import { openApiKey } from "../../operations/credentials.ts";
import { Failure } from "../../operations/errors.ts";
import {
  announceEndedOverrides,
  announceEndingTrials,
  announceExpired,
  renewDueContracts,
} from "../../operations/contracts/expiry.ts";
import { sweepAvailability } from "../../operations/changes/availability-sweep.ts";
import { expireDueHolds } from "../../operations/due-holds.ts";
import { sweepDueChanges } from "../../operations/due-changes.ts";
import { databaseOf } from "./given-secrets.ts";
import { requireSessions, waitForDatabase } from "./database-access.ts";
import type { Process } from "./lifecycle.ts";
import { applicationOver, healthApplication, openResources } from "./resources.ts";
import { openTracing } from "../platform/tracing.ts";
import { createPost } from "../platform/webhook-post.ts";
import { mailMetrics, openMails } from "./mails.ts";

/** Clients reconnect within up to 5 s; those within this time get the events recorded meanwhile. */
const RETURN_MS = 10_000;
const RETRY_MS = 500;
/** Interval of the sweep that announces expired contracts and extends renewing ones. */
const EXPIRY_MS = 30_000;
/** Interval of the sweep that applies scheduled changes, and announces ended overrides and trials that end soon. */
const TERMS_MS = 1_000;
/** The outbox is read every second; older reads mean that the feed has stopped. */
const STALE_MS = 5000;

/** An event server, independent of the runtime. */
export interface EventServer {
  broadcast: Broadcast;
  /** REST, or 404 for every path under EVENTS_ONLY. */
  fetch(request: Request, bindings: object): Response | Promise<Response>;
  /** Id up to which all events were delivered. */
  position(): number;
  /** Ends streams and sockets, so that connections can drain. */
  beginStop(): Promise<void>;
  /** Closes its resources after the last connection. */
  close(): Promise<void>;
}

/*
 * After a crash, the launcher passes the position of the previous process (RESUME_AFTER). The server reads on from
 * there, and repeats those events to plain clients that connect in the first seconds, because all of them were
 * disconnected. Default: the newest event. Clients that resume by id get what they missed in either case.
 */

/** Opens the feed, the channel, REST and the shared background work. */
export async function openEventServer({ config, log, tell, hasLauncher }: Process): Promise<EventServer> {
  const { databaseUrl, secrets } = databaseOf(config, hasLauncher);
  const database = await waitForDatabase(config, databaseUrl);
  const sessions = requireSessions(database);
  if (!hasLauncher) await requireMigrated(sessions, MIGRATIONS);
  const traced = await openTracing(config, "faregate-events");
  const opened = await openResources(config, secrets, { database, applicationName: "faregate-events-rest", log });
  const connection = connect(sessions, { maxConnections: 1, applicationName: "faregate-events-feed" });
  const onError = onceAnOutage((error) => log("warn", "the outbox cannot be read for now", error));
  const resumeAfter = process.env["RESUME_AFTER"];
  const start = await startOf(connection, resumeAfter === undefined ? undefined : Number(resumeAfter), onError.report);
  const events = createLog(opened.connection.db, start);
  await events.fill().catch(onError.report);
  const resources = { ...opened.resources, eventLog: events };
  let cut = 0;
  const broadcast = createBroadcast({
    baseUrlPath: config.BASE_URL_PATH,
    log: events,
    findOrganization: (key, address) => organizationOfKey(resources, key, address, config.UNKNOWN_KEYS_PER_MINUTE),
    maxInboundBytes: config.SOCKET_MESSAGE_KB * 1024,
    maxPerAddress: config.SOCKETS_PER_ADDRESS,
    patience: { bufferedBytes: config.SOCKET_BUFFER_KB * 1024, stallMs: config.SOCKET_STALL_TIMEOUT * 1000 },
    trustedProxies: config.TRUSTED_PROXIES,
    onError: onError.report,
    onCut: (bytes) => {
      cut += 1;
      log("warn", "a client that does not read was cut off", { bytes });
    },
  });
  if (resumeAfter !== undefined) broadcast.replayToReturning(RETURN_MS);
  const webhooks = startWebhooks({
    db: resources.db,
    post: createPost({ allowedHosts: config.WEBHOOK_ALLOWED_HOSTS }),
    openSecret: (sealed) => openApiKey(resources.keyring, sealed),
    onError: (error) => log("warn", "webhooks cannot be delivered for now", error),
    concurrent: config.WEBHOOK_DELIVERIES,
  });
  const mails = openMails(config, resources, log);
  const stopRetention = startRetention({
    db: resources.db,
    days: {
      events: config.EVENT_RETENTION_DAYS,
      audit: config.AUDIT_RETENTION_DAYS,
      ledger: config.LEDGER_RETENTION_DAYS,
    },
    sessions: () => sessionBounds(resources),
    onError: (error) => log("warn", "what is old could not be removed yet", error),
  });
  const stopRollUp = startRollUp({
    db: resources.db,
    onError: (error) => log("warn", "usage could not be summed up yet", error),
  });
  const feed = createFeed({
    connection,
    after: start,
    onEvent: (event) => {
      onError.over();
      events.append(event);
      broadcast.publish(event);
      webhooks.wake();
      log("debug", "event published", { id: event.id, code: event.code, clients: broadcast.clientCount() });
    },
    onPosition: (id) => tell({ type: "position", id }),
    onError: onError.report,
  });
  listenForTestEvents(connection, broadcast.publishTest, onError.report);
  tell({ type: "position", id: start });
  const sweep = () => {
    announceExpired(resources.db, resources.now()).catch((error: unknown) =>
      log("warn", "expired contracts could not be announced yet", error),
    );
    renewDueContracts(resources.db, resources.now()).catch((error: unknown) =>
      log("warn", "contracts could not be renewed yet", error),
    );
  };
  sweep();
  const expiry = setInterval(sweep, EXPIRY_MS);
  let isSweeping = false;
  const sweepTerms = async () => {
    if (isSweeping) return;
    isSweeping = true;
    await sweepDueChanges(contextOf(resources, { kind: "anonymous" })).catch((error: unknown) =>
      log("warn", "scheduled changes could not be applied yet", error),
    );
    await expireDueHolds(contextOf(resources, { kind: "anonymous" })).catch((error: unknown) =>
      log("warn", "ends of holds could not be written yet", error),
    );
    await sweepAvailability(contextOf(resources, { kind: "anonymous" })).catch((error: unknown) =>
      log("warn", "scheduled availabilities could not be carried out yet", error),
    );
    await announceEndingTrials(resources.db, resources.now()).catch((error: unknown) =>
      log("warn", "ending trials could not be announced yet", error),
    );
    await announceEndedOverrides(resources.db, resources.now()).catch((error: unknown) =>
      log("warn", "ended overrides could not be announced yet", error),
    );
    isSweeping = false;
  };
  const terms = setInterval(() => void sweepTerms(), TERMS_MS);
  opened.health.watch({
    notReady: () => (feed.age() < STALE_MS ? undefined : "events"),
    metrics: () => [
      {
        name: "faregate_events_position",
        help: "The newest event handed over.",
        type: "gauge",
        value: feed.position() ?? 0,
      },
      {
        name: "faregate_sockets",
        help: "Clients of the event channel.",
        type: "gauge",
        value: broadcast.clientCount(),
      },
      {
        name: "faregate_sockets_cut_total",
        help: "Clients cut because they did not read.",
        type: "counter",
        value: cut,
      },
      ...mailMetrics(mails),
    ],
  });
  const app = config.EVENTS_ONLY
    ? healthApplication(config, opened.health)
    : applicationOver(config, resources, { health: opened.health, log, tracing: traced?.tracing });
  await feed.started;
  return {
    broadcast,
    fetch: (request, bindings) => app.fetch(request, bindings),
    position: () => feed.position() ?? start,
    beginStop: async () => {
      await opened.health.drain();
      clearInterval(expiry);
      clearInterval(terms);
      opened.endStreams();
      await Promise.all([feed.stop(), webhooks.stop(), mails?.stop(), stopRetention(), stopRollUp()]);
    },
    close: async () => void (await Promise.all([connection.close(), opened.close(), traced?.close()])),
  };
}

/** Returns the start position: the predecessor's, unless it belongs to another database; otherwise the newest event. */
async function startOf(
  { db }: Connection,
  resumeAfter: number | undefined,
  report: (error: unknown) => void,
): Promise<number> {
  for (;;) {
    try {
      const newest = await newestEvent(db);
      return resumeAfter === undefined ? newest : Math.min(resumeAfter, newest);
    } catch (error) {
      report(error);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

async function organizationOfKey(resources: Resources, key: string, address: string, limit: number): Promise<string> {
  try {
    const caller = await identifyCaller(resources, key);
    if (caller.kind === "key") {
      refuseMove(caller.move, true);
      return caller.organizationId;
    }
  } catch (error) {
    if (error instanceof Failure && error.code === "gone") throw new HandshakeError(error.message);
    if (error instanceof Failure && error.code === "unauthenticated") {
      const failure = resources.callLimits.unknownKeyFailure(address, resources.now(), error, limit);
      throw new HandshakeError(failure.message);
    }
    throw error;
  }
  throw new HandshakeError("organizationKey must be an organization API key");
}

/** Reports a repeated problem only once per outage. */
function onceAnOutage(say: (error: unknown) => void): { report: (error: unknown) => void; over: () => void } {
  let failing = false;
  return {
    report: (error) => {
      if (!failing) say(error);
      failing = true;
    },
    over: () => (failing = false),
  };
}
