import type { ServiceClient } from "../client/front/service-client.ts";
import type { ServiceEvents } from "../client/front/service-events.ts";
import type { ServiceClientContext } from "./context.ts";
import { useServiceClient } from "./hooks.ts";
import { type ServiceConfiguration, ServiceProvider } from "./service-provider.tsx";

/**
 * The names of the published `space-react-client` for the same things. To migrate, replace the package's name in the imports by
 * `faregate/react`; then rename at leisure. What differs, and is meant to:
 *
 * - `evaluateFeature` and `getKey` answer null where they answered false or undefined for want of a token or an entry.
 * - `limit` and `used` of a feature are a number or null against Faregate, and maps by usage limit against the reference server;
 *   `useUsage` reads both.
 * - A Feature without a token shows Loading while one is on its way, and ErrorFallback as soon as the token expires.
 * - Features of one user are gone at once when another is set; payloads are frozen; feature ids keep their case.
 * - `pricing_activated` works, and `pricing_actived` still does.
 *
 * Source: contract clients §1.1.
 */

/** @deprecated Use ServiceProvider. */
export const SpaceProvider = ServiceProvider;
/** @deprecated Use useServiceClient. */
export const useSpaceClient = useServiceClient;
/** @deprecated Use ServiceConfiguration. */
export type SpaceConfiguration = ServiceConfiguration;
/** @deprecated Use ServiceClient. */
export type SpaceClient = ServiceClient;
/** @deprecated Use ServiceEvents. */
export type SpaceEvents = ServiceEvents;
/** @deprecated Use ServiceClientContext. */
export type SpaceClientContext = ServiceClientContext;
