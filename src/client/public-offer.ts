import { serviceAddress } from "./address.ts";
import { askForPublicOffer } from "./ask.ts";
import type { Offer } from "./offer.ts";

/**
 * Returns a function that requests a published offer. Needs no key, and works in browsers and on servers. `url` includes
 * the sub-path; `service` is in any case; `fetch` replaces the platform's.
 * @throws Error that names `config.url`; the function rejects with ServiceRequestError, with status 404 for an offer
 * that is not published.
 */
export function publicOffer(
  options: Record<"url" | "organizationId" | "service", string> & { fetch?: typeof fetch | undefined },
): () => Promise<Offer> {
  const { url, organizationId, service } = options;
  const { httpUrl } = serviceAddress(url);
  return () => askForPublicOffer({ httpUrl, apiKey: "", options }, organizationId, service);
}
