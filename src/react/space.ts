"use client";

/**
 * `faregate/react/space`: everything of `faregate/react`, and the names of the published `space-react-client` for the same things.
 * To migrate, replace the package's name in the imports; then rename at leisure.
 */
import type { ServiceClient } from "../client/service-client.ts";
import type { ServiceEvents } from "../client/service-events.ts";
import type { ServiceClientContext } from "./context.ts";
import { useServiceClient } from "./hooks.ts";
import { type ServiceConfiguration, ServiceProvider } from "./service-provider.tsx";

export * from "./react.ts";

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
