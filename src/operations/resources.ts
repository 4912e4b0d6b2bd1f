import type { Invalidations } from "../db/postgres/invalidations.ts";
import type { Connection } from "../db/postgres/connect.ts";
import { createIssuer, type Issuer } from "../db/queries/issuer.ts";
import { createSnapshotCache } from "../db/queries/snapshot-cache.ts";
import { createTokenKeyCache } from "../db/queries/token-keys.ts";
import { type Analysis, createAnalysis } from "./state/analysis.ts";
import { createCallCounter } from "./state/call-counter.ts";
import { createConsume } from "./evaluation/consumption/queue.ts";
import { CallLimits } from "./state/call-limits.ts";
import type { Resources, Settings } from "./context.ts";
import type { Keyring } from "./credentials.ts";
import { createEvaluators } from "./state/evaluators.ts";
import { createMessageQueue, messagesAtOnce } from "./state/message-queue.ts";
import { createTransactionPlaces } from "./state/places.ts";
import { createKeyUses } from "./state/key-uses.ts";
import { createSignOnProvider } from "./state/sign-on-provider.ts";
import { createPricingCache, type PricingCache } from "./state/pricing-cache.ts";
import { createDeniedAttempts } from "./state/denied-attempts.ts";

/**
 * Creates a process's resources over one connection pool. The caller closes the pool after flushing callCounter,
 * keyUses, deniedAttempts and evaluators. Without `changes`, every request reads keys and contracts from the database.
 */
export function createResources(
  connection: Connection,
  options: {
    keyring: Keyring;
    settings: Settings;
    now?: Resources["now"];
    download?: Resources["download"];
    changes?: Invalidations;
    /** Pass a cache that outlives these resources. */
    pricingCache?: PricingCache;
    /** Pass limits that outlive these resources. */
    callLimits?: CallLimits;
    /** Pass an issuer that outlives these resources. */
    issuer?: Issuer;
    /** Pass a provider that outlives these resources. */
    signOn?: Resources["signOn"];
    /** Pass one where threads exist; otherwise analyses run in slices. */
    analysis?: Analysis;
    isPublicAddress?: Resources["isPublicAddress"];
    compareBcrypt?: Resources["compareBcrypt"];
  },
): Resources {
  const { changes, ...given } = options;
  const { signOn } = options.settings;
  const resources: Resources = {
    db: connection.db,
    snapshots: createSnapshotCache(connection, changes),
    invalidationsApplied: changes?.invalidationsApplied,
    invalidations: changes,
    pricingCache: createPricingCache(),
    issuer: createIssuer(options.settings.publicUrl),
    tokenKeys: createTokenKeyCache(changes),
    analysis: createAnalysis(),
    callCounter: createCallCounter(connection.db),
    callLimits: new CallLimits(),
    transactions: createTransactionPlaces(connection.client.options.max),
    messages: createMessageQueue({ concurrency: messagesAtOnce(connection.client.options.max) }),
    keyUses: createKeyUses(connection.db),
    deniedAttempts: createDeniedAttempts(connection.db),
    evaluators: createEvaluators(connection.db, changes),
    signOn: signOn === undefined ? undefined : createSignOnProvider(signOn, options.now ?? (() => new Date())),
    now: () => new Date(),
    ...given,
    consume: (request) => consume(request),
  };
  const consume = createConsume(connection, resources);
  return resources;
}
