import { onWake, wakeAfter } from "./ambient.ts";
import type { FeatureId } from "../feature-id.ts";
import {
  EXPIRED,
  featureState,
  type FeatureState,
  INVALID_ID,
  isFeatureId,
  LOADING,
  NO_TOKEN,
} from "../feature-state.ts";
import { createListeners } from "../listeners.ts";
import {
  decodePricingToken,
  deepFreeze,
  ownValue,
  parsePricingToken,
  type PricingTokenPayload,
} from "../pricing-token.ts";

/** State of the token: usable, loading, expired, or none. */
export type TokenStatus = "valid" | "loading" | "expired" | "none";

/** @internal A client. Its `httpUrl` is empty until it belongs to a service. */
export interface TokenOwner {
  readonly httpUrl: string;
  dispose(): void;
}

/** Functions that chunks which load later need too. A module of both chunks would become one more of the first load. */
const SHARED = { decodePricingToken, onWake, wakeAfter };

/**
 * Stores one pricing token in memory and answers from it, without a request. Reading is pure. The timer that announces
 * the expiry runs only while there are subscribers. Source: contract clients §1.7.
 */
export class TokenService {
  private payload: PricingTokenPayload | undefined;
  private readonly initial: PricingTokenPayload | undefined;
  private loading = false;
  private clockOffsetMs = 0;
  private wasNotified = false;
  private suspended = false;
  private owner: TokenOwner | undefined;
  /** @internal For ServiceSession and what it loads. */
  readonly shared: typeof SHARED = SHARED;
  /** @internal Replaced by each sign-out and change of user. `id` is the user that a client set. */
  user: { readonly id?: string } = {};
  /** @internal Ends the loading for the current user. Set by the client that loads tokens. */
  signOut: (() => void) | undefined;
  private readonly listeners = createListeners((count) => this.watch(count > 0));
  /**
   * Calls back after each update, clearing, expiry and change of `status`.
   * @returns a function that unsubscribes, which may be called twice.
   */
  readonly subscribe: (listener: () => void) => () => void = this.listeners.add;
  /** @internal Marks the end of the first mount: every component has had its chance to load a token. */
  mount = (): void => {};
  /** @internal Resolves after the first mount. */
  readonly mounted = new Promise<void>((resolve) => (this.mount = resolve));
  private stopWatching: (() => void) | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `initialToken` is the token that the page was rendered with. An unreadable one counts as none. */
  constructor(initialToken?: string) {
    if (initialToken === undefined) return;
    try {
      this.initial = this.payload = parsePricingToken(initialToken);
    } catch {
      // Access control must fail closed; a page must not fail.
    }
  }

  /**
   * Replaces the token and notifies before it returns. Expired tokens are accepted. `clockOffsetMs` is how far the
   * issuer's clock is ahead of the local one. Default: that of the previous token.
   * @throws InvalidPricingTokenError without changing anything.
   */
  update(token: string, clockOffsetMs = this.clockOffsetMs): void {
    this.payload = deepFreeze(shareEntries(decodePricingToken(token), this.payload));
    this.clockOffsetMs = clockOffsetMs;
    this.wasNotified = this.hasExpired();
    this.listeners.notify();
    this.armTimer();
  }

  /**
   * Signs the user out: drops the token, aborts its request, and stops refreshing it. Only `setUserId`, `update` or the
   * token source bring another token.
   */
  clear(): void {
    this.change(() => {
      this.user = {};
      this.payload = undefined;
      this.loading = false;
      this.signOut?.();
    });
  }

  /** @internal Sets the user whose token a client will load. Drops the token of another user. */
  setUser(id: string): void {
    this.change(() => {
      this.loading = true;
      if (id !== this.userId) this.payload = undefined;
      this.user = { id };
    });
  }

  /** @internal Returns the user that a client set, or else the subject of the token, even of an expired one. */
  get userId(): string | undefined {
    return this.user.id ?? this.payload?.sub;
  }

  /**
   * Sets if a token is loading. Features without a token then load instead of failing. `update` does not end this
   * state.
   */
  setLoading(loading: boolean): void {
    this.change(() => (this.loading = loading));
  }

  /** State of the token by the corrected clock. */
  get status(): TokenStatus {
    if (this.getPayload() !== null) return "valid";
    if (this.loading) return "loading";
    return this.payload === undefined ? "none" : "expired";
  }

