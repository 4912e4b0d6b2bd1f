/*
 * What a browser tells of itself. Every look goes through globalThis when it is asked for, so that importing this in plain Node, in
 * a worker or in React Native touches nothing; there the page is simply never hidden.
 */

interface Target {
  addEventListener?(type: string, listener: () => void): void;
  removeEventListener?(type: string, listener: () => void): void;
}

/** Whether the page is in the background. */
export function isHidden(): boolean {
  return typeof document === "object" && document.visibilityState === "hidden";
}

/** Calls back when the page is shown or hidden, comes back from the cache, or is online again. @returns the undo. */
export function onWake(listener: () => void): () => void {
  const places: [Target | undefined, string][] = [
    [typeof document === "object" ? document : undefined, "visibilitychange"],
    [typeof window === "object" ? window : undefined, "pageshow"],
    [typeof window === "object" ? window : undefined, "online"],
  ];
  for (const [target, type] of places) target?.addEventListener?.(type, listener);
  return () => {
    for (const [target, type] of places) target?.removeEventListener?.(type, listener);
  };
}

/** A longer delay overflows 32 bits and fires at once. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** Calls back once after any delay, in steps where one timer is too short. @returns the undo. */
export function after(delayMs: number, callback: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>;
  const step = (left: number) => {
    const wait = Math.min(Math.max(0, left), LONGEST_DELAY_MS);
    timer = setTimeout(() => (left > wait ? step(left - wait) : callback()), wait);
  };
  step(delayMs);
  return () => clearTimeout(timer);
}
