import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import { identifyCaller, identifySession, SESSION_ENDED } from "../../operations/access.ts";
import { addressBlock } from "../../core/access/address-block.ts";
import { followChanges } from "../../operations/messaging/change-stream.ts";
import { accountOf, type EventReader, openEventReader } from "../../operations/messaging/event-stream.ts";
import { addressOf, type AppContext, type AppEnv, context, type HttpSettings, logRequest } from "../context.ts";
import { eventStream, readFor, RETRY_MS, STREAM_HEADERS, type StreamSource } from "../event-stream.ts";
import { queryParameter } from "../params.ts";
import { sessionTokenOf } from "../session-cookie.ts";
import { createStreamPlaces, type StreamHolder, type StreamLimits } from "../stream-places.ts";

/** Default maximum of open streams per process: in total, per address, per key. */
const MAX_STREAMS = 1000;
const MAX_PER_ADDRESS = 50;
const MAX_PER_KEY = 100;
const HEARTBEAT_MS = 15_000;
/** Interval at which a stream of changes checks its key while there are no beats. */
const KEY_CHECK_MS = 500;
/** Default time after which an unread stream is closed. */
const MAX_STALL_MS = 30_000;

interface StreamOptions {
  maxStreams?: number;
  heartbeatMs?: number;
}

/**
 * The event log as Server-Sent Events. Ids are those of the outbox, and `Last-Event-ID` resumes. A comment every 15 s
 * keeps proxies from closing it. The event `resync` reports that earlier events are gone. With `changes=true` the stream
 * reports changed contracts instead.
 */
export function streamRoutes(options: StreamOptions = {}): Hono<AppEnv> {
  const places = createStreamPlaces();
  return new Hono<AppEnv>().get("/events/stream", async (c) => {
    const open = queryParameter(c, "changes") === "true" ? changeSource(c) : logSource(c, options);
    const closed = new AbortController();
    try {
      const leave = places.take(await holderOf(c), limitsOf(options, c.get("server").settings));
      closed.signal.addEventListener("abort", leave, { once: true });
      const source = await open(closed.signal);
      // The body of a HEAD request is neither read nor cancelled, so its place would never be freed.
      if (c.req.method === "HEAD") {
        closed.abort();
        return c.body(null, 200, STREAM_HEADERS);
      }
      const body = eventStream(source, {
        closed,
        stopping: c.var.resources.stopping,
        maxStallMs: c.get("server").settings.maxStreamStallMs ?? MAX_STALL_MS,
        onError: (error) => logRequest(c, "warn", "an event stream failed to read", error),
      });
      return c.body(body, 200, STREAM_HEADERS);
    } catch (error) {
      closed.abort();
      throw error;
    }
  });
}

/** Opens a source, once the stream has a place. The signal aborts when the stream is closed. */
type OpenSource = (closed: AbortSignal) => Promise<StreamSource>;

/** Returns the caller of the request's key or session now: a stream ends when it is deleted or expires. */
function currentCaller(c: AppContext) {
  const { resources, caller } = c.var;
  const key = c.req.header("x-api-key");
  const token = caller.kind === "user" && caller.sessionId !== undefined ? sessionTokenOf(c) : undefined;
  if (token === undefined) return async () => identifyCaller(resources, key);
  return async () => {
    const current = await identifySession(resources, token);
    if (current === undefined) throw new Failure("unauthenticated", SESSION_ENDED);
    return current;
  };
}

function logSource(c: AppContext, { heartbeatMs = HEARTBEAT_MS }: StreamOptions): OpenSource {
  const lastEventId = eventIdOf(c.req.header("last-event-id") ?? queryParameter(c, "lastEventId"));
  const callerNow = currentCaller(c);
  return async () => {
    const reader = await openEventReader(context(c), {
      organizationId: queryParameter(c, "organizationId"),
      lastEventId,
    });
    return {
      // Clients store an id without data, but do not dispatch an event.
      first: `retry: ${RETRY_MS}\nid: ${reader.position()}\n\n`,
      next: async (signal) => {
        const page = await readFor(heartbeatMs, signal, reader.next);
        // Also when the membership ends.
        await reader.recheck(await callerNow());
        return textOf(page);
      },
    };
  };
}

function changeSource(c: AppContext): OpenSource {
  const callerNow = currentCaller(c);
  return async (closed) => {
    const reader = followChanges(context(c));
    closed.addEventListener("abort", reader.close, { once: true });
    return {
      first: `retry: ${RETRY_MS}\n\n`,
      next: async (signal) => {
        await readFor(KEY_CHECK_MS, signal, reader.wait);
        // Before taking messages, which a failed check would lose.
        reader.recheck(await callerNow());
        const messages = reader.take();
        if (messages.length === 0) return ":\n\n";
        return messages.map(({ event, data }) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
      },
    };
  };
}

function limitsOf(options: StreamOptions, settings: HttpSettings): StreamLimits {
  return {
    total: options.maxStreams ?? settings.maxStreams ?? MAX_STREAMS,
    perAddress: settings.maxStreamsPerAddress ?? MAX_PER_ADDRESS,
    perKey: settings.maxStreamsPerKey ?? MAX_PER_KEY,
  };
}

/** Returns the opener of a stream: a key or an address. */
async function holderOf(c: Parameters<typeof context>[0]): Promise<StreamHolder> {
  const { caller } = c.var;
  if (caller.kind === "anonymous") return { address: addressBlock(addressOf(c)) };
  const accountId = await accountOf(context(c), caller);
  return { keyId: caller.kind === "key" ? caller.keyId : caller.id, accountId };
}

function eventIdOf(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new Failure("invalid", "INVALID DATA: Last-Event-ID must be the id of an event");
}

/** Returns the events of a page as text, or a heartbeat without events. */
function textOf({ events, lost, position }: Awaited<ReturnType<EventReader["next"]>>): string {
  if (lost) return `event: resync\nid: ${position}\ndata: {"id":${position}}\n\n`;
  if (events.length === 0) return `:\nid: ${position}\n\n`;
  return events
    .map(({ id, code, details, createdAt }) => {
      const data = JSON.stringify({ id, code, details, createdAt });
      return `id: ${id}\ndata: ${data}\n\n`;
    })
    .join("");
}
