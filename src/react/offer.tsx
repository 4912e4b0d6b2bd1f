import type { ReactNode } from "react";
import type { Configuration, Offer as OfferData } from "../client/offer.ts";
import { useAsked } from "./asking.ts";
import { type ChoiceProps, type OfferLabels, OfferTable } from "./offer-table.tsx";

/** Options of useOffer. */
export interface OfferOptions {
  /** Loads the offer from the application's own back end, or a public one with `publicOffer`. */
  source?: (() => Promise<OfferData>) | undefined;
  /** Offer of the first paint, on the server and in the browser. */
  initial?: OfferData | undefined;
  /** Shows this active version instead of the user's. */
  pricingVersion?: string | undefined;
}

/** State of an offer. */
export type OfferState = Readonly<{
  status: "loading" | "ready" | "error";
  /** The last offer. Stays while a new one loads, and when that fails. */
  offer: OfferData | null;
  error: Error | null;
  /** Asks again. */
  reload(): void;
}>;

/**
 * Returns what a service sells to the current user. Asks the service with the provider's key unless there is a source
 * or an initial offer, which also work outside a provider. Asks again for another user, and when the token or a pricing
 * changes.
 */
export function useOffer(service: string, options: OfferOptions = {}): OfferState {
  const { source, initial, pricingVersion } = options;
  const { answer, ...rest } = useAsked<OfferData>({
    hook: "useOffer",
    key: [service, pricingVersion],
    source,
    initial,
    ask: (requests, client, userId) => requests.askForOffer(client, service, { userId, pricingVersion }),
  });
  return { ...rest, offer: answer };
}

/** Props of Offer. */
export interface OfferProps extends OfferOptions, ChoiceProps {
  service: string;
  labels?: OfferLabels | undefined;
  /** Renders the offer instead of the default tables. `select` calls `onSelect`. */
  children?: (offer: OfferData, select: NonNullable<ChoiceProps["onSelect"]>) => ReactNode;
}

/** Shows what a service sells. Without children, as OfferTable does. */
export function Offer(props: OfferProps): ReactNode {
  const { service, source, initial, pricingVersion, children, ...table } = props;
  const { status, offer } = useOffer(service, { source, initial, pricingVersion });
  if (!offer) return <AskedStatus status={status} labels={table.labels} />;
  if (children) return children(offer, (configuration, item) => table.onSelect?.(configuration, item));
  return <OfferTable offer={offer} {...table} />;
}

/** @internal Tells that prices load, or cannot be loaded. */
export function AskedStatus({
  status,
  labels = {},
}: {
  status: string;
  labels: Pick<OfferLabels, "loading" | "error"> | undefined;
}): ReactNode {
  return status === "error" ? (
    <p role="alert">{labels.error ?? "Prices cannot be shown right now."}</p>
  ) : (
    <p role="status">{labels.loading ?? "Loading prices…"}</p>
  );
}

/** @internal Formats a configuration: `PRO + 2 × extraTasks`. */
export function configurationText({ plan, addOns }: Configuration): string {
  const parts = Object.entries(addOns).map(([name, quantity]) => `${quantity} × ${name}`);
  return [plan, ...parts].filter(Boolean).join(" + ");
}
