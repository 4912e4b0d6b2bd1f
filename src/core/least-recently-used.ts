/** A map that forgets what was not used for longest once it holds more than `max` entries. */
export interface LeastRecentlyUsed<V> {
  get(key: string): V | undefined;
  /** Returns the value. */
  put(key: string, value: V): V;
}

export function leastRecentlyUsed<V>(max: number): LeastRecentlyUsed<V> {
  const entries = new Map<string, V>();
  const put = (key: string, value: V) => {
    entries.delete(key);
    entries.set(key, value);
    if (entries.size > max) {
      const oldest = entries.keys().next();
      if (!oldest.done) entries.delete(oldest.value);
    }
    return value;
  };
  const get = (key: string) => {
    const found = entries.get(key);
    return found === undefined ? undefined : put(key, found);
  };
  return { get, put };
}
