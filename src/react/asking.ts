import { useCallback, useContext, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type * as Requests from "../client/ask.ts";
import type { ServiceClient } from "../client/front/service-client.ts";
import { ServiceContext } from "./context.ts";

/**
 * An answer that a component asks for, and asks for again when it may have changed. `Idle` is `never` for questions that
 * are always asked.
 */
export interface Asked<T, Idle> {
  readonly status: Idle | "loading" | "ready" | "error";
  readonly answer: T | null;
  readonly error: Error | null;
  /** Asks again. */
  reload(): void;
}

/** One question. Equal `key`s are equal questions. */
export interface Question<T> {
  /** Name of the hook, for its errors. */
  hook: string;
  key: readonly unknown[];
  /** True: there is nothing to ask now, and the status is `idle`. */
  isIdle?: boolean;
  /** Replaces asking the service. */
  source: (() => Promise<T>) | undefined;
  /** The answer of the first render, which is not asked for. */
  initial?: T | undefined;
  /** Asks the service about the current user, if there is one. `requests` is loaded for the first question. */
  ask(requests: typeof Requests, client: ServiceClient, userId: string | undefined): Promise<T>;
}

const never = () => () => {};
const PRICING_EVENTS = [
  "pricing_created",
  "pricing_archived",
  "pricing_activated",
  "service_disabled",
  "synchronized",
] as const;

/**
 * Asks again for another question or user, after token updates and pricing events. Of several answers the last asked
 * counts. An answer stays while it is asked for again, unless the user is another one.
 */
export function useAsked<T, Idle extends "idle" = never>(question: Question<T>): Asked<T, Idle> {
  const context = useContext(ServiceContext);
  const { hook, key, isIdle, source, initial } = question;
  if (context === null && source === undefined && initial === undefined)
    throw new Error(`${hook} must be used within a ServiceProvider`);
  const tokens = context?.tokenService;
  const client = context?.client;
  // A token, the user without one, or undefined while a token loads: the user may still change.
  const token = useSyncExternalStore(
    tokens?.subscribe ?? never,
    () => (tokens?.status === "loading" ? undefined : (tokens?.getPayload() ?? tokens?.userId ?? null)),
    () => null,
  );
  const userId = tokens?.userId;
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((last) => last + 1), []);
  const about = JSON.stringify([userId, key]);
  const [state, setState] = useState<{ about: string; answer: T | null; error: unknown }>({
    about,
    answer: initial ?? null,
    error: null,
  });
  const latest = useRef(question);
  useEffect(() => {
    latest.current = question;
  });
  // The initial answer is that of the first user and question.
  const known = useRef(initial === undefined ? undefined : { about, token, round });
  useEffect(() => {
    if (isIdle || token === undefined) return;
    const first = known.current;
    if (first?.about === about && first.token === token && first.round === round) return;
    known.current = undefined;
    let isLatest = true;
    const run = async () => {
      // The components' own effects may set a user.
      await tokens?.mounted;
      if (!isLatest) return;
      const { source: from, ask } = latest.current;
      try {
        if (!from && !client) throw new Error(`${hook} needs a source: connecting is not allowed`);
        const answer = from
          ? await from()
          : client
            ? await ask(await import("../client/ask.ts"), client, userId)
            : null;
        if (isLatest) setState({ about, answer, error: null });
      } catch (error) {
        if (isLatest) setState((last) => ({ about, answer: last.about === about ? last.answer : null, error }));
      }
    };
    void run();
    return () => {
      isLatest = false;
    };
  }, [hook, about, userId, token, round, tokens, client, isIdle]);
  useEffect(() => {
    for (const event of PRICING_EVENTS) client?.on(event, reload);
    return () => client?.off(undefined, reload);
  }, [client, reload]);
  if (isIdle) return { status: "idle" as Idle, answer: null, error: null, reload };
  const { answer, error } = state.about === about ? state : { answer: null, error: null };
  // Clients reject with errors; a source should.
  return { status: answer ? "ready" : error ? "error" : "loading", answer, error: error as Error | null, reload };
}
