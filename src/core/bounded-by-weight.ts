import type { LeastRecentlyUsed } from "./least-recently-used.ts";

/**
 * Creates an LRU cache bounded by the sum of its entries' weights. Does not cache an entry heavier than `max`. Calls
 * `onRemove` for each entry that is replaced, deleted or evicted.
 */
export function boundedByWeight<V>(
  max: number,
  weightOf: (value: V, key: string) => number,
  onRemove?: (key: string, value: V) => void,
): LeastRecentlyUsed<V> {
  const values = new Map<string, V>();
  let sum = 0;
  const remove = (key: string) => {
    const value = values.get(key);
    if (value === undefined) return;
    sum -= weightOf(value, key);
    values.delete(key);
    onRemove?.(key, value);
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
      if (weightOf(value, key) > max) return value;
      values.set(key, value);
      sum += weightOf(value, key);
      for (const oldest of values.keys()) {
        if (sum <= max) break;
        remove(oldest);
      }
      return value;
    },
    delete: remove,
    clear: () => {
      for (const key of values.keys()) remove(key);
    },
  };
}
