/** A map that evicts the least recently used entries when full. */
export interface LeastRecentlyUsed<V> {
  get(key: string): V | undefined;
  /** Returns the given value. */
  put(key: string, value: V): V;
  delete(key: string): void;
  clear(): void;
}

/**
 * Creates a cache of at most `max` entries whose keys have at most `maxKeyLength` characters in total. Does not cache
 * an entry whose key exceeds half of that.
 *
 * Approximates LRU with two generations of at most half of both limits. Reads move entries into the younger generation;
 * when it is full, the older one is evicted. A recent entry costs one look-up, while an exact order would cost three
 * changes of a map.
 */
export function leastRecentlyUsed<V>(max: number, maxKeyLength = Infinity): LeastRecentlyUsed<V> {
  const half = Math.max(1, Math.floor(max / 2));
  let young = new Map<string, V>();
  let old = new Map<string, V>();
  /** Total characters of the keys in `young`, including deleted ones. */
  let length = 0;
  const put = (key: string, value: V) => {
    if (key.length > maxKeyLength / 2) return value;
    if (!young.has(key)) {
      if (young.size >= half || length + key.length > maxKeyLength / 2) {
        old = young;
        young = new Map();
        length = 0;
      }
      length += key.length;
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
      length = 0;
    },
  };
}

/**
 * Creates an LRU cache bounded by the total weight of its values, for values of very different sizes. Does not cache a
 * value heavier than `max`.
 */
export function boundedByWeight<V>(max: number, weightOf: (value: V) => number): LeastRecentlyUsed<V> {
  const values = new Map<string, V>();
  let sum = 0;
  const remove = (key: string) => {
    const value = values.get(key);
    if (value === undefined) return;
    sum -= weightOf(value);
    values.delete(key);
  };
  return {
    get: (key) => {
      const value = values.get(key);
      if (value === undefined) return undefined;
      values.delete(key);
      values.set(key, value);
      return value;
    },
    put: (key, value) => {
      remove(key);
      if (weightOf(value) > max) return value;
      values.set(key, value);
      sum += weightOf(value);
      for (const oldest of values.keys()) {
        if (sum <= max) break;
        remove(oldest);
      }
      return value;
    },
    delete: remove,
    clear: () => {
      values.clear();
      sum = 0;
    },
  };
}
