import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import { identifyCaller } from "../../operations/access.ts";
import { addressBlock } from "../../core/access/address-block.ts";
import { accountOf, type EventReader, openEventReader } from "../../operations/messaging/event-stream.ts";
import { addressOf, type AppEnv, context, type HttpSettings, logRequest } from "../context.ts";
import { queryParameter } from "../params.ts";
import { createStreamPlaces, type StreamHolder, type StreamLimits } from "../stream-places.ts";

/** Default maximum of open streams per process: in total, per address, per key. */
const MAX_STREAMS = 1000;
const MAX_PER_ADDRESS = 50;
const MAX_PER_KEY = 100;
const HEARTBEAT_MS = 15_000;
/** Default time after which an unread stream is closed. */
const MAX_STALL_MS = 30_000;
const RETRY_MS = 1000;
const HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-store",
  "X-Accel-Buffering": "no",
};

interface StreamOptions {
  maxStreams?: number;
  heartbeatMs?: number;
}

/**
 * The event log as Server-Sent Events. Ids are those of the outbox, and `Last-Event-ID` resumes. A comment every 15 s
 * keeps proxies from closing it. The event `resync` reports that earlier events are gone.
 */
export function streamRoutes(options: StreamOptions = {}): Hono<AppEnv> {
  const { heartbeatMs = HEARTBEAT_MS } = options;
  const places = createStreamPlaces();
  return new Hono<AppEnv>().get("/events/stream", async (c) => {
    const lastEventId = eventIdOf(c.req.header("last-event-id") ?? queryParameter(c, "lastEventId"));
    const leave = places.take(await holderOf(c), limitsOf(options, c.get("server").settings));
    const closed = new AbortController();
    closed.signal.addEventListener("abort", leave, { once: true });
    try {
      const reader = await openEventReader(context(c), {
        organizationId: queryParameter(c, "organizationId"),
        lastEventId,
      });
      // The body of a HEAD request is neither read nor cancelled, so its place would never be freed.
      if (c.req.method === "HEAD") {
        closed.abort();
        return c.body(null, 200, HEADERS);
      }
      const { resources } = c.var;
      const key = c.req.header("x-api-key");
      const body = streamOf(reader, {
        // Ends the stream when its key is deleted or expires, or the membership ends.
        recheck: async () => reader.recheck(await identifyCaller(resources, key)),
        closed,
        stopping: resources.stopping,
        heartbeatMs,
        maxStallMs: c.get("server").settings.maxStreamStallMs ?? MAX_STALL_MS,
        onError: (error) => logRequest(c, "warn", "an event stream failed to read the outbox", error),
      });
      return c.body(body, 200, HEADERS);
    } catch (error) {
      closed.abort();
      throw error;
    }
  });
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

/** Reads only as fast as the client, so that nothing is buffered for a slow one. */
function streamOf(
  reader: EventReader,
  options: {
    closed: AbortController;
    stopping: AbortSignal | undefined;
    /** Throws Failure unauthenticated, forbidden or notFound when the caller may no longer read. */
    recheck: () => Promise<void>;
    heartbeatMs: number;
    maxStallMs: number;
    onError: (error: unknown) => void;
  },
): ReadableStream<Uint8Array> {
  const { closed, stopping } = options;
  const encoder = new TextEncoder();
  let stalled: ReturnType<typeof setTimeout> | undefined;
  const end = () => {
    clearTimeout(stalled);
    stopping?.removeEventListener("abort", end);
    closed.abort();
  };
  stopping?.addEventListener("abort", end);
  if (stopping?.aborted === true) end();
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        // Clients store an id without data, but do not dispatch an event.
        controller.enqueue(encoder.encode(`retry: ${RETRY_MS}\nid: ${reader.position()}\n\n`));
      },
      pull: async (controller) => {
        clearTimeout(stalled);
        const text = await nextText(reader, closed.signal, options).catch((error: unknown) => {
          if (error instanceof Failure && error.code !== "unavailable") {
            end();
            return "";
          }
          options.onError(error);
          return pauseThenBeat(closed.signal);
        });
        if (closed.signal.aborted) return controller.close();
        controller.enqueue(encoder.encode(text));
        stalled = setTimeout(() => {
          end();
          controller.error(new Error("the client stopped reading its stream"));
        }, options.maxStallMs);
        return undefined;
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** Returns the next events as text, or a heartbeat after a while without events. */
async function nextText(
  reader: EventReader,
  closed: AbortSignal,
  { heartbeatMs, recheck }: { heartbeatMs: number; recheck: () => Promise<void> },
): Promise<string> {
  const turn = new AbortController();
  const over = () => turn.abort();
  const beat = setTimeout(over, heartbeatMs);
  if (closed.aborted) over();
  closed.addEventListener("abort", over);
  try {
    const { events, lost, position } = await reader.next(turn.signal);
    await recheck();
    if (lost) return `event: resync\nid: ${position}\ndata: {"id":${position}}\n\n`;
    if (events.length === 0) return `:\nid: ${position}\n\n`;
    return events
      .map(({ id, code, details, createdAt }) => {
        const data = JSON.stringify({ id, code, details, createdAt });
        return `id: ${id}\ndata: ${data}\n\n`;
      })
      .join("");
  } finally {
    clearTimeout(beat);
    closed.removeEventListener("abort", over);
  }
}

async function pauseThenBeat(closed: AbortSignal): Promise<string> {
  if (!closed.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  return ":\n\n";
}
