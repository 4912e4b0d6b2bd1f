import { Contracts } from "./contracts.ts";
import { Features } from "./features.ts";
import { FallbackCache, type OutageOptions } from "./fallback-cache.ts";
import { Services } from "./services.ts";
import { Transport, type TransportOptions } from "./transport.ts";

/** Options of Faregate. */
export interface FaregateOptions extends TransportOptions, OutageOptions {}

/**
 * Faregate as a back end uses it, on every runtime that has `fetch`. Making one does nothing and keeps nothing open: make one for the
 * whole process, since it remembers the last answers where `lastKnownForMs` says so. Not for browsers, which must not have its key.
 */
export class Faregate {
  /** The end users' contracts. */
  readonly contracts: Contracts;
  /** Evaluates features and consumes usage. */
  readonly features: Features;
  /** Services and their pricings. */
  readonly services: Services;

  /** @throws Error that names `config.url` or `config.apiKey` when it cannot be used. */
  constructor(options: FaregateOptions) {
    const transport = new Transport(options);
    const fallbackCache = new FallbackCache(options);
    this.contracts = new Contracts(transport, fallbackCache);
    this.features = new Features(transport, fallbackCache);
    this.services = new Services(transport);
  }
}
