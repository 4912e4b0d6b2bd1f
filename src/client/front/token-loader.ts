import { isHidden } from "./visibility.ts";
import { ServiceRequestError } from "../service-request-error.ts";
import type { PricingTokenPayload } from "../pricing-token.ts";
import { aborted, type IssuedToken } from "../request.ts";
import type { TokenService } from "./token-service.ts";

/** Source of tokens: a user's route of the service, or the application's own function. */
export type TokenOrigin = (signal: AbortSignal) => Promise<IssuedToken>;

interface InFlight {
  /** Aborted as soon as the request is over, with any outcome. */
  readonly controller: AbortController;
  readonly outcome: Promise<void>;
}

const SHORTEST_WAIT_MS = 5_000;
const LONGEST_WAIT_MS = 60_000;
/** Maximum clock difference that is not corrected. */
const TOLERATED_SKEW_MS = 30_000;
/** Maximum time that a clock is believed to be fast, about a year: a token that looks older has expired. */
const MAX_SKEW_MS = 3e10;
const LONG_ABSENCE_MS = 60_000;

/**
 * Loads tokens into a TokenService. One request at a time: a later origin wins whatever the order of the answers, and a
 * failure keeps the old token. While started, it also refreshes before the expiry and after the page was hidden.
 */
export class TokenLoader {
  private origin: TokenOrigin | undefined;
  private latest: InFlight | undefined;
  private failures = 0;
  private isStarted = false;
  /** Time of the next refresh, by Date.now. */
  private dueAt: number | undefined;
  private hiddenSince: number | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopWatching: (() => void) | undefined;
  private last: string | undefined;
  private readonly tokens: TokenService;
  private readonly onError: (error: Error) => void;

  /** `onError` receives the errors of background refreshes. */
  constructor(tokens: TokenService, onError: (error: Error) => void) {
    this.tokens = tokens;
    this.onError = onError;
  }

  /** Sets the origin of tokens. Does not request one. */
  use(origin: TokenOrigin | undefined, afterSignOut?: TokenOrigin): void {
    this.origin = origin;
    this.failures = 0;
    this.tokens.signOut = () => {
      this.cancel();
      this.origin = afterSignOut;
    };
  }

  /** True while a request is in flight. */
  get isLoading(): boolean {
    return this.latest?.controller.signal.aborted === false;
  }

  /** Requests a token, or joins the request in flight. Callers whose request is replaced get the later outcome. */
  load(): Promise<void> {
    return this.latest && this.isLoading ? this.latest.outcome : this.fetchNow();
  }

  /** Aborts the request in flight and requests from the current origin. Earlier callers get the new outcome. */
  fetchNow(): Promise<void> {
    const { origin } = this;
    if (!origin) return Promise.resolve();
    const previous = this.latest;
    const controller = new AbortController();
    const land = async () => {
      try {
        const { token, serverTimeMs } = await origin(controller.signal);
        // For origins that ignore the signal: a later request aborts this one too.
        if (controller.signal.aborted) throw aborted();
        // A token that is received again keeps its offset, because it may expire meanwhile.
        this.tokens.update(
          token,
          token === this.last ? undefined : clockOffset(this.tokens.shared.decodePricingToken(token), serverTimeMs),
        );
        this.last = token;
        this.plan();
      } catch (error) {
        if (this.latest !== flight) return await this.latest?.outcome;
        throw error;
      } finally {
        if (!controller.signal.aborted) this.end();
      }
    };
    // One microtask later, because `land` compares with `flight`.
    const flight: InFlight = { controller, outcome: Promise.resolve().then(land) };
    this.latest = flight;
    previous?.controller.abort();
    // After a failed refresh of an expired token, retries must not make the page flicker.
    if (this.failures === 0) this.tokens.setLoading(true);
    return flight.outcome;
  }

