import type { SignedIn } from "./answers.ts";

const STORED = "faregate-session";

/** The signed-in user, with the moment of signing in. */
export type StoredUser = SignedIn & { since?: string };

const storedText = (): string | null => sessionStorage.getItem(STORED) ?? localStorage.getItem(STORED);

/** True when this browser keeps a session, which the server may have ended. */
export const hasStoredSession = (): boolean => storedText() !== null;

export const isRemembered = (): boolean => localStorage.getItem(STORED) !== null;

export function readSession(): StoredUser | undefined {
  try {
    const value: unknown = JSON.parse(storedText() ?? "null");
    const isUser = typeof value === "object" && value !== null && "apiKey" in value && "username" in value;
    return isUser ? (value as StoredUser) : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a session for this tab, or in this browser if the user chose "remember". */
export function keepSession(user: StoredUser, remember: boolean): void {
  // Another user's older session must not come back when the tab is closed.
  (remember ? sessionStorage : localStorage).removeItem(STORED);
  (remember ? localStorage : sessionStorage).setItem(STORED, JSON.stringify(user));
}

export function forgetSession(): void {
  sessionStorage.removeItem(STORED);
  localStorage.removeItem(STORED);
}
