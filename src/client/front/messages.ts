import type { PublicEvent } from "../../core/event-messages.ts";
import { isObject, ownValue } from "../pricing-token.ts";
import type { PricingEventDetails, ServiceEvents } from "./service-events.ts";

type PricingEvent = Exclude<ServiceEvents, "synchronized" | "error">;

/** Codes of messages. In lower case, each is the name of its event. */
const CODES: Record<PublicEvent["code"] | "PRICING_ACTIVATED", true> = {
  PRICING_CREATED: true,
  PRICING_ARCHIVED: true,
  PRICING_ACTIVED: true,
  PRICING_ACTIVATED: true,
  SERVICE_DISABLED: true,
};

/** Parses a message. Returns undefined for a code of a newer server. @throws Error for a malformed message. */
export function readMessage(message: unknown): { event: PricingEvent; details: PricingEventDetails } | undefined {
  const { code, details } = isObject(message) ? message : {};
  const isKnown = typeof code === "string" && ownValue(CODES, code);
  if (isKnown === undefined) return undefined;
  if (!isKnown || !isObject(details)) throw new Error("Not a message of the event channel.");
  return asReceived(code.toLowerCase(), details);
}

/** Type guarantee: the name belongs to one of CODES. `details` is any object, passed on as received. */
function asReceived(event: string, details: object) {
  return { event: event as PricingEvent, details: details as PricingEventDetails };
}
