import {
  keepPreviousData,
  useMutation,
  useQuery,
  useQueryClient,
  type UseMutationResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { call, type Call, callWithHeaders, Refused } from "./api.ts";
import { useTell } from "./design/toast.tsx";
import { texts } from "./texts.ts";

/*
 * The query cache keys responses by path and query. A change names the paths it touches, and everything below them is
 * invalidated.
 */

/** Fetches by the session; disabled while `to` is undefined. */
export function useAsk<T>(
  to: string | undefined,
  query: Call["query"] = {},
  options: { refetchInterval?: number } = {},
): UseQueryResult<T> {
  return useQuery({
    queryKey: [to, query],
    queryFn: ({ signal }) => call<T>("GET", to ?? "", { query, signal }),
    enabled: to !== undefined,
    ...options,
  });
}

/** Fetches a list with its total from X-Total-Count. The previous rows stay visible while the next load. */
export function useAskCounted<T>(
  to: string | undefined,
  query: Call["query"] = {},
): UseQueryResult<{ rows: T[]; total: number }> {
  return useQuery({
    queryKey: [to, query, "counted"],
    queryFn: async ({ signal }) => {
      const { body, headers } = await callWithHeaders<T[]>("GET", to ?? "", { query, signal });
      return { rows: body, total: Number(headers.get("x-total-count") ?? body.length) };
    },
    enabled: to !== undefined,
    placeholderData: keepPreviousData,
  });
}

/** crypto.randomUUID exists on https and localhost only. */
const randomKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const isBelow = (to: string, prefix: string): boolean => to === prefix || to.startsWith(`${prefix}/`);

/** Returns a function that invalidates everything below `prefixes`, except below `gone`. */
export function useRefresh(): (prefixes: readonly string[], gone?: string) => void {
  const queries = useQueryClient();
  return (prefixes, gone) => {
    void queries.invalidateQueries({
      predicate: ({ queryKey: [to] }) =>
        typeof to === "string" &&
        // The overview counts across all paths.
        (to.endsWith("/overview") || prefixes.some((prefix) => isBelow(to, prefix))) &&
        (gone === undefined || !isBelow(to, gone)),
    });
  };
}

/**
 * Returns a function for a write whose answer was lost: it reloads everything below `prefixes`, and returns an error that
 * says whether something changed there.
 */
function useLostWrite(): (prefixes: readonly string[]) => Promise<Error> {
  const queries = useQueryClient();
  return async (prefixes) => {
    const shown = queries
      .getQueryCache()
      .findAll({ type: "active" })
      .filter(({ queryKey: [to] }) => typeof to === "string" && prefixes.some((prefix) => isBelow(to, prefix)));
    const textOf = () => JSON.stringify(shown.map(({ state }) => state.data));
    const before = textOf();
    try {
      await Promise.all(shown.map(async (query) => queries.fetchQuery({ ...query.options, staleTime: 0 } as never)));
    } catch {
      return new Error(texts.errors.lostAndUnknown);
    }
    return new Error(textOf() === before ? texts.errors.lostAndUnchanged : texts.errors.lostAndChanged);
  };
}

/**
 * Runs a change, invalidates the paths in `touches`, and shows the message of `done`. Callers display errors.
 * `attempt` is the idempotency key: it stays the same while a change with equal input is retried. A change with equal
 * input that is in flight is not sent again: the second click of a double click precedes the busy button.
 */
export function useChange<Input = undefined, T = unknown>(options: {
  change: (input: Input, attempt: string) => Promise<T>;
  touches: (input: Input) => readonly string[];
  /** Path that the change deletes: it must not be refetched while its page is still mounted. */
  gone?: string | undefined;
  done?: (answer: T, input: Input) => string | undefined;
  /** Returns the input of the true inverse, which the message then offers for 8 seconds. */
  undo?: (answer: T, input: Input) => Input | undefined;
  after?: (answer: T, input: Input) => void;
}): UseMutationResult<T, Error, Input> {
  const refresh = useRefresh();
  const settle = useLostWrite();
  const tell = useTell();
  const attempt = useRef({ input: "", key: "" });
  const inFlight = useRef(new Set<string>());
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => void (isShown.current = false);
  }, []);
  const change = useMutation<T, Error, Input>({
    mutationFn: async (input: Input) => {
      const text = textOf(input);
      if (attempt.current.key === "" || attempt.current.input !== text)
        attempt.current = { input: text, key: randomKey() };
      try {
        return await options.change(input, attempt.current.key);
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 0) throw error;
        tell(error.message);
        const outcome = await settle(options.touches(input));
        // The form that would show the error may be gone after the reload.
        tell(outcome.message);
        throw outcome;
      }
    },
    onSuccess: (answer, input) => {
      attempt.current = { input: "", key: "" };
      refresh(options.touches(input), options.gone);
      const sentence = options.done?.(answer, input);
      const inverse = options.undo?.(answer, input);
      if (sentence !== undefined) tell(sentence, inverse === undefined ? undefined : () => change.mutate(inverse));
      options.after?.(answer, input);
    },
    onError: (error) => {
      // The form that would show the refusal was closed.
      if (!isShown.current && error instanceof Refused) tell(error.message);
    },
    onSettled: (_answer, _error, input) => void inFlight.current.delete(textOf(input)),
  });
  const mutate: typeof change.mutate = (...input) => {
    const text = textOf(input[0]);
    if (inFlight.current.has(text)) return;
    inFlight.current.add(text);
    change.mutate(...input);
  };
  return { ...change, mutate };
}

const textOf = (input: unknown): string => JSON.stringify(input) ?? "";
