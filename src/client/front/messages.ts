import type { PublicEvent } from "../../core/event-messages.ts";
import type { PricingEventDetails, ServiceEvents } from "./service-events.ts";

type PricingEvent = Exclude<ServiceEvents, "synchronized" | "error">;

/** Codes of messages. In lower case, each is the name of its event. */
const CODES = new Set(
  Object.keys({
    PRICING_CREATED: true,
    PRICING_ARCHIVED: true,
    PRICING_ACTIVED: true,
    PRICING_ACTIVATED: true,
    SERVICE_DISABLED: true,
  } satisfies Record<PublicEvent["code"] | "PRICING_ACTIVATED", true>),
);

/** Parses a message. Returns undefined for a code of a newer server. @throws Error for a malformed message. */
export function readMessage(message: unknown): { event: PricingEvent; details: PricingEventDetails } | undefined {
  const { code, details } = (message ?? {}) as { code?: unknown; details?: unknown };
  const isText = typeof code === "string";
  if (isText && !CODES.has(code)) return undefined;
  if (!isText || !isObject(details)) throw new Error("Not a message of the event channel.");
  return asReceived(code.toLowerCase(), details);
}

/** Returns true for a JSON object. The module of tokens has the same, and would become part of two chunks. */
const isObject = (value: unknown): value is object => Object(value) === value && !Array.isArray(value);

/** Type guarantee: the name belongs to one of CODES. `details` is any object, passed on as received. */
function asReceived(event: string, details: object) {
  return { event: event as PricingEvent, details: details as PricingEventDetails };
}
