const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

/** Exponential back-off with jitter between calls that fail. Moments are of the caller's clock. */
export class BackOff {
  /** No call before this moment. */
  retryAt = -Infinity;
  private failures = 0;

  succeeded(): void {
    this.failures = 0;
  }

  failed(now: number): void {
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(this.failures, 10));
    this.failures += 1;
    this.retryAt = now + longest / 2 + (Math.random() * longest) / 2;
  }
}
