import type { PublicEvent } from "../../core/event-messages.ts";
import { isObject, ownValue } from "../pricing-token.ts";
import type { PricingEventDetails, ServiceEvents } from "./service-events.ts";

type PricingEvent = Exclude<ServiceEvents, "synchronized" | "error" | "pricing_actived">;

const NAMES: Record<PublicEvent["code"] | "PRICING_ACTIVATED", PricingEvent> = {
  PRICING_CREATED: "pricing_created",
  PRICING_ARCHIVED: "pricing_archived",
  PRICING_ACTIVED: "pricing_activated",
  PRICING_ACTIVATED: "pricing_activated",
  SERVICE_DISABLED: "service_disabled",
};

/** What a message means; undefined for a code of a newer server. @throws Error when it is no message at all. */
export function readMessage(message: unknown): { event: PricingEvent; details: PricingEventDetails } | undefined {
  if (!isObject(message) || typeof message["code"] !== "string") throw new Error("Not a message of the event channel.");
  const event = ownValue(NAMES, message["code"]);
  const { details } = message;
  if (event === undefined) return undefined;
  if (!isObject(details)) throw new Error(`A message ${message["code"]} without details.`);
  return { event, details: asReceived(details) };
}

/** Guarantee: none beyond an object. It is passed on as it was received. */
function asReceived(details: object): PricingEventDetails {
  return details as PricingEventDetails;
}
