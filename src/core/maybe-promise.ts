/**
 * A value that is usually available synchronously. Each `await` of an available value costs a frame, a promise and a
 * microtask, which adds up on the path of every request. Functions with this type may throw or reject; an async
 * function that awaits them handles both.
 */
export type MaybePromise<T> = T | Promise<T>;

/** Continues with a value, synchronously when it is available. */
export function chain<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