  /** Returns the payload, deeply frozen and identical until the next update. Null without a valid token. */
  getPayload<T = PricingTokenPayload>(): T | null {
    return shaped<T>(this.hasExpired() ? null : (this.payload ?? null));
  }

  /** Returns a top-level claim. Null if there is no such claim, or no valid token. */
  getKey<T = unknown>(key: string): T | null {
    return shaped<T>(ownValue(this.getPayload() ?? {}, key) ?? null);
  }

  /** Returns if the feature is on. Null if the token does not say, has expired or is missing. */
  evaluateFeature(id: FeatureId): boolean | null {
    const payload = this.getPayload();
    const state = payload && featureState(payload, id);
    return state?.reason === null ? state.enabled : null;
  }

  /**
   * Returns the answer for a feature with limit, usage and reason. Equal answers are the same object, across updates
   * too.
   */
  getFeature(id: FeatureId): FeatureState {
    if (!isFeatureId(id)) return INVALID_ID;
    const payload = this.getPayload();
    if (payload !== null) return featureState(payload, id);
    if (this.loading) return LOADING;
    return this.payload === undefined ? NO_TOKEN : EXPIRED;
  }

  /** Answers from the initial token, even an expired one: server and browser must render the same first. */
  getInitialFeature(id: FeatureId): FeatureState {
    if (!isFeatureId(id)) return INVALID_ID;
    return this.initial === undefined ? LOADING : featureState(this.initial, id);
  }

  /** Returns the payload of the initial token, even of an expired one. */
  getInitialPayload<T = PricingTokenPayload>(): T | null {
    return shaped<T>(this.initial ?? null);
  }

  /** Milliseconds until the token expires by the corrected clock. Negative after expiry; undefined without a token. */
  get lifeLeftMs(): number | undefined {
    return this.payload && this.payload.exp * 1000 - this.clockOffsetMs - Date.now();
  }

  /** @internal Makes `client` the one that fills this service. Disposes of another service's client and its token. */
  claim(owner: TokenOwner): void {
    const previous = this.owner;
    this.owner = owner;
    if (!previous || previous === owner) return;
    previous.dispose();
    this.setLoading(false);
    if (previous.httpUrl) this.clear();
  }

  /** @internal Suspends announcements while no component holds the client that fills this service. */
  suspend(suspended: boolean): void {
    this.suspended = suspended;
    this.armTimer();
  }

  private hasExpired(): boolean {
    return (this.lifeLeftMs ?? 1) <= 0;
  }

  private change(make: () => void): void {
    const previous = this.status;
    make();
    if (this.status !== previous) this.listeners.notify();
    this.armTimer();
  }

  private watch(wanted: boolean): void {
    if (wanted === (this.stopWatching !== undefined)) return;
    this.stopWatching?.();
    this.stopWatching = wanted ? onWake(() => this.armTimer()) : undefined;
    // Do not announce an expiry that happened before the first subscription.
    this.wasNotified = this.hasExpired();
    this.armTimer();
  }

  /**
   * Waits for the expiry, or announces it. Checks again after waking up, because timers of a sleeping device are late.
   */
  private armTimer(): void {
    clearTimeout(this.timer);
    const left = this.lifeLeftMs;
    if (this.stopWatching === undefined || this.suspended || left === undefined) return;
    if (left > 0) this.timer = wakeAfter(left, () => this.armTimer());
    else if (!this.wasNotified) {
      this.wasNotified = true;
      this.listeners.notify();
    }
  }
}

/** No type guarantee: the caller names the shape that its own server's tokens have. */
function shaped<T>(value: unknown): T | null {
  return value as T | null;
}

/** Replaces entries that equal earlier ones by these, so that equal answers stay the same object. */
function shareEntries(next: PricingTokenPayload, previous: PricingTokenPayload | undefined): PricingTokenPayload {
  for (const [id, entry] of Object.entries(next.features)) {
    const value = previous && ownValue(previous.features, id);
    if (value !== undefined && JSON.stringify(value) === JSON.stringify(entry)) {
      // Not by assignment, because the id `__proto__` would replace the prototype.
      Object.defineProperty(next.features, id, { value, enumerable: true });
    }
  }
  return next;
}
