import { Faregate, type FeatureId, type PricingTokenPayload, TokenService } from "faregate/client";
import { Feature, usePricingTokenPayload } from "faregate/react";

/* Without a declaration every string is a feature id. */

export const id: FeatureId = ["any", "thing"].join("-");
export const page = <Feature id="any-thing" />;
export const isOn: boolean | null = new TokenService().evaluateFeature(id);
// @ts-expect-error no string
export const wrong = <Feature id={7} />;

export function usePayload(): string | undefined {
  const payload: PricingTokenPayload | null = usePricingTokenPayload();
  // @ts-expect-error read-only
  if (payload !== null) payload.exp = 1;
  const own = usePricingTokenPayload<{ plan: string }>();
  return own?.plan ?? payload?.sub;
}

const { features } = new Faregate({ url: "http://localhost", apiKey: "key" });
export const answer = features.evaluate("ada", ["any", "thing"].join("-"));
// @ts-expect-error read-only
void answer.then((result) => (result.eval = true));
