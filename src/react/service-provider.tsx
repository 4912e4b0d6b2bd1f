import { type JSX, type ReactNode, useEffect, useLayoutEffect, useMemo, useState } from "react";
import { ServiceClient } from "../client/front/service-client.ts";
import { TokenService } from "../client/front/token-service.ts";
import { ServiceContext } from "./context.ts";
import { IS_DEVELOPMENT, warnOnce } from "./development.ts";

/** Connection settings of a provider. Compared field by field. Source: contract clients §1.2. */
export interface ServiceConfiguration {
  /** Absolute http(s) URL of the service, including the sub-path. Required while the connection is allowed. */
  url?: string | undefined;
  /** An EVALUATION key. Only `setUserId` and `generateUserPricingToken` need it. */
  apiKey?: string | undefined;
  /** Only the literal false forbids socket and requests. Tokens then come from `update` or `tokenSource`. */
  allowConnectionWithService?: boolean | undefined;
  /** Name of `allowConnectionWithService` in the published client. Read if that is absent. */
  allowConnectionWithSpace?: boolean | undefined;
  /** Token of the first paint, on the server and in the browser. Later changes have no effect. */
  initialToken?: string | undefined;
  /** Loads tokens from the application's own back end, again before they expire. */
  tokenSource?: (() => Promise<string>) | undefined;
}

/** A configuration, or a client of the application. The provider neither connects nor disposes of the latter. */
export type ServiceProviderProps = { children?: ReactNode } & (
  | { config: ServiceConfiguration; client?: undefined }
  | { client: ServiceClient; config?: undefined }
);

/** Provides one token service to its children and, unless forbidden, one connection. */
export function ServiceProvider({ config = {}, client: providedClient, children }: ServiceProviderProps): JSX.Element {
  const { url, apiKey, tokenSource, initialToken, allowConnectionWithSpace } = config;
  const isAllowed = !providedClient && (config.allowConnectionWithService ?? allowConnectionWithSpace) !== false;
  // Constructing has no side effect, so rendering twice or discarding a render costs nothing.
  const make = (token: TokenService) =>
    // A required but missing address is rejected like a wrong one.
    new ServiceClient({ url: isAllowed ? (url ?? "") : undefined, apiKey, tokenSource }, token);
  const [own, setOwn] = useState(() => make(new TokenService(initialToken)));
  let client = providedClient ?? own;
  // While connecting is forbidden, the client of the last permitted address stays, with its user and listeners.
  if (isAllowed && (url !== own.options.url || apiKey !== own.options.apiKey)) {
    client = make(own.token);
    setOwn(client);
  }
  const tokenService = client.token;
  if (IS_DEVELOPMENT && initialToken !== undefined && tokenService.getInitialPayload() === null) {
    warnOnce("config.initialToken is not a pricing token and is ignored.");
  }

  // Layout effects do not exist on the server, where React 18 warns about them.
  const useBrowserLayoutEffect = typeof document === "object" ? useLayoutEffect : useEffect;
  useBrowserLayoutEffect(() => {
    if (providedClient) return;
    client.tokenSource = tokenSource;
    // Before the first paint, because another service's token must not show again; and before the effects of the
    // children.
    client.claim(isAllowed);
  });
  const isSourced = tokenSource !== undefined;
  useEffect(
    () => (providedClient ? undefined : client.retain(isAllowed)),
    [providedClient, client, isAllowed, isSourced],
  );
  // After all effects below, which may have set a user, and after the effect above.
  useEffect(() => tokenService.mount(), [tokenService]);

  const context = useMemo(
    () => ({ tokenService, client: isAllowed || providedClient ? client : null }),
    [tokenService, client, isAllowed, providedClient],
  );
  return <ServiceContext.Provider value={context}>{children}</ServiceContext.Provider>;
}
