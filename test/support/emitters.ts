import type { EventEmitter } from "node:events";

/** Resolves when an event was emitted this many times from now on. */
export function count(emitter: EventEmitter, event: string, times: number): Promise<void> {
  let left = times;
  return new Promise((resolve) => {
    emitter.on(event, () => {
      left -= 1;
      if (left === 0) resolve();
    });
  });
}
