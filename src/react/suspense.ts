import { useCallback, useDebugValue, useSyncExternalStore } from "react";
import type { FeatureId } from "../client/feature-id.ts";
import { type AnsweredFeature, type FeatureReason, LOADING } from "../client/feature-state.ts";
import type { TokenService } from "../client/front/token-service.ts";
import { useTokenService } from "./hooks.ts";

/** Error of a feature without an answer, for error boundaries. */
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

/**
 * Like useFeature, but suspends while the first token of a user loads, and throws without an answer. Requests nothing
 * itself, so any number of features wait once for one token. The provider, and the component that calls `setUserId`,
 * must be outside the Suspense boundary, because React discards its content while it waits. On the server it renders
 * with `initialToken`; without one, the browser renders the boundary.
 * @throws FeatureUnavailableError
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
      // No token will ever arrive here, and a promise would keep the server's stream open.
      if (initial.status === "loading") throw new FeatureUnavailableError(id, "no-token");
      return initial;
    },
  );
  useDebugValue(state);
  if (state.status === "loading") throw nextAnswer(tokens);
  if (state.status === "error") throw new FeatureUnavailableError(id, state.reason);
  return state;
}

/** Token services whose provider effects have run: every component has had its chance to request a token. */
const settled = new WeakSet<TokenService>();
/** One promise per token service, shared by all features and retries. */
const waiting = new WeakMap<TokenService, Promise<void>>();

function isPending(tokens: TokenService): boolean {
  return tokens.status === "loading" || (tokens.status === "none" && !settled.has(tokens));
}

/** Resolves when the answer is no longer loading. */
function nextAnswer(tokens: TokenService): Promise<void> {
  let wait = waiting.get(tokens);
  if (wait === undefined) {
    // Subscribes only then: a provider whose render was discarded never mounts, and its listener would leak.
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
