import { useCallback, useDebugValue, useMemo, useRef, useSyncExternalStore } from "react";
import type { FeatureId } from "../client/feature-id.ts";
import { type FeatureState, type FeatureStatus, LOADING, type Usage, usageOf } from "../client/feature-state.ts";
import type { PricingTokenPayload } from "../client/pricing-token.ts";
import type { ConnectionState, ServiceClient } from "../client/front/service-client.ts";
import type { TokenService } from "../client/front/token-service.ts";
import { useServiceContext } from "./context.ts";

/** The client, the same one as long as the connection settings are. @throws Error outside a provider or while disabled. */
export function useServiceClient(): ServiceClient {
  const { client } = useServiceContext("useServiceClient");
  if (client === null) {
    throw new Error("ServiceClient is not initialized: allowConnectionWithService is false");
  }
  return client;
}

/** The provider's token service, always the same one. @throws Error outside a provider. */
export function useTokenService(): TokenService {
  return useServiceContext("useTokenService").tokenService;
}

/** The token's payload, null when there is none or it has expired; renders again when that changes. */
export function usePricingTokenPayload<T = PricingTokenPayload>(): T | null {
  const tokens = useTokenService();
  return useSyncExternalStore(
    tokens.subscribe,
    () => tokens.getPayload<T>(),
    () => tokens.getInitialPayload<T>(),
  );
}

/** The answer for a feature: whether it is on, its limit and use, and why there is no answer. */
export function useFeature(id: FeatureId): FeatureState {
  const state = useFeatureSnapshot(id, whole);
  useDebugValue(state);
  return state;
}

/** Returns the feature's status; renders again only when it changes. */
export function useFeatureStatus(id: FeatureId): FeatureStatus {
  return useFeatureSnapshot(id, statusOnly);
}

/** A feature's use against its tightest limit. */
export function useUsage(id: FeatureId): Usage {
  const state = useFeature(id);
  return useMemo(() => usageOf(state), [state]);
}

/** The state of the event channel and its last error; `disabled` where connecting is not allowed. */
export function useConnectionStatus(): ConnectionState | typeof DISABLED {
  const { client } = useServiceContext("useConnectionStatus");
  const read = () => client?.connection ?? DISABLED;
  return useSyncExternalStore(client?.subscribeConnection ?? never, read, read);
}

const never = () => () => {};

/** The state of a channel that is not allowed to connect. */
const DISABLED = { status: "disabled", error: null } as const;

const whole = (state: FeatureState) => state;
const statusOnly = (state: FeatureState) => state.status;

/**
 * Until its own effects have run, a component without a token counts as loading: a `setUserId` in an effect of the same commit is
 * then seen before an error can be shown. React compares the snapshots right after it has subscribed, so nothing renders for this
 * unless there is something else to show.
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
