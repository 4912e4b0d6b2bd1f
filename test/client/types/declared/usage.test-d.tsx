import {
  type Consumption,
  type FeatureAnswer,
  type FeatureId,
  Faregate,
  ServiceClient,
  TokenService,
} from "faregate/client";
import {
  Feature,
  On,
  type ServiceProvider,
  type SpaceClient,
  type SpaceClientContext,
  type SpaceConfiguration,
  type SpaceEvents,
  SpaceProvider,
  useFeature,
  useSpaceClient,
  useSuspenseFeature,
  useUsage,
} from "faregate/react";
import { type FeatureId as ServerFeatureId, parsePricingToken, type Usage, usageOf } from "faregate/react/server";
import { createTestToken, TestServiceProvider } from "faregate/testing";
import { Faregate as FromRoot } from "faregate";
import { createTestToken as sameCreateTestToken } from "faregate/react/testing";
import { usageOf as sameUsageOf } from "faregate/server";

/* With a declaration only its feature ids are accepted, whichever entry they come through. */

export const known: FeatureId[] = ["gazette-news", "gazette-archive"];
export const knownOnServer: ServerFeatureId = "gazette-news";
// @ts-expect-error not declared
export const unknown: FeatureId = "gazette-sport";

export const spent: Consumption = { "gazette-credits": { page: 3 }, "gazette-reads": 1 };
// @ts-expect-error no unit of a limit
export const misspelled: Consumption = { "gazette-credits": { pages: 3 } };

export function Page() {
  useFeature("gazette-news");
  // @ts-expect-error not declared
  useFeature("gazette-sport");
  useUsage("gazette-archive");
  // @ts-expect-error not declared
  useUsage("news");
  const status: "on" | "off" = useSuspenseFeature("gazette-news").status;
  // @ts-expect-error not declared
  useSuspenseFeature("gazette-sport");
  const isOn: boolean | null = new TokenService().evaluateFeature("gazette-news");
  // @ts-expect-error not declared
  new TokenService().evaluateFeature("sport");
  return (
    <>
      <Feature id="gazette-news">
        <On>{String(isOn) + status}</On>
      </Feature>
      {/* @ts-expect-error not declared */}
      <Feature id="gazette-sport" />
      <Feature.On />
    </>
  );
}

export const tested = (
  <TestServiceProvider
    features={{ "gazette-news": true, "gazette-archive": { eval: true, limit: 3 } }}
    status="ready"
  />
);
/* An entry of a token may be missing, and its figures may be. */
export const usage: Usage = usageOf(parsePricingToken(createTestToken()).features["gazette-news"]);
export const same: [typeof usageOf, typeof createTestToken] = [sameUsageOf, sameCreateTestToken];
export const root: Faregate = new FromRoot({ url: "http://localhost", apiKey: "key" });

export function Narrowed() {
  const state = useFeature("gazette-news");
  if (state.status === "error") return <p>{state.reason.toUpperCase()}</p>;
  const reason: null = state.reason;
  if (state.status === "loading") return <p>{String(reason)}</p>;
  if (state.enabled) {
    const on: "on" = state.status;
    return <p>{on}</p>;
  }
  const off: "off" = state.status;
  return <p>{off}</p>;
}

export const token: string = createTestToken({ features: { "gazette-news": false } });

const client = new ServiceClient({ url: "http://localhost" });
client.on("pricing_archived", ({ serviceName, pricingVersion }) => `${serviceName} ${pricingVersion ?? ""}`);
client.on("pricing_actived", ({ serviceName }) => serviceName);
client.on("error", (error) => error.message);
client.on("synchronized", () => {});
// @ts-expect-error no such event
client.on("pricing_deleted", () => {});
// @ts-expect-error no such argument
client.on("synchronized", (details: string) => details);
// @ts-expect-error read-only
client.apiKey = "other";
// @ts-expect-error not for users
client.changeConnection();

export const aliased = (
  <SpaceProvider config={{ url: "http://localhost", apiKey: "key", allowConnectionWithSpace: true }}>
    text
  </SpaceProvider>
);
export const sameProvider: typeof ServiceProvider = SpaceProvider;
export const sameHook: () => SpaceClient = useSpaceClient;
export const spaceEvent: SpaceEvents = "pricing_actived";
export const spaceConfiguration: SpaceConfiguration = { allowConnectionWithSpace: false };
export const spaceContext = ({ client: held }: SpaceClientContext): SpaceClient | null => held;
// @ts-expect-error a provider has a configuration or a client
export const neither = <SpaceProvider>text</SpaceProvider>;

const { features, contracts } = new Faregate({ url: "http://localhost", apiKey: "key", whenUnreachable: "closed" });
export const answer: Promise<FeatureAnswer> = features.evaluate("ada", "gazette-news", { strict: true });
// @ts-expect-error not declared
void features.evaluate("ada", "gazette-sport");
// @ts-expect-error not declared
void features.revert("ada", "gazette-sport");
void features.evaluateAll("ada").then((all) => all.isEnabled("gazette-archive"));
// @ts-expect-error not declared
void features.evaluateAll("ada").then((all) => all.isEnabled("gazette-sport"));
// @ts-expect-error no such choice
void features.evaluate("ada", "gazette-news", { whenUnreachable: "maybe" });
// @ts-expect-error the whole subscription, not what differs
void contracts.novate("ada", { subscriptionPlans: { gazette: "PRO" } });
// @ts-expect-error one limit, or all
void contracts.resetUsage("ada", { limit: "news", all: true, other: 1 });
