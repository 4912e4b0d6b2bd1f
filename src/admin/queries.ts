import {
  keepPreviousData,
  useMutation,
  useQuery,
  useQueryClient,
  type UseMutationResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import { call, type Call, callWithHeaders } from "./api.ts";
import { useUser } from "./session.tsx";
import { useTell } from "./parts/toast.tsx";

/*
 * The query cache keys responses by path and query. A change names the paths it touches, and everything below them is
 * invalidated.
 */

/** Fetches with the user's key; disabled while `to` is undefined. */
export function useAsk<T>(to: string | undefined, query: Call["query"] = {}): UseQueryResult<T> {
  const { apiKey } = useUser();
  return useQuery({
    queryKey: [to, query],
    queryFn: ({ signal }) => call<T>("GET", to ?? "", { key: apiKey, query, signal }),
    enabled: to !== undefined,
  });
}

/** Fetches a list with its total from X-Total-Count. The previous rows stay visible while the next load. */
export function useAskCounted<T>(
  to: string | undefined,
  query: Call["query"] = {},
): UseQueryResult<{ rows: T[]; total: number }> {
  const { apiKey } = useUser();
  return useQuery({
    queryKey: [to, query, "counted"],
    queryFn: async ({ signal }) => {
      const { body, headers } = await callWithHeaders<T[]>("GET", to ?? "", { key: apiKey, query, signal });
      return { rows: body, total: Number(headers.get("x-total-count") ?? body.length) };
    },
    enabled: to !== undefined,
    placeholderData: keepPreviousData,
  });
}

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

/** Runs a change, invalidates the paths in `touches`, and shows the message of `done`. Callers display errors. */
export function useChange<Input, T>(options: {
  change: (input: Input, key: string) => Promise<T>;
  touches: (input: Input) => readonly string[];
  /** Path that the change deletes: it must not be refetched while its page is still mounted. */
  gone?: string | undefined;
  done?: (answer: T, input: Input) => string | undefined;
  after?: (answer: T, input: Input) => void;
}): UseMutationResult<T, Error, Input> {
  const { apiKey } = useUser();
  const refresh = useRefresh();
  const tell = useTell();
  return useMutation({
    mutationFn: (input: Input) => options.change(input, apiKey),
    onSuccess: (answer, input) => {
      refresh(options.touches(input), options.gone);
      const sentence = options.done?.(answer, input);
      if (sentence !== undefined) tell(sentence);
      options.after?.(answer, input);
    },
  });
}
