"use client";

import { type JSX, type ReactNode, useMemo } from "react";
import { ServiceClient } from "../client/front/service-client.ts";
import { createTestToken, type TestFeature } from "../client/front/test-token.ts";
import { TokenService } from "../client/front/token-service.ts";
import { ServiceProvider } from "./service-provider.tsx";

/** For tests of applications (`faregate/testing`), without network, server or secret. */
export { createTestToken, type TestFeature, type TestTokenPayload } from "../client/front/test-token.ts";

/** Props of TestServiceProvider. */
export interface TestServiceProviderProps {
  /** Features of the token. Any other feature is not found. */
  features?: Readonly<Record<string, TestFeature>>;
  /** `loading`: the token never arrives. `error`: there is no token. */
  status?: "ready" | "loading" | "error";
  children?: ReactNode;
}

/** Provides a token with these features. Its client never connects, and `setUserId` keeps the features. */
export function TestServiceProvider({ features, status = "ready", children }: TestServiceProviderProps): JSX.Element {
  const key = JSON.stringify([features, status]);
  const client = useMemo(() => testClient(key), [key]);
  return <ServiceProvider client={client}>{children}</ServiceProvider>;
}

function testClient(key: string): ServiceClient {
  const [features, status]: [Record<string, TestFeature> | null, string] = JSON.parse(key);
  const pricingToken = createTestToken({ features: features ?? {} });
  const tokens = new TokenService(status === "ready" ? pricingToken : undefined);
  tokens.setLoading(status === "loading");
  const answer = async () => new Response(JSON.stringify({ pricingToken }));
  return new ServiceClient({ url: "http://faregate.invalid", apiKey: "test", fetch: answer }, tokens);
}
