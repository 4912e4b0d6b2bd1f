import { type FeatureError, isObject, ownValue, type PricingTokenPayload, type UsageFigure } from "./pricing-token.ts";

/** Selects the sub-component: the feature is on or off, its token is loading, or there is no answer. */
export type FeatureStatus = "on" | "off" | "loading" | "error";

/** Reason for a missing answer. `bad-entry`: the token's entry has no boolean `eval`. */
export type FeatureReason = "invalid-id" | "no-token" | "expired" | "not-found" | "bad-entry";

/** Answer for one feature. The object stays identical while nothing in it changes. */
export interface FeatureState {
  readonly status: FeatureStatus;
  /** True if `status` is `on`. */
  readonly enabled: boolean;
  readonly limit: UsageFigure;
  readonly used: UsageFigure;
  /** Error that the server reported for the evaluation. */
  readonly error: FeatureError | null;
  /** Null unless `status` is `error`. */
  readonly reason: FeatureReason | null;
}

/** Usage of a feature's limit. */
export interface Usage {
  /** Null if the feature has no limit. */
  readonly limit: number | null;
  readonly used: number | null;
  /** At least 0; null without a limit. */
  readonly remaining: number | null;
  /** `used` / `limit`, 1 at the limit; null without a limit. */
  readonly ratio: number | null;
  /** True if nothing remains. */
  readonly exceeded: boolean;
}

const without = (status: FeatureStatus, reason: FeatureReason | null): FeatureState =>
  Object.freeze({ status, enabled: false, limit: null, used: null, error: null, reason });

/** Answers that need no token. Each is always the same object. */
export const LOADING = without("loading", null);
export const INVALID_ID = without("error", "invalid-id");
export const NO_TOKEN = without("error", "no-token");
export const EXPIRED = without("error", "expired");
const NOT_FOUND = without("error", "not-found");
const BAD_ENTRY = without("error", "bad-entry");

const states = new WeakMap<object, FeatureState>();

/** Returns true for a string with the dash between service and feature. */
export function isFeatureId(id: unknown): id is string {
  return typeof id === "string" && id.includes("-");
}

/** Returns the feature's state in a payload, expired or not. Equal entries return the identical object. */
export function featureState(payload: PricingTokenPayload, id: string): FeatureState {
  const entry: unknown = ownValue(payload.features, id);
  if (entry === undefined) return NOT_FOUND;
  if (!isObject(entry) || typeof entry["eval"] !== "boolean") return BAD_ENTRY;
  let state = states.get(entry);
  if (state === undefined) {
    const enabled = entry["eval"];
    const { limit = null, used = null, error = null } = payload.features[id] ?? {};
    state = Object.freeze({ status: enabled ? "on" : "off", enabled, limit, used, error, reason: null });
    states.set(entry, state);
  }
  return state;
}

/** Returns the figures of the limit with the least left. Accepts both forms that servers send. */
export function usageOf(feature: Pick<FeatureState, "limit" | "used">): Usage {
  let limit: number | null = null;
  let used: number | null = null;
  for (const [id, consumed] of figures(feature.used)) {
    const value = figures(feature.limit).find(([other]) => other === id)?.[1] ?? null;
    if (used === null || (value !== null && (limit === null || value - consumed < limit - used))) {
      limit = value;
      used = consumed;
    }
  }
  if (limit === null) return { limit: figures(feature.limit)[0]?.[1] ?? null, used, ...UNLIMITED };
  const left = limit - (used ?? 0);
  return {
    limit,
    used,
    remaining: Math.max(0, left),
    ratio: limit > 0 ? (used ?? 0) / limit : 1,
    exceeded: left <= 0,
  };
}

const UNLIMITED = { remaining: null, ratio: null, exceeded: false };

/** Returns the numbers of a figure per usage limit. A plain number has the empty name. */
function figures(figure: UsageFigure): [string, number][] {
  if (figure === null) return [];
  if (typeof figure === "number") return [["", figure]];
  return Object.entries(figure).filter((pair): pair is [string, number] => typeof pair[1] === "number");
}
