/**
 * What is mostly at hand and sometimes has to be waited for. Every `await` of what is there already costs a frame, a promise
 * and a turn; on the way of every request that adds up. A function that returns it fails in both ways, by throwing and by
 * rejecting: whoever awaits it inside of an async function need not care.
 */
export type AtOnce<T> = T | Promise<T>;

/** Goes on with a value, at once where it is there. */
export function goOn<T, R>(value: AtOnce<T>, next: (value: T) => AtOnce<R>): AtOnce<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
