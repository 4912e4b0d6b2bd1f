import type { Connection } from "../db/connect.ts";
import { createLookups } from "../db/lookups.ts";
import { createCallCounter } from "./analytics.ts";
import { createConsume } from "./consumption.ts";
import type { Resources, Settings } from "./context.ts";
import type { Keyring } from "./credentials.ts";
import { createPricingCache } from "./pricing-cache.ts";

/** The resources of a process over one connection pool; whoever opened that closes it, after `callCounter.flush()`. */
export function createResources(
  connection: Connection,
  options: {
    keyring: Keyring;
    settings: Settings;
    now?: Resources["now"];
    download?: NonNullable<Resources["download"]>;
  },
): Resources {
  const resources = {
    db: connection.db,
    lookups: createLookups(connection),
    pricingCache: createPricingCache(),
    callCounter: createCallCounter(connection.db),
    now: () => new Date(),
    ...options,
  };
  return {
    ...resources,
    consume: createConsume(connection, resources),
  };
}
