import { createContext, useContext, useMemo, useState, type ReactNode } from "react";
import type { SignedIn } from "./answers.ts";
import { onKeyLost } from "./api.ts";

const STORED = "faregate-session";

/** The signed-in user, with the moment of signing in. */
type StoredUser = SignedIn & { since?: string };

interface Session {
  user: StoredUser | undefined;
  /** True when the server rejected the key and thereby ended the session. */
  ended: boolean;
  signIn(user: SignedIn, remember: boolean): void;
  signOut(): void;
  /** Keeps the user and replaces the key. */
  replaceKey(apiKey: string): void;
}

const SessionContext = createContext<Session | undefined>(undefined);

/** Provides the session, stored per tab, or in localStorage if the user chose "remember". */
export function SessionProvider({ children }: { children: ReactNode }) {
  const [user, setUser] = useState(readStored);
  const [ended, setEnded] = useState(false);
  const session = useMemo<Session>(() => {
    const leave = (byItself: boolean) => {
      sessionStorage.removeItem(STORED);
      localStorage.removeItem(STORED);
      setUser(undefined);
      setEnded(byItself);
    };
    onKeyLost.current = () => leave(true);
    const store = (next: StoredUser, remember: boolean) => {
      // Another user's older session must not come back when the tab is closed.
      (remember ? sessionStorage : localStorage).removeItem(STORED);
      (remember ? localStorage : sessionStorage).setItem(STORED, JSON.stringify(next));
      setUser(next);
      setEnded(false);
    };
    return {
      user,
      ended,
      signIn: (next, remember) => store({ ...next, since: new Date().toISOString() }, remember),
      signOut: () => leave(false),
      replaceKey: (apiKey) => {
        if (user !== undefined) store({ ...user, apiKey }, localStorage.getItem(STORED) !== null);
      },
    };
  }, [user, ended]);
  return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>;
}

const storedText = (): string | null => sessionStorage.getItem(STORED) ?? localStorage.getItem(STORED);

/** True when this browser keeps a session, which the server may have ended. */
export const hasStoredSession = (): boolean => storedText() !== null;

function readStored(): StoredUser | undefined {
  const text = storedText();
  try {
    const value: unknown = JSON.parse(text ?? "null");
    const isUser = typeof value === "object" && value !== null && "apiKey" in value && "username" in value;
    return isUser ? (value as StoredUser) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the session, signed in or not. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("no session around this part");
  return session;
}

/** Returns the signed-in user; throws on pages open to visitors. */
export function useUser(): StoredUser {
  const { user } = useSession();
  if (user === undefined) throw new Error("nobody is signed in");
  return user;
}
