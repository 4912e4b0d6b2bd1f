import { useCallback, useDebugValue, useMemo, useRef, useSyncExternalStore } from "react";
import type { FeatureId } from "../client/feature-id.ts";
import { type FeatureState, type FeatureStatus, LOADING, type Usage, usageOf } from "../client/feature-state.ts";
import type { PricingTokenPayload } from "../client/pricing-token.ts";
import type { ServiceClient } from "../client/front/service-client.ts";
import type { ConnectionState } from "../client/front/session-host.ts";
import type { TokenService } from "../client/front/token-service.ts";
import { useServiceContext } from "./context.ts";

/**
 * Returns the client, identical until the connection settings change.
 * @throws Error outside a provider or while disabled.
 */
export function useServiceClient(): ServiceClient {
  const { client } = useServiceContext("useServiceClient");
  if (client === null) {
    throw new Error("ServiceClient is not initialized: allowConnectionWithService is false");
  }
  return client;
}

/**
 * Returns the provider's token service, always the same one.
 * @throws Error outside a provider.
 */
export function useTokenService(): TokenService {
  return useServiceContext("useTokenService").tokenService;
}

/** Returns the token's payload, or null without a valid token. Renders again when it changes. */
export function usePricingTokenPayload<T = PricingTokenPayload>(): T | null {
  const tokens = useTokenService();
  return useSyncExternalStore(
    tokens.subscribe,
    () => tokens.getPayload<T>(),
    () => tokens.getInitialPayload<T>(),
  );
}

/** Returns the answer for a feature: its status, limit and usage, and the reason for a missing answer. */
export function useFeature(id: FeatureId): FeatureState {
  const state = useFeatureSnapshot(id, whole);
  useDebugValue(state);
  return state;
}

/** Returns the feature's status; renders again only when it changes. */
export function useFeatureStatus(id: FeatureId): FeatureStatus {
  return useFeatureSnapshot(id, statusOnly);
}

/** Returns a feature's usage of its tightest limit. */
export function useUsage(id: FeatureId): Usage {
  const state = useFeature(id);
  return useMemo(() => usageOf(state), [state]);
}

/** Returns the state of the event channel and its last error; `disabled` if connecting is not allowed. */
export function useConnectionStatus(): ConnectionState | typeof DISABLED {
  const { client } = useServiceContext("useConnectionStatus");
  const read = () => client?.connection ?? DISABLED;
  return useSyncExternalStore(client?.subscribeConnection ?? never, read, read);
}

const never = () => () => {};

/** State of a channel that may not connect. */
const DISABLED = { status: "disabled", error: null } as const;

const whole = (state: FeatureState) => state;
const statusOnly = (state: FeatureState) => state.status;

/**
 * Selects a part of a feature's answer. Until its own effects have run, a component without a token counts as loading,
 * so that a `setUserId` in an effect of the same commit comes before an error. React compares the snapshots right after
 * subscribing, so this causes no render unless something else is to be shown.
 */
function useFeatureSnapshot<T>(id: FeatureId, select: (state: FeatureState) => T): T {
  const tokens = useTokenService();
  const isMounted = useRef(false);
  const subscribe = useCallback(
    (listener: () => void) => {
      isMounted.current = true;
      return tokens.subscribe(listener);
    },
    [tokens],
  );
  return useSyncExternalStore(
    subscribe,
    () => {
      const state = tokens.getFeature(id);
      return select(state.reason === "no-token" && !isMounted.current ? LOADING : state);
    },
    () => select(tokens.getInitialFeature(id)),
  );
}
