/** A set of callbacks. `add` returns a function that removes the callback and may be called twice. */
export interface Listeners {
  add(listener: () => void): () => void;
  notify(): void;
}

/** Creates an empty set. Calls `onCount` with the size after each change. */
export function createListeners(onCount?: (count: number) => void): Listeners {
  const listeners = new Set<() => void>();
  return {
    add(listener) {
      // Wrapped, so that a function added twice counts as two listeners.
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
 * Calls every listener. A listener that is removed meanwhile is skipped; one that is added meanwhile waits for the next
 * call. Errors go to the console and stop no other listener.
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
