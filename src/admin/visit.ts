import type { Visit } from "./answers.ts";

/*
 * Asks who is signed in, and how people sign in here. The first page's chunks load meanwhile, so this file imports none of
 * them. The session itself is in a cookie that no script can read.
 */

/** Remembers that a user was signed in, so that the next visit loads the first page at once. */
const STORED = "faregate-was-signed-in";

export const wasSignedIn = (): boolean => localStorage.getItem(STORED) !== null;

export function rememberSignIn(isSignedIn: boolean): void {
  if (isSignedIn) localStorage.setItem(STORED, "true");
  else localStorage.removeItem(STORED);
}

let asked: Promise<Visit | undefined> | undefined;

/** Returns the visit, read once per page. Undefined if the server cannot be reached. */
export function readVisit(): Promise<Visit | undefined> {
  asked ??= fetch(new URL("../api/v1/auth/methods", document.baseURI)).then(
    async (answer) => (answer.ok ? ((await answer.json()) as Visit) : undefined),
    () => undefined,
  );
  return asked;
}
