import { Hono } from "hono";
import { Failure } from "../../operations/errors.ts";
import { identifyCaller } from "../../operations/access.ts";
import { type EventReader, openEventReader } from "../../operations/event-stream.ts";
import { type AppEnv, context, queryParameter, tell } from "../route.ts";

/** A process gives this many at once; who is turned away comes back. */
const MAX_STREAMS = 1000;
const HEARTBEAT_MS = 15_000;
/** A client that takes nothing for so long is given up, where the operator has not said otherwise. */
const MAX_STALL_MS = 30_000;
const RETRY_MS = 1000;

interface StreamOptions {
  maxStreams?: number;
  heartbeatMs?: number;
}

/**
 * The event log as Server-Sent Events: ids are those of the outbox, `Last-Event-ID` is where it goes on, a comment every
 * 15 s keeps proxies from closing it. An event `resync` says that events before its id are gone.
 */
export function streamRoutes(options: StreamOptions = {}): Hono<AppEnv> {
  const { heartbeatMs = HEARTBEAT_MS } = options;
  let open = 0;
  return new Hono<AppEnv>().get("/events/stream", async (c) => {
    const lastEventId = eventIdOf(c.req.header("last-event-id") ?? queryParameter(c, "lastEventId"));
    if (open >= (options.maxStreams ?? c.get("server").settings.maxStreams ?? MAX_STREAMS)) {
      throw new Failure("unavailable", "Too many event streams are open. Please try again", { retryAfterSeconds: 5 });
    }
    open += 1;
    const closed = new AbortController();
    closed.signal.addEventListener("abort", () => (open -= 1), { once: true });
    try {
      const reader = await openEventReader(context(c), {
        organizationId: queryParameter(c, "organizationId"),
        lastEventId,
      });
      const { resources } = c.var;
      const key = c.req.header("x-api-key");
      const body = streamOf(reader, {
        // A key that is deleted, or over, and a membership that is lost, end what was opened with them.
        recheck: async () => reader.recheck(await identifyCaller(resources, key)),
        closed,
        stopping: resources.stopping,
        heartbeatMs,
        maxStallMs: c.get("server").settings.maxStreamStallMs ?? MAX_STALL_MS,
        onError: (error) => tell(c, "warn", "a stream cannot read the outbox for now", error),
      });
      return c.body(body, 200, {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
      });
    } catch (error) {
      closed.abort();
      throw error;
    }
  });
}

function eventIdOf(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new Failure("invalid", "INVALID DATA: Last-Event-ID must be the id of an event");
}

/** Reads only as fast as the client does: nothing is kept for one that does not. */
function streamOf(
  reader: EventReader,
  options: {
    closed: AbortController;
    stopping: AbortSignal | undefined;
    /** Failure unauthenticated, forbidden or notFound when the caller may not read on. */
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
        // An id alone is remembered by the client and is no event.
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
          controller.error(new Error("the client does not read its stream"));
        }, options.maxStallMs);
        return undefined;
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** The next events as text, or a heartbeat when there are none for a while. */
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
