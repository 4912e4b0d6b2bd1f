import type { Offer, Unlock } from "./offer.ts";
import { exchange, responseError } from "./request.ts";
import { ServiceRequestError } from "./service-request-error.ts";

const TIMEOUT_MS = 10_000;

/** Address of the service, and the key of a page that has one. */
export interface Asker {
  readonly httpUrl: string;
  readonly apiKey: string;
  /** `fetch` replaces the platform's. */
  readonly options: { readonly fetch?: typeof fetch | undefined };
}

/** Sends a GET, or with a body a POST. */
async function ask<T>(
  { httpUrl, apiKey, options }: Asker,
  path: string,
  isIt: (value: unknown) => value is T,
  content?: object,
): Promise<T> {
  const answer = await exchange({
    url: httpUrl + path,
    method: content === undefined ? "GET" : "POST",
    headers: {
      ...(apiKey === "" ? {} : { "x-api-key": apiKey }),
      ...(content === undefined ? {} : { "content-type": "application/json" }),
    },
    body: content === undefined ? undefined : JSON.stringify(content),
    fetch: options.fetch,
    signal: undefined,
    timeoutMs: TIMEOUT_MS,
  });
  if (!answer.ok) throw responseError(answer);
  const { status, body } = answer;
  if (isIt(body)) return body;
  throw new ServiceRequestError("BAD_RESPONSE", "The answer is not what was asked for.", { status, body });
}

/**
 * Requests an offer, for at most 10 s.
 * @throws ServiceRequestError
 */
export function askForOffer(
  asker: Asker,
  service: string,
  query: { userId: string | undefined; pricingVersion: string | undefined },
): Promise<Offer> {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  const text = new URLSearchParams(given).toString();
  return ask(asker, `/services/${encodeURIComponent(service)}/offer${text && `?${text}`}`, isOffer);
}

/**
 * Requests a published offer, for at most 10 s.
 * @throws ServiceRequestError
 */
export function askForPublicOffer(asker: Asker, organizationId: string, service: string): Promise<Offer> {
  return ask(asker, `/public-offers/${[organizationId, service].map(encodeURIComponent).join("/")}`, isOffer);
}

/**
 * Requests an unlock, for at most 10 s.
 * @throws ServiceRequestError
 */
export function askForUnlock(
  asker: Asker,
  userId: string,
  feature: string,
  amounts: Readonly<Record<string, number>> | undefined,
): Promise<Unlock> {
  const path = ["features", userId, feature, "unlock"].map(encodeURIComponent).join("/");
  return ask(asker, `/${path}`, isUnlock, amounts === undefined ? {} : { amounts });
}

/** Recognizes an offer. */
export function isOffer(value: unknown): value is Offer {
  return Array.isArray((value as Partial<Offer> | null)?.plans);
}

/** Recognizes the answer about an unlock. */
export function isUnlock(value: unknown): value is Unlock {
  return Array.isArray((value as Partial<Unlock> | null)?.alternatives);
}
