import type { Visit } from "./answers.ts";

/*
 * Asks who is signed in, and how people sign in here. The first page's chunks load meanwhile, so this file imports none of
 * them. The session itself is in a cookie that no script can read.
 */

/** Stores the signed-in user's id, so that the next visit loads the first page at once. Other tabs receive each change. */
const STORED = "faregate-was-signed-in";

export const wasSignedIn = (): boolean => localStorage.getItem(STORED) !== null;

export function rememberSignIn(userId: string | undefined): void {
  if (userId === undefined) localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, userId);
}

/** Calls back with the id of each user who signs in in another tab. Returns a function that stops it. */
export function onSignInElsewhere(callback: (userId: string) => void): () => void {
  const onStorage = ({ key, newValue }: StorageEvent) => {
    if (key === STORED && newValue !== null) callback(newValue);
  };
  addEventListener("storage", onStorage);
  return () => removeEventListener("storage", onStorage);
}

let asked: Promise<Visit | undefined> | undefined;

/** Returns the visit, read once per page. Undefined if the server cannot be reached. */
export function readVisit(): Promise<Visit | undefined> {
  asked ??= fetch(new URL("../api/v1/auth/methods", document.baseURI))
    .then(async (answer) => (answer.ok ? ((await answer.json()) as Visit) : undefined))
    // A proxy's own page is no JSON.
    .catch(() => undefined);
  return asked;
}
