import { useState } from "react";

/** Submits a form of a signed-out visitor. Pages behind the sign-in use queries.ts, which is too large to load here. */
export function useSubmit(send: () => Promise<void>): { submit: () => void; isPending: boolean; error: Error | null } {
  const [isPending, setIsPending] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const submit = async () => {
    setIsPending(true);
    setError(null);
    try {
      await send();
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    }
    setIsPending(false);
  };
  return { submit: () => void submit(), isPending, error };
}
