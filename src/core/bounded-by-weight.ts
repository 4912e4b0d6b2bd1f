import type { LeastRecentlyUsed } from "./least-recently-used.ts";

interface Entry<V> {
  value: V;
  weight: number;
  /** Weight that had been written when this entry became the youngest. */
  written: number;
}

/**
 * Creates an LRU cache bounded by the sum of its entries' weights. Does not cache an entry heavier than `max`. Calls
 * `onRemove` for each entry that is replaced, deleted or evicted.
 * Approximates LRU: a read makes an entry the youngest only after half of `max` has been written behind it. Reads of a cache that
 * does not change thus write nothing; otherwise each would allocate a new table for a small map.
 */
export function boundedByWeight<V>(
  max: number,
  weightOf: (value: V, key: string) => number,
  onRemove?: (key: string, value: V) => void,
): LeastRecentlyUsed<V> {
  /** From the oldest to the youngest. */
  const entries = new Map<string, Entry<V>>();
  let sum = 0;
  let written = 0;
  const append = (key: string, entry: Entry<V>) => {
    written += entry.weight;
    entry.written = written;
    entries.set(key, entry);
  };
  const remove = (key: string) => {
    const entry = entries.get(key);
    if (entry === undefined) return;
    sum -= entry.weight;
    entries.delete(key);
    onRemove?.(key, entry.value);
  };
  return {
    get: (key) => {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (written - entry.written >= max / 2) {
        entries.delete(key);
        append(key, entry);
      }
      return entry.value;
    },
    put: (key, value) => {
      remove(key);
      const weight = weightOf(value, key);
      if (weight > max) return value;
      append(key, { value, weight, written });
      sum += weight;
      for (const oldest of entries.keys()) {
        if (sum <= max) break;
        remove(oldest);
      }
      return value;
    },
    delete: remove,
    clear: () => {
      for (const key of entries.keys()) remove(key);
    },
  };
}
