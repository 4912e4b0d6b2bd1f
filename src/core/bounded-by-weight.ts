import type { LeastRecentlyUsed } from "./least-recently-used.ts";

/** A cache bounded by the sum of its entries' weights, in exact order of use. An entry heavier than `max` is not kept. */
export function boundedByWeight<V>(max: number, weightOf: (value: V, key: string) => number): LeastRecentlyUsed<V> {
  const values = new Map<string, V>();
  let sum = 0;
  const remove = (key: string) => {
    const value = values.get(key);
    if (value === undefined) return;
    sum -= weightOf(value, key);
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
      values.clear();
      sum = 0;
    },
  };
}
