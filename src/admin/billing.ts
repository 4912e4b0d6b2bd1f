import { useQueries } from "@tanstack/react-query";
import type { Offer } from "../client/offer.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import type { BillingConnection, BillingProblem, MappedPrice, Service } from "./answers.ts";
import { call, path } from "./api.ts";
import { useHere } from "./here.tsx";
import { useChange } from "./queries.ts";
import { usePricings } from "./pricings.ts";
import { serviceKey, useServices } from "./services.ts";

/** Events of Stripe that move contracts. */
export const STRIPE_EVENTS = [
  "customer.subscription.created",
  "customer.subscription.updated",
  "customer.subscription.deleted",
  "customer.subscription.paused",
  "customer.subscription.resumed",
  "checkout.session.completed",
  "charge.refunded",
] as const;

/** Body of the call that sets a connection. An absent secret stays. */
export type ConnectionBody = Pick<BillingConnection, "prices"> &
  Partial<Pick<BillingConnection, "secret" | "userId" | "ended" | "graceDays">>;

/** Returns the settings of a connection without its secret. */
export const bodyOf = ({ prices, userId, ended, graceDays }: BillingConnection): ConnectionBody => ({
  prices,
  userId,
  ended,
  graceDays,
});

/** Sets the connection to a provider. With `before`, the message offers to set it back. */
export function useConnection(
  provider: BillingConnection["provider"],
  options: { done: (body: ConnectionBody) => string; before?: BillingConnection; after?: () => void },
) {
  const { base } = useHere();
  const { before } = options;
  return useChange({
    change: (body: ConnectionBody) => call<BillingConnection>("PUT", base + path`/billing/${provider}`, { body }),
    touches: () => [`${base}/billing`],
    done: (_, body) => options.done(body),
    undo: (_, body) => (before === undefined || body.prices === before.prices ? undefined : bodyOf(before)),
    after: () => options.after?.(),
  });
}

/** A service with the pricing of its newest active version. */
export interface NewestPricing {
  service: Service["name"];
  pricing: CompiledPricing;
}

/** Loads the newest active version of every service. Missing ones are still loading. */
export function useNewestPricings(): NewestPricing[] {
  const { base } = useHere();
  const services = useServices().data ?? [];
  const offers = useQueries({
    queries: services.map(({ name }) => {
      const to = base + path`/services/${name}/offer`;
      return { queryKey: [to, {}], queryFn: () => call<Offer>("GET", to) };
    }),
  });
  const newest = offers.flatMap(({ data }, index): (readonly [string, string])[] => {
    const service = services[index]?.name;
    return data === undefined || service === undefined ? [] : [[service, data.versions?.[0] ?? data.pricingVersion]];
  });
  const { pricingOf } = usePricings(newest);
  return newest.flatMap(([service, version]) => {
    const pricing = pricingOf(service, version);
    return pricing === undefined ? [] : [{ service, pricing }];
  });
}

type Kind = "plan" | "addOn" | "limit";

/** Meaning of a price id. */
export interface Target {
  service: string;
  kind: Kind;
  name: string;
}

export function targetOf(mapped: MappedPrice): Target {
  const { service } = mapped;
  if ("plan" in mapped) return { service, kind: "plan", name: mapped.plan };
  return "addOn" in mapped
    ? { service, kind: "addOn", name: mapped.addOn }
    : { service, kind: "limit", name: mapped.limit };
}

const targetOfProblem = ({ service, plan, addOn, limit }: BillingProblem): Target => {
  if (plan !== null) return { service, kind: "plan", name: plan };
  return addOn === null ? { service, kind: "limit", name: limit ?? "" } : { service, kind: "addOn", name: addOn };
};

/** A row of the map: a price id with its target, or one that is missing. */
export interface MapRow extends Target {
  /** Null: the target has no price id, or only `ended` names it. */
  price: string | null;
  mapped: MappedPrice | undefined;
  problem: "unpriced" | "unknown" | undefined;
}

const ORDER: readonly Kind[] = ["plan", "addOn", "limit"];

/** Lists the map, with what it lacks, by service, kind and name. */
export function mapRows({ prices, problems }: BillingConnection): MapRow[] {
  const rows = Object.entries(prices).map(([price, mapped]): MapRow => {
    const isUnknown = problems.some((problem) => problem.price === price);
    return { ...targetOf(mapped), price, mapped, problem: isUnknown ? "unknown" : undefined };
  });
  const missing = problems
    .filter(({ price }) => price === null)
    .map((problem): MapRow => {
      const isUnpriced = problem.message.endsWith("has a price and no price id");
      return {
        ...targetOfProblem(problem),
        price: null,
        mapped: undefined,
        problem: isUnpriced ? "unpriced" : "unknown",
      };
    });
  return [...rows, ...missing].toSorted(
    (one, other) =>
      serviceKey(one.service).localeCompare(serviceKey(other.service)) ||
      ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind) ||
      one.name.localeCompare(other.name),
  );
}
