import type { Resources } from "./context.ts";

const IDLE_SECONDS = 12 * 3600;
const LIFETIME_SECONDS = 30 * 86_400;
/** A process notes uses once a minute. A session that ends within a few minutes of its last use needs each of them. */
const EXACT_BELOW_MS = 300_000;

/** Returns the moments after which a session that admits now began and was used last. */
export function sessionBounds({ now, settings }: Pick<Resources, "now" | "settings">) {
  const at = now().getTime();
  const idleMs = (settings.sessionIdleSeconds ?? IDLE_SECONDS) * 1000;
  const lifetimeMs = (settings.sessionLifetimeSeconds ?? LIFETIME_SECONDS) * 1000;
  return {
    createdAfter: new Date(at - lifetimeMs),
    usedAfter: new Date(at - idleMs),
    /** Half of the idle time: a process that notes uses once a minute must not let a session in use run out. */
    notedAfter: new Date(idleMs < EXACT_BELOW_MS ? at : at - idleMs / 2),
  };
}
