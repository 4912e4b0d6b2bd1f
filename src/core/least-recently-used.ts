/** A map that evicts the least recently used entries when full. */
export interface LeastRecentlyUsed<V> {
  get(key: string): V | undefined;
  /** Stores and returns the value. */
  put(key: string, value: V): V;
  delete(key: string): void;
  clear(): void;
}

/**
 * Creates a cache of at most `max` entries. Approximates LRU with two generations of at most half of them: reads move entries
 * into the younger one, and when that is full, the older one is evicted. A recent entry costs one look-up, while an exact
 * order would cost three changes of a map.
 */
export function leastRecentlyUsed<V>(max: number): LeastRecentlyUsed<V> {
  const half = Math.max(1, Math.floor(max / 2));
  let young = new Map<string, V>();
  let old = new Map<string, V>();
  const put = (key: string, value: V) => {
    if (young.size >= half && !young.has(key)) {
      old = young;
      young = new Map();
    }
    young.set(key, value);
    return value;
  };
  return {
    put,
    get: (key) => {
      const found = young.get(key);
      if (found !== undefined) return found;
      const older = old.get(key);
      return older === undefined ? undefined : put(key, older);
    },
    delete: (key) => {
      young.delete(key);
      old.delete(key);
    },
    clear: () => {
      young = new Map();
      old = new Map();
    },
  };
}
