import { type JSX, type ReactNode, useEffect, useLayoutEffect, useMemo, useState } from "react";
import { ServiceClient } from "../client/front/service-client.ts";
import { TokenService } from "../client/front/token-service.ts";
import { ServiceContext } from "./context.ts";
import { IS_DEVELOPMENT, warnOnce } from "./development.ts";

/** The connection of a provider. Its fields are compared, not the object. Source: contract clients §1.2. */
export interface ServiceConfiguration {
  /** Absolute http(s) URL of the service with the sub-path if any; needed while the connection is allowed. */
  url?: string | undefined;
  /** An EVALUATION key; needed only by `setUserId` and `generateUserPricingToken`. */
  apiKey?: string | undefined;
  /** Only the literal false forbids socket and requests; tokens then come by `update` or `tokenSource`. */
  allowConnectionWithService?: boolean | undefined;
  /** The published client's name of `allowConnectionWithService`, read when that is absent. */
  allowConnectionWithSpace?: boolean | undefined;
  /** The token of the first paint, on the server and in the browser. Later changes of it have no effect. */
  initialToken?: string | undefined;
  /** Brings tokens from the application's own back end and again before they expire. */
  tokenSource?: (() => Promise<string>) | undefined;
}

/** Either a configuration, or a client that the application made: the provider neither connects nor disposes of that one. */
export type ServiceProviderProps = { children?: ReactNode } & (
  | { config: ServiceConfiguration; client?: undefined }
  | { client: ServiceClient; config?: undefined }
);

/** Gives everything below it one token service and, unless forbidden, one connection. */
export function ServiceProvider({ config = {}, client: providedClient, children }: ServiceProviderProps): JSX.Element {
  const { url, apiKey, tokenSource, initialToken, allowConnectionWithSpace } = config;
  const isAllowed = !providedClient && (config.allowConnectionWithService ?? allowConnectionWithSpace) !== false;
  // Constructing has no effect outside these objects, so rendering twice or throwing a render away costs nothing.
  const make = (token: TokenService) =>
    // An address that is needed and missing is refused like a wrong one.
    new ServiceClient({ url: isAllowed ? (url ?? "") : undefined, apiKey, tokenSource }, token);
  const [own, setOwn] = useState(() => make(new TokenService(initialToken)));
  let client = providedClient ?? own;
  // Where connecting is forbidden the client of the last permitted address stays, and with it the user and the listeners.
  if (isAllowed && (url !== own.options.url || apiKey !== own.options.apiKey)) {
    client = make(own.token);
    setOwn(client);
  }
  const tokenService = client.token;
  if (IS_DEVELOPMENT && initialToken !== undefined && tokenService.getInitialPayload() === null) {
    warnOnce("config.initialToken is not a pricing token and is ignored.");
  }

  // Layout effects do not exist on the server, and React 18 says so on the console.
  const useBrowserLayoutEffect = typeof document === "object" ? useLayoutEffect : useEffect;
  useBrowserLayoutEffect(() => {
    if (providedClient) return;
    client.tokenSource = tokenSource;
    // Before anything is painted: the token of another service must not be seen once more. And before the effects of the children.
    client.claim(isAllowed);
  });
  const isSourced = tokenSource !== undefined;
  useEffect(
    () => (providedClient ? undefined : client.retain(isAllowed)),
    [providedClient, client, isAllowed, isSourced],
  );
  // After all effects below, which may have set a user, and after the one above.
  useEffect(() => tokenService.mount(), [tokenService]);

  const context = useMemo(
    () => ({ tokenService, client: isAllowed || providedClient ? client : null }),
    [tokenService, client, isAllowed, providedClient],
  );
  return <ServiceContext.Provider value={context}>{children}</ServiceContext.Provider>;
}
