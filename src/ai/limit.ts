import type { JSONObject, SharedV3ProviderMetadata } from "@ai-sdk/provider";
import type { Denial } from "../client/back/denial.ts";

/** Raw finish reason of an answer that was ended because nothing was left. Its unified reason is `other`. */
export const LIMIT_FINISH = "faregate-limit";

/** Thrown where nothing is left before the first token. The model is not called. */
export class LimitReachedError extends Error {
  readonly limit: Denial;

  constructor(limit: Denial) {
    super(limit.reason === "BUDGET_REACHED" ? "The budget is used up" : "The limit is reached");
    this.name = "LimitReachedError";
    this.limit = limit;
  }
}

/** Returns why an answer was ended, from its provider metadata; undefined for one that ended by itself. */
export function limitOf(metadata: SharedV3ProviderMetadata | undefined): Denial | undefined {
  const limit = metadata?.["faregate"]?.["limit"];
  // Only `metadataOf` writes this field.
  return typeof limit === "object" ? (limit as unknown as Denial) : undefined;
}

/** Adds a limit to the provider metadata of an answer. */
export const metadataOf = (limit: Denial, metadata?: SharedV3ProviderMetadata): SharedV3ProviderMetadata => ({
  ...metadata,
  // Made from answers of the service, which are JSON.
  faregate: { limit: limit as unknown as JSONObject },
});
