import { createContext, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import type { SignedInUser, Visit } from "./answers.ts";
import { call, onSessionEnded } from "./api.ts";
import { onSignInElsewhere, rememberSignIn } from "./visit.ts";

interface Session {
  /** How people sign in here; undefined if the server could not be reached. */
  methods: Visit | undefined;
  user: SignedInUser | undefined;
  /** True when the server ended the session: the page stays, and asks to sign in again. */
  ended: boolean;
  signIn(username: string, password: string): Promise<void>;
  signOut(): Promise<void>;
  /** Shows a changed address without a new visit; null removes it. */
  setEmail(email: string | null): void;
}

const SessionContext = createContext<Session | undefined>(undefined);

/** Provides the session to the console. */
export function SessionProvider({ visit, children }: { visit: Visit | undefined; children: ReactNode }) {
  const [user, setUser] = useState(visit?.user ?? undefined);
  const [ended, setEnded] = useState(false);
  const session = useMemo<Session>(() => {
    onSessionEnded.current = () => setEnded(user !== undefined);
    return {
      methods: visit,
      user,
      ended,
      signIn: async (username, password) => {
        const { user: next } = await call<{ user: SignedInUser }>("POST", "/sessions", {
          body: { username, password },
        });
        rememberSignIn(next.id);
        setUser(next);
        setEnded(false);
      },
      signOut: async () => {
        // Once this user's session has ended, the cookie may be another user's.
        if (!ended) await call("DELETE", "/sessions/current").catch(() => {});
        rememberSignIn(undefined);
        setUser(undefined);
        setEnded(false);
      },
      setEmail: (email) =>
        setUser((known) => {
          if (known === undefined) return known;
          const { email: _, ...rest } = known;
          return email === null ? rest : { ...rest, email };
        }),
    };
  }, [visit, user, ended]);
  useEffect(() => rememberSignIn(user?.id), [user]);
  // All tabs share one cookie: calls of this page would be the other user's.
  useEffect(() => onSignInElsewhere((userId) => setEnded(user !== undefined && userId !== user.id)), [user]);
  useEffect(() => {
    if (!ended || user === undefined) return undefined;
    // A tab of the provider, or another one of the console, may have begun a session.
    const check = async () => {
      const now = await call<Visit>("GET", "/auth/methods").catch(() => undefined);
      if (now?.user?.id === user.id) setEnded(false);
    };
    const onFocus = () => void check();
    addEventListener("focus", onFocus);
    return () => removeEventListener("focus", onFocus);
  }, [ended, user]);
  return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>;
}

/** Returns the session, signed in or not. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("no session around this part");
  return session;
}

/** Returns the signed-in user; throws on pages open to visitors. */
export function useUser(): SignedInUser {
  const { user } = useSession();
  if (user === undefined) throw new Error("nobody is signed in");
  return user;
}
