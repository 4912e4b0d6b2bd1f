/** A set of callbacks whose `add` returns its undo, which may be called twice. */
export interface Listeners {
  add(listener: () => void): () => void;
  notify(): void;
}

/** Creates an empty set. Calls `onCount` with the size after each change. */
export function createListeners(onCount?: (count: number) => void): Listeners {
  const listeners = new Set<() => void>();
  return {
    add(listener) {
      // Wrapped, so that the same function added twice is two listeners, each with its own undo.
      const entry = () => listener();
      listeners.add(entry);
      onCount?.(listeners.size);
      return () => {
        if (listeners.delete(entry)) onCount?.(listeners.size);
      };
    },
    notify: () => notifyAll(listeners),
  };
}

/**
 * Calls every listener. One removed meanwhile is not called any more, one added meanwhile not yet; what one throws goes to the console and
 * stops no other.
 */
export function notifyAll<Arguments extends readonly unknown[]>(
  listeners: ReadonlySet<(...args: Arguments) => void>,
  ...args: Arguments
): void {
  for (const listener of new Set(listeners)) {
    try {
      if (listeners.has(listener)) listener(...args);
    } catch (error) {
      console.error(error);
    }
  }
}
