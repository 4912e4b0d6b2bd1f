/**
 * Runs a task once the requests of all ready sockets are handled. Edge runtimes may lack setImmediate; each of their requests
 * has a context of its own anyway.
 */
export const afterArrivals =
  (globalThis as { setImmediate?: (task: () => void) => unknown }).setImmediate ?? queueMicrotask;

/**
 * Lets the requests that have arrived go first. Await it between two pieces of a transaction that computes for milliseconds:
 * evaluations then wait for one piece, not for all.
 */
export const arrivalsFirst = (): Promise<void> => new Promise(afterArrivals);