  /** Requests in the background. Errors go to `onError`, and transient ones are retried. */
  refresh(): void {
    if (!this.origin) return;
    this.dueAt = undefined;
    this.load().catch((error: unknown) => {
      if (error instanceof ServiceRequestError && error.code === "ABORTED") return;
      this.onError(error instanceof Error ? error : new Error(String(error)));
      if (this.isStarted && isTransient(error)) {
        this.failures += 1;
        this.wait(SHORTEST_WAIT_MS + Math.random() * Math.min(LONGEST_WAIT_MS, SHORTEST_WAIT_MS * 2 ** this.failures));
      }
    });
  }

  /** Refreshes once, after a random delay of up to 3 s: every browser receives an event at the same moment. */
  refreshSoon(): void {
    const at = Date.now() + 3000;
    if (this.isStarted && (this.dueAt ?? at) >= at) this.wait(Math.random() * 3000);
  }

  /** Starts refreshing before the expiry, and when the page is shown again. */
  start(): void {
    if (this.isStarted) return;
    this.isStarted = true;
    this.stopWatching = this.tokens.shared.onWake(() => this.check());
    this.plan();
  }

  /** Stops refreshing and aborts the request in flight; `start` resumes. */
  stop(): void {
    this.isStarted = false;
    this.stopWatching?.();
    this.cancel();
  }

  private cancel(): void {
    this.dueAt = undefined;
    clearTimeout(this.timer);
    this.end();
  }

  /** Ends the loading state at once: another client may fill the token service in a moment. */
  private end(): void {
    if (!this.isLoading) return;
    this.latest?.controller.abort();
    this.tokens.setLoading(false);
  }

  /** Refreshes at 70 to 80 % of the remaining life, so that clients that started together do not refresh together. */
  private plan(): void {
    const left = this.tokens.lifeLeftMs;
    if (left === undefined) return;
    // A token that arrives expired counts as a failure: the next one will hardly be better.
    this.failures = left > 0 ? 0 : this.failures + 1;
    const wait = left > 0 ? left * (0.8 - Math.random() * 0.1) : SHORTEST_WAIT_MS * 2 ** Math.min(this.failures, 5);
    this.wait(Math.max(SHORTEST_WAIT_MS, wait));
  }

  private wait(delayMs: number): void {
    if (!this.isStarted || !this.origin) return;
    this.dueAt = Date.now() + delayMs;
    this.check();
  }

  /** Refreshes when due, unless the page is hidden; then when it is shown. Otherwise waits. */
  private check(): void {
    clearTimeout(this.timer);
    const now = Date.now();
    if (isHidden()) {
      this.hiddenSince ??= now;
      return;
    }
    const wasAway = this.hiddenSince !== undefined && now - this.hiddenSince > LONG_ABSENCE_MS;
    this.hiddenSince = undefined;
    if (wasAway || (this.dueAt !== undefined && this.dueAt <= now)) this.refresh();
    else if (this.dueAt !== undefined) this.timer = this.tokens.shared.wakeAfter(this.dueAt - now, () => this.check());
  }
}

/**
 * Returns the offset of the server's clock, if it matters. Without the time of the answer, `iat` tells it: a token that was
 * just fetched is neither from the future nor expired.
 */
function clockOffset({ iat = 0, exp }: PricingTokenPayload, serverTimeMs: number | undefined): number {
  const now = Date.now();
  const offset = (serverTimeMs || iat * 1000) - now;
  const isKnown = serverTimeMs || offset > 0 || (exp * 1000 <= now && offset > -MAX_SKEW_MS);
  return isKnown && Math.abs(offset) > TOLERATED_SKEW_MS ? offset : 0;
}

/** Returns true if a retry may help: after a lost connection or a busy server, but not after a rejection. */
function isTransient(error: unknown): boolean {
  const status = error instanceof ServiceRequestError ? error.status : undefined;
  return status === undefined || status >= 500 || status === 408 || status === 429;
}
