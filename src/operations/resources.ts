import type { Changes } from "../db/postgres/changes.ts";
import type { Connection } from "../db/postgres/connect.ts";
import { createIssuer, type Issuer } from "../db/queries/issuer.ts";
import { createLookups } from "../db/queries/lookups.ts";
import { type Analysis, createAnalysis } from "./analysis.ts";
import { createCallCounter } from "./analytics.ts";
import { createConsume } from "./consumption.ts";
import type { Resources, Settings } from "./context.ts";
import type { Keyring } from "./credentials.ts";
import { createKeyUses } from "./key-uses.ts";
import { createPricingCache, type PricingCache } from "./pricing-cache.ts";
import { createRefusals } from "./refusals.ts";

/**
 * The resources of a process over one connection pool; whoever opened that closes it, after flushing
 * callCounter, keyUses and refusals.
 * Without `changes`, keys and contracts are read on every request.
 */
export function createResources(
  connection: Connection,
  options: {
    keyring: Keyring;
    settings: Settings;
    now?: Resources["now"];
    download?: Resources["download"];
    changes?: Changes;
    /** Given where it outlives these resources. */
    pricingCache?: PricingCache;
    /** Given where it outlives these resources. */
    issuer?: Issuer;
    /** Given where there are threads; otherwise analyses run in slices. */
    analysis?: Analysis;
    isPublicAddress?: Resources["isPublicAddress"];
  },
): Resources {
  const { changes, ...given } = options;
  const resources = {
    db: connection.db,
    lookups: createLookups(connection, changes),
    caughtUp: changes?.caughtUp,
    pricingCache: createPricingCache(),
    issuer: createIssuer(options.settings.publicUrl),
    analysis: createAnalysis(),
    callCounter: createCallCounter(connection.db),
    keyUses: createKeyUses(connection.db),
    refusals: createRefusals(connection.db),
    now: () => new Date(),
    ...given,
  };
  return {
    ...resources,
    consume: createConsume(connection, resources),
  };
}
