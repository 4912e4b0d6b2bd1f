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
 * Every answer is remembered under its path and query, so a change says which paths it touches and all of them are asked
 * anew.
 */

/** Asks with the user's key; not yet while `to` is undefined. */
export function useAsk<T>(to: string | undefined, query: Call["query"] = {}): UseQueryResult<T> {
  const { apiKey } = useUser();
  return useQuery({
    queryKey: [to, query],
    queryFn: ({ signal }) => call<T>("GET", to ?? "", { key: apiKey, query, signal }),
    enabled: to !== undefined,
  });
}

/** As useAsk, the last answer staying while the next one comes, with the number of matches that the header X-Total-Count tells. */
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

/** Returns a function that has everything below these paths asked anew, except below what is gone. */
export function useRefresh(): (prefixes: readonly string[], gone?: string) => void {
  const queries = useQueryClient();
  return (prefixes, gone) => {
    void queries.invalidateQueries({
      predicate: ({ queryKey: [to] }) =>
        typeof to === "string" &&
        // The overview counts of everything.
        (to.endsWith("/overview") || prefixes.some((prefix) => isBelow(to, prefix))) &&
        (gone === undefined || !isBelow(to, gone)),
    });
  };
}

/** A change: `touches` are the paths whose answers are old afterwards, `done` what to tell. Failures are told by the page. */
export function useChange<Input, T>(options: {
  change: (input: Input, key: string) => Promise<T>;
  touches: (input: Input) => readonly string[];
  /** What is not there any more afterwards, and must not be asked again while its page is being left. */
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
