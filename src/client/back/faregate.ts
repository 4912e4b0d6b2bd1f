import { Contracts } from "./contracts.ts";
import { Features } from "./features.ts";
import { FallbackCache, type OutageOptions } from "./fallback-cache.ts";
import { Leases } from "./leases.ts";
import { Services } from "./services.ts";
import { Usage } from "./usage.ts";
import { Transport, type TransportOptions } from "./transport.ts";

/** Options of Faregate. */
export interface FaregateOptions extends TransportOptions, OutageOptions {}

/**
 * Client for back ends, on every runtime that has `fetch`. Opens no connection. Create one per process, because it
 * keeps the answers of `lastKnownForMs`. Not for browsers, which must not have its key.
 */
export class Faregate {
  /** Contracts of end users. */
  readonly contracts: Contracts;
  /** Evaluates features and consumes usage. */
  readonly features: Features;
  /** Reserves usage for a process that spends it in its memory. */
  readonly leases: Leases;
  /** Services and their pricings. */
  readonly services: Services;
  /** Reserves usage and settles it later. */
  readonly usage: Usage;

  /**
   * Checks the options.
   * @throws Error that names the invalid option.
   */
  constructor(options: FaregateOptions) {
    const transport = new Transport(options);
    const fallbackCache = new FallbackCache(options);
    this.contracts = new Contracts(transport, fallbackCache);
    this.features = new Features(transport, fallbackCache);
    this.leases = new Leases(transport, fallbackCache);
    this.services = new Services(transport);
    this.usage = new Usage(transport, fallbackCache);
  }
}
