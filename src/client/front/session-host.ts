import type { ServiceAddress } from "../address.ts";
import type { TokenRoute } from "../request.ts";
import type { ServiceEventRegistry } from "./service-events.ts";
import type { TokenService } from "./token-service.ts";

/** State of the event channel, with the last error until it is synchronized again. */
export interface ConnectionState {
  readonly status: "idle" | "connecting" | "synchronized" | "disconnected";
  readonly error: Error | null;
}

/**
 * The part of a ServiceClient that its session uses.
 * @internal
 */
export interface SessionHost extends TokenRoute {
  readonly token: TokenService;
  readonly tokenSource: (() => Promise<string>) | undefined;
  readonly address: ServiceAddress | undefined;
  readonly connection: ConnectionState;
  readonly events: ServiceEventRegistry;
  readonly isAllowed: boolean;
  /** Path of the one whose budgets decide. */
  readonly spender?: string | undefined;
  changeConnection(connection?: ConnectionState): void;
}
