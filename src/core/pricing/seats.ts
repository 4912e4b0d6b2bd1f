import type { Pricing } from "./model.ts";

/*
 * Seats: the limit whose balance is the number of members of a contract. A pricing names it as `custom.faregate.seats`. Source:
 * contract members.
 */

/** Returns the value of `custom.faregate.seats` as written; undefined without one. */
export function writtenSeats({ custom }: Pick<Pricing, "custom">): unknown {
  const own = Object.hasOwn(custom, "faregate") ? custom["faregate"] : undefined;
  if (typeof own !== "object" || own === null || Array.isArray(own) || !Object.hasOwn(own, "seats")) return undefined;
  return (own as { readonly seats?: unknown }).seats;
}

/** Returns the name of the limit that counts members; undefined for none. Only a number that is not renewed can count them. */
export function seatsOf(pricing: Pick<Pricing, "custom" | "usageLimits">): string | undefined {
  const written = writtenSeats(pricing);
  if (written === undefined) return undefined;
  const limit = pricing.usageLimits.find(({ name }) => name === written);
  const isRenewed = limit?.type === "RENEWABLE" && limit.period !== undefined;
  return limit?.valueType === "NUMERIC" && !isRenewed ? limit.name : undefined;
}
