/** A set of callbacks. One removed during a notification is not called any more, one added is called from the next on. */
export interface Listeners<Arguments extends readonly unknown[]> {
  /** @returns the undo, which may be called twice. */
  add(listener: (...args: Arguments) => void): () => void;
  /** Calls every listener; one that throws is reported to the console and stops no other. */
  notify(...args: Arguments): void;
  /** How many there are. */
  count(): number;
}

/** An empty set. `onCount` hears of every change of their number. */
export function createListeners<Arguments extends readonly unknown[] = []>(
  onCount?: (count: number) => void,
): Listeners<Arguments> {
  // Wrapped, so that the same function added twice is two listeners, each with its own undo.
  const listeners = new Set<{ call: (...args: Arguments) => void }>();
  return {
    add(listener) {
      const entry = { call: listener };
      listeners.add(entry);
      onCount?.(listeners.size);
      return () => {
        if (listeners.delete(entry)) onCount?.(listeners.size);
      };
    },
    notify(...args) {
      for (const entry of Array.from(listeners)) if (listeners.has(entry)) callSafely(entry.call, ...args);
    },
    count: () => listeners.size,
  };
}

/** Calls foreign code; what it throws goes to the console and not to us. */
export function callSafely<Arguments extends readonly unknown[]>(
  callback: (...args: Arguments) => void,
  ...args: Arguments
): void {
  try {
    callback(...args);
  } catch (error) {
    console.error(error);
  }
}
