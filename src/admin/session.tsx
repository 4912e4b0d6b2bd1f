import { createContext, useContext, useMemo, useState, type ReactNode } from "react";
import type { SignedIn } from "./answers.ts";
import { onKeyLost } from "./api.ts";
import { forgetSession, isRemembered, keepSession, readSession, type StoredUser } from "./stored-session.ts";

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

/** Provides the session to the console. */
export function SessionProvider({ children }: { children: ReactNode }) {
  const [user, setUser] = useState(readSession);
  const [ended, setEnded] = useState(false);
  const session = useMemo<Session>(() => {
    const leave = (byItself: boolean) => {
      forgetSession();
      setUser(undefined);
      setEnded(byItself);
    };
    onKeyLost.current = () => leave(true);
    const store = (next: StoredUser, remember: boolean) => {
      keepSession(next, remember);
      setUser(next);
      setEnded(false);
    };
    return {
      user,
      ended,
      signIn: (next, remember) => store({ ...next, since: new Date().toISOString() }, remember),
      signOut: () => leave(false),
      replaceKey: (apiKey) => {
        if (user !== undefined) store({ ...user, apiKey }, isRemembered());
      },
    };
  }, [user, ended]);
  return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>;
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
