import type { ServiceClient } from "../client/service-client.ts";
import type { ServiceEvents } from "../client/service-events.ts";
import type { ServiceClientContext } from "./context.ts";
import { useServiceClient } from "./hooks.ts";
import { type ServiceConfiguration, ServiceProvider } from "./service-provider.tsx";

/* The names of the published `space-react-client` for the same things. Source: contract clients §1.1. */

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
