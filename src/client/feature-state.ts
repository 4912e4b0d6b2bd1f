import {
  type FeatureError,
  isObject,
  ownValue,
  type PricingTokenPayload,
  type TokenFeature,
  type UsageFigure,
} from "./pricing-token.ts";

/** Reason for a missing answer. `bad-entry`: the token's entry has no boolean `eval`. */
export type FeatureReason = "invalid-id" | "no-token" | "expired" | "not-found" | "bad-entry";

interface Figures {
  readonly limit: UsageFigure;
  readonly used: UsageFigure;
  /** Error that the server reported for the evaluation. */
  readonly error: FeatureError | null;
}

type State<Status, Enabled, Reason = null> = Readonly<{ status: Status; enabled: Enabled; reason: Reason }> & Figures;

/** An answered feature: on or off. */
export type AnsweredFeature = State<"on", true> | State<"off", false>;

/**
 * Answer for one feature. The object stays identical while nothing in it changes. A check of `status` narrows the rest:
 * `reason` is null unless the status is `error`.
 */
export type FeatureState = AnsweredFeature | State<"loading", false> | State<"error", false, FeatureReason>;

/** Selects the sub-component: the feature is on or off, its token is loading, or there is no answer. */
export type FeatureStatus = FeatureState["status"];

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

const without = <Status extends "loading" | "error", Reason extends FeatureReason | null>(
  status: Status,
  reason: Reason,
) => Object.freeze({ status, enabled: false as const, limit: null, used: null, error: null, reason });

/** Answers that need no token. Each is always the same object. */
export const LOADING: FeatureState = without("loading", null);
export const INVALID_ID: FeatureState = without("error", "invalid-id");
export const NO_TOKEN: FeatureState = without("error", "no-token");
export const EXPIRED: FeatureState = without("error", "expired");
const NOT_FOUND = without("error", "not-found");
const BAD_ENTRY = without("error", "bad-entry");

const states = new WeakMap<object, FeatureState>();

/** Returns true for a string with the dash between service and feature. */
export function isFeatureId(id: unknown): id is string {
  return typeof id === "string" && id.includes("-");
}

/** Returns the feature's state in a payload, expired or not. Equal entries return the identical object. */
export function featureState(payload: PricingTokenPayload, id: string): FeatureState {
  const entry = ownValue(payload.features, id);
  if (entry === undefined) return NOT_FOUND;
  if (!isObject(entry) || typeof entry.eval !== "boolean") return BAD_ENTRY;
  let state = states.get(entry);
  if (state === undefined) {
    const { limit = null, used = null, error = null } = entry;
    const figures = { limit, used, error, reason: null };
    state = Object.freeze(
      entry.eval ? { status: "on", enabled: true, ...figures } : { status: "off", enabled: false, ...figures },
    );
    states.set(entry, state);
  }
  return state;
}

/**
 * Returns the figures of the limit with the least left. Accepts a state, or an entry of a token's `features`, in both forms
 * that servers send. A missing entry has no limit.
 */
export function usageOf(feature: Pick<TokenFeature, "limit" | "used"> | undefined): Usage {
  let limit: number | null = null;
  let used: number | null = null;
  for (const [id, consumed] of figures(feature?.used)) {
    const value = figures(feature?.limit).find(([other]) => other === id)?.[1] ?? null;
    if (used === null || (value !== null && (limit === null || value - consumed < limit - used))) {
      limit = value;
      used = consumed;
    }
  }
  if (limit === null) return { limit: figures(feature?.limit)[0]?.[1] ?? null, used, ...UNLIMITED };
  const left = limit - (used ?? 0);
  return {
    limit,
    used,
    remaining: Math.max(0, left),
    ratio: limit > 0 ? (used ?? 0) / limit : 1,
    // Limits from 1e8 are unlimited.
    exceeded: limit < 1e8 && left <= 0,
  };
}

const UNLIMITED = { remaining: null, ratio: null, exceeded: false };

/** Returns the numbers of a figure per usage limit. A plain number has the empty name. */
function figures(figure: UsageFigure | undefined): [string, number][] {
  if (figure === null || figure === undefined) return [];
  if (typeof figure === "number") return [["", figure]];
  return Object.entries(figure).filter((pair): pair is [string, number] => typeof pair[1] === "number");
}
