/** A message of the public channel, exactly as it goes over the wire. Source: specification, event channel. */
export type PublicEvent =
  | {
      code: "PRICING_CREATED" | "PRICING_ARCHIVED" | "PRICING_ACTIVED";
      details: { serviceName: string; pricingVersion: string };
    }
  | { code: "SERVICE_DISABLED"; details: { serviceName: string } };

/** The codes of the public channel, as the specification spells them. */
export const PUBLIC_EVENT_CODES: readonly PublicEvent["code"][] = [
  "PRICING_CREATED",
  "PRICING_ARCHIVED",
  "PRICING_ACTIVED",
  "SERVICE_DISABLED",
];
