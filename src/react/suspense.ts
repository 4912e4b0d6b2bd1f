import { useCallback, useDebugValue, useSyncExternalStore } from "react";
import type { FeatureId } from "../client/feature-id.ts";
import { type FeatureReason, type FeatureState, LOADING } from "../client/feature-state.ts";
import type { TokenService } from "../client/front/token-service.ts";
import { useTokenService } from "./hooks.ts";

/** A feature without an answer, for the error boundary. */
export class FeatureUnavailableError extends Error {
  readonly featureId: string;
  readonly reason: FeatureReason;

  constructor(featureId: string, reason: FeatureReason) {
    super(`No answer for feature ${featureId}: ${reason}`);
    this.name = "FeatureUnavailableError";
    this.featureId = featureId;
    this.reason = reason;
  }
}

/** An answer: on or off. */
export type AnsweredFeature = FeatureState & { readonly status: "on" | "off" };

/**
 * As useFeature, for those who let Suspense and error boundaries show the rest: it suspends while the first token of a user is on its
 * way. It asks for nothing itself, and all features come with one token, so any number of them wait once. The provider, and whoever calls
 * `setUserId`, must be outside of the Suspense boundary: React forgets what is inside while it waits. On the server it renders with
 * `initialToken`, and without one leaves the boundary to the browser. @throws FeatureUnavailableError
 */
export function useSuspenseFeature(id: FeatureId): AnsweredFeature {
  const tokens = useTokenService();
  const subscribe = useCallback(
    (listener: () => void) => {
      settled.add(tokens);
      return tokens.subscribe(listener);
    },
    [tokens],
  );
  const state = useSyncExternalStore(
    subscribe,
    () => {
      const now = tokens.getFeature(id);
      return now.reason === "no-token" && isPending(tokens) ? LOADING : now;
    },
    () => {
      const initial = tokens.getInitialFeature(id);
      // Here no token will ever come, and a promise would keep the server's stream open for it.
      if (initial.status === "loading") throw new FeatureUnavailableError(id, "no-token");
      return initial;
    },
  );
  useDebugValue(state);
  if (state.status === "loading") throw nextAnswer(tokens);
  if (isAnswered(state)) return state;
  throw new FeatureUnavailableError(id, state.reason ?? "bad-entry");
}

function isAnswered(state: FeatureState): state is AnsweredFeature {
  return state.status === "on" || state.status === "off";
}

/** Those below whose provider effects have run: whoever wanted to ask for a token has. */
const settled = new WeakSet<TokenService>();
/** One promise per token service, shared by all features and retries. */
const waiting = new WeakMap<TokenService, Promise<void>>();

function isPending(tokens: TokenService): boolean {
  return tokens.status === "loading" || (tokens.status === "none" && !settled.has(tokens));
}

/** Resolves when there is something else than loading to be shown. */
function nextAnswer(tokens: TokenService): Promise<void> {
  let wait = waiting.get(tokens);
  if (wait === undefined) {
    // Subscribing only then: a provider whose render was thrown away never mounts, and would be listened to for ever.
    wait = tokens.mounted.then(
      () =>
        new Promise((resolve) => {
          settled.add(tokens);
          const stop = tokens.subscribe(() => look());
          const look = () => {
            if (isPending(tokens)) return;
            stop();
            waiting.delete(tokens);
            resolve();
          };
          look();
        }),
    );
    waiting.set(tokens, wait);
  }
  return wait;
}
