/** Timings of attempts, which tests shorten. */
export interface RetryTimes {
  /**
   * Delay before the second attempt. Each further delay is four times as long, at most `retryMaxMs`, with 20 % jitter.
   */
  retryFirstMs: number;
  retryMaxMs: number;
  attempts: number;
  pollMs: number;
}

/** Nine attempts over about 18 hours. */
export const RETRY_TIMES: RetryTimes = {
  retryFirstMs: 5000,
  retryMaxMs: 36_000_000,
  attempts: 9,
  pollMs: 1000,
};

/** Delay after a failed attempt: exponential back-off with jitter, and no shorter than the receiver asks for. */
export function retryDelay(
  attempt: number,
  retryAfterMs: number | undefined,
  times: Pick<RetryTimes, "retryFirstMs" | "retryMaxMs">,
): number {
  const backoff = Math.min(times.retryFirstMs * 4 ** (attempt - 1), times.retryMaxMs);
  const jittered = backoff * (0.8 + 0.4 * Math.random());
  return Math.min(Math.max(jittered, retryAfterMs ?? 0), times.retryMaxMs * 1.2);
}
