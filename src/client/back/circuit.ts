import { ServiceRequestError } from "../service-request-error.ts";

/**
 * Consecutive failures that open the circuit. Fewer may be one request that breaks the service, or one short time-out.
 */
const FAILURES_OF_AN_OUTAGE = 3;
/** Interval of probes while the circuit is open, over all callers. */
const PROBE_EVERY_MS = 1_000;

/** Circuit breaker, so that an outage of the service does not slow its callers. */
export class Circuit {
  private failures = 0;
  private probeAt = 0;

  /** Returns true if a request would likely fail. Returns false once per second, for a probe. */
  isOpen(): boolean {
    if (this.failures < FAILURES_OF_AN_OUTAGE) return false;
    return performance.now() < this.probeAt;
  }

  /** Call before a request: others wait for its outcome, or for the next probe. */
  probe(): void {
    if (this.failures >= FAILURES_OF_AN_OUTAGE) this.probeAt = performance.now() + PROBE_EVERY_MS;
  }

  succeeded(): void {
    this.failures = 0;
  }

  failed(): void {
    this.failures += 1;
    this.probeAt = performance.now() + PROBE_EVERY_MS;
  }
}

/** Returns true if the service is unreachable or broken. A 4xx status is an answer, not an outage. */
export function isOutage(error: unknown): boolean {
  // Requests without a status got no response. An aborted request says nothing about the service.
  return error instanceof ServiceRequestError && error.code !== "ABORTED" && (error.status ?? 500) >= 500;
}
