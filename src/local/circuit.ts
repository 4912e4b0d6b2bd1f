const FAILURES_OF_AN_OUTAGE = 3;
const PROBE_EVERY_MS = 1_000;

/**
 * Circuit breaker: in an outage, one request per second probes the service, and other callers do not wait. Beside the one of
 * FallbackCache, whose bundle has no room for a class of its own.
 */
export class Circuit {
  private failures = 0;
  private probeAt = 0;

  /** Returns true if a request would likely fail. Otherwise the caller sends one, as a probe in an outage. */
  isOpen(): boolean {
    return this.failures >= FAILURES_OF_AN_OUTAGE && performance.now() < this.probeAt;
  }

  /** Call before a request. */
  probe(): void {
    this.probeAt = performance.now() + PROBE_EVERY_MS;
  }

  succeeded(): void {
    this.failures = 0;
  }

  failed(): void {
    this.failures += 1;
    this.probe();
  }
}
