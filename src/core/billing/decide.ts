import type { BillingOutcome, SubscriptionContent } from "./message.ts";
import { received, type SubscriptionRegister } from "./register.ts";
import { mapItems, mapKnownItems, type PriceMap } from "./terms.ts";

/** Result of a message for the subscription that a contract follows. */
export type Decision =
  | {
      readonly register: SubscriptionRegister;
      readonly isNewest: boolean;
      /** Set for the end of a subscription that never bought anything known. */
      readonly unmapped?: string;
    }
  | { readonly outcome: Extract<BillingOutcome, "unmapped" | "failed">; readonly reason: string };

/**
 * Decides what a message of a subscription does: from what is known of the subscription and the message to what is known
 * then, or to why the contract stays as it is. Source: contract billing §3.
 */
export function decide(
  known: SubscriptionRegister | undefined,
  message: { readonly createdAt: number; readonly arrivedAt: number; readonly content: SubscriptionContent },
  prices: PriceMap,
): Decision {
  const { createdAt, arrivedAt, content } = message;
  const { periodStart, periodEnd, items, status } = content;
  if (periodStart !== null && periodEnd !== null && periodEnd < periodStart) {
    return { outcome: "failed", reason: "The period ends before it starts" };
  }
  if (items.length > MAX_ITEMS) return { outcome: "failed", reason: `A subscription has at most ${MAX_ITEMS} items` };
  const mapped = mapItems(items, prices);
  if ("services" in mapped) return received(known, content, { createdAt, arrivedAt, services: mapped.services });
  // Losing must not depend on a map: an unknown price beside a known one would keep what nobody pays for.
  if (status === "ended") {
    const result = received(known, content, { createdAt, arrivedAt, services: mapKnownItems(items, prices) });
    const isUnknown = "unmapped" in mapped && result.register.everServices.length === 0;
    return isUnknown ? { ...result, unmapped: mapped.unmapped } : result;
  }
  return "unmapped" in mapped
    ? { outcome: "unmapped", reason: unmappedReason(mapped.unmapped) }
    : { outcome: "failed", reason: mapped.problem };
}

const MAX_ITEMS = 100;

export const unmappedReason = (price: string) => `The price ${price} is in no map`;
