import { useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState, type ReactNode } from "react";
import type { LoggedEvent } from "./answers.ts";
import { addressOf, partsOf } from "./api.ts";
import { useHere } from "./here.tsx";

const RETRY_MS = 3000;
const KEPT = 200;
/** Covers the whole seconds of the Date header, and a database whose clock is behind the server's. */
const CLOCK_MARGIN_MS = 2000;

/** The part of the event log that this tab has received. */
export interface Stream {
  state: "connecting" | "live" | "off";
  /** Newest first. */
  events: readonly LoggedEvent[];
  /** True when requested older events are no longer available. */
  isCut: boolean;
}

const NOTHING_YET: Stream = { state: "connecting", events: [], isCut: false };
const StreamContext = createContext<Stream | undefined>(undefined);

/** Returns the organization's events, newest first; throws outside its pages. */
export function useStream(): Stream {
  const stream = useContext(StreamContext);
  if (stream === undefined) throw new Error("no event stream around this part");
  return stream;
}

/**
 * Follows the organization's event log over Server-Sent Events and invalidates stale queries. It uses fetch because
 * EventSource hides why a stream ended. It starts with the events that the server still keeps, and resumes after the last
 * received one. Events from long before the first connection invalidate nothing: the page loads its data after them.
 * Hidden tabs disconnect: browsers open only six connections per server, shared by all tabs.
 */
export function StreamProvider({ children }: { children: ReactNode }) {
  const { organization } = useHere();
  const queries = useQueryClient();
  const [stream, setStream] = useState<Stream>(NOTHING_YET);
  useEffect(() => {
    let connection: AbortController | undefined;
    let lastEventId = 0;
    const startedAt = performance.now();
    let freshFrom: number | undefined;
    const base = `/organizations/${organization.id}`;
    setStream(NOTHING_YET);
    const listener: Listener = {
      onState: (state) => setStream((before) => ({ ...before, state })),
      onOpen: (serverTime) => (freshFrom ??= serverTime - (performance.now() - startedAt) - CLOCK_MARGIN_MS),
      onLost: () => setStream((before) => ({ ...before, isCut: true })),
      onPosition: (id) => (lastEventId = id),
      onEvent: (event) => {
        setStream((before) => ({ ...before, events: [event, ...before.events].slice(0, KEPT) }));
        if (Date.parse(event.createdAt) < (freshFrom ?? 0)) return;
        void queries.invalidateQueries({ predicate: ({ queryKey: [to] }) => isOld(to, base, event) });
      },
    };
    const connect = () => {
      connection?.abort();
      if (document.hidden) return;
      connection = new AbortController();
      const { signal } = connection;
      void follow({ organizationId: organization.id, signal, position: () => lastEventId }, listener);
    };
    connect();
    document.addEventListener("visibilitychange", connect);
    return () => {
      document.removeEventListener("visibilitychange", connect);
      connection?.abort();
    };
  }, [organization.id, queries]);
  return <StreamContext.Provider value={stream}>{children}</StreamContext.Provider>;
}

function isOld(to: unknown, base: string, { code }: LoggedEvent): boolean {
  if (typeof to !== "string" || !to.startsWith(`${base}/`)) return false;
  const rest = to.slice(base.length);
  if (rest === "/overview" || (code.startsWith("BLOCK") && rest === "/blocks")) return true;
  return /^(PRICING|SERVICE)/.test(code) ? /^\/(services|contracts)/.test(rest) : rest.startsWith("/contracts");
}

interface Listener {
  onState(state: Stream["state"]): void;
  /** Receives the server's clock, in milliseconds: this browser's may differ. NaN without a Date header. */
  onOpen(serverTime: number): void;
  onLost(): void;
  onPosition(id: number): void;
  onEvent(event: LoggedEvent): void;
}

async function follow(
  source: { organizationId: string; signal: AbortSignal; position: () => number },
  listener: Listener,
): Promise<void> {
  while (!source.signal.aborted) {
    listener.onState("connecting");
    try {
      const response = await fetch(addressOf("/events/stream", { organizationId: source.organizationId }), {
        headers: { "last-event-id": String(source.position()) },
        signal: source.signal,
      });
      if (response.status === 401 || response.status === 403) return listener.onState("off");
      if (!response.ok || response.body === null) throw new Error(String(response.status));
      listener.onOpen(Date.parse(response.headers.get("date") ?? ""));
      listener.onState("live");
      for await (const block of partsOf(response.body, "\n\n")) {
        const { id, event, data } = readBlock(block);
        if (id !== undefined) listener.onPosition(id);
        if (event === "resync") listener.onLost();
        else if (data !== undefined) listener.onEvent(data);
      }
    } catch {
      // Reconnect after any failure, from the last received event.
    }
    if (!source.signal.aborted) {
      listener.onState("off");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  return undefined;
}

function readBlock(block: string): { id?: number; event?: string; data?: LoggedEvent } {
  const fields = new Map(
    block.split("\n").map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
    }),
  );
  const [id, event, data] = [fields.get("id"), fields.get("event"), fields.get("data")];
  return {
    ...(id === undefined ? {} : { id: Number(id) }),
    ...(event === undefined ? {} : { event }),
    ...(data === undefined ? {} : { data: JSON.parse(data) as LoggedEvent }),
  };
}
