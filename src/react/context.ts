import { createContext, useContext } from "react";
import type { ServiceClient } from "../client/front/service-client.ts";
import type { TokenService } from "../client/front/token-service.ts";

/** Context value of a provider. It stays identical until the connection settings change. */
export interface ServiceClientContext {
  readonly tokenService: TokenService;
  /** Null while the connection is not allowed. */
  readonly client: ServiceClient | null;
}

/** Null outside a provider. */
export const ServiceContext = createContext<ServiceClientContext | null>(null);

/**
 * Returns the nearest provider's context.
 * @throws Error that names the hook outside a provider.
 */
export function useServiceContext(hook: string): ServiceClientContext {
  const context = useContext(ServiceContext);
  if (context === null) throw new Error(`${hook} must be used within a ServiceProvider`);
  return context;
}
