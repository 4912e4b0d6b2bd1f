const LONGEST_WAIT_MS = 2_000;

/** Returns the wait in milliseconds after so many failures in a row: exponential up to 2 s, with jitter. */
export function backOffMs(failures: number, firstWaitMs: number): number {
  const longest = Math.min(LONGEST_WAIT_MS, firstWaitMs * 2 ** Math.min(failures, 10));
  return longest / 2 + (Math.random() * longest) / 2;
}

/** Back-off between calls that fail. Moments are of the caller's clock. */
export class BackOff {
  /** No call before this moment. */
  retryAt = -Infinity;
  private failures = 0;

  succeeded(): void {
    this.failures = 0;
  }

  failed(now: number): void {
    this.retryAt = now + backOffMs(this.failures, 100);
    this.failures += 1;
  }
}
