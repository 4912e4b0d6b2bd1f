/*
 * Events of the browser page. Functions read the globals when called, so that an import in Node, in a worker or in React Native has no
 * effect; a page there is never hidden.
 */

// All of them reach the window: the first bubbles up from the document.
const WAKING = ["visibilitychange", "pageshow", "online"];

/** Calls back when the page is shown or hidden, comes back from the cache, or is online again. @returns the undo. */
export function onWake(listener: () => void): () => void {
  const { addEventListener, removeEventListener }: Partial<typeof globalThis> = globalThis;
  for (const type of WAKING) addEventListener?.(type, listener);
  return () => {
    for (const type of WAKING) removeEventListener?.(type, listener);
  };
}

/** A timer of at most 2^31 - 1 ms: a longer delay overflows and fires at once. Whoever needs one asks the clock again. */
export function wakeAfter(delayMs: number, callback: () => void): ReturnType<typeof setTimeout> {
  return setTimeout(callback, Math.min(delayMs, 2 ** 31 - 1));
}
