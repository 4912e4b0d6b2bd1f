/*
 * Events of the browser page. Functions read the globals when called, so an import in Node, in a worker or in React
 * Native has no effect. There, a page is never hidden.
 */

// All of them reach the window: visibilitychange bubbles up from the document.
const WAKING = ["visibilitychange", "pageshow", "online"];

/**
 * Calls back when the page is shown or hidden, restored from the cache, or online again.
 * @returns a function that unsubscribes.
 */
export function onWake(listener: () => void): () => void {
  const { addEventListener, removeEventListener }: Partial<typeof globalThis> = globalThis;
  for (const type of WAKING) addEventListener?.(type, listener);
  return () => {
    for (const type of WAKING) removeEventListener?.(type, listener);
  };
}

/**
 * Starts a timer of at most 2^31 - 1 ms, because longer delays overflow and fire at once. Callers that need longer ones
 * check the clock again.
 */
export function wakeAfter(delayMs: number, callback: () => void): ReturnType<typeof setTimeout> {
  return setTimeout(callback, Math.min(delayMs, 2 ** 31 - 1));
}
