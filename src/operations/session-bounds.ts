import type { Resources } from "./context.ts";

const IDLE_SECONDS = 12 * 3600;
const LIFETIME_SECONDS = 30 * 86_400;

/**
 * Returns the moments before which a session of now must not have begun or been used last, and the age of a last use that
 * has to be written down at once.
 */
export function sessionBounds({ now, settings }: Pick<Resources, "now" | "settings">) {
  const at = now().getTime();
  const idleMs = (settings.sessionIdleSeconds ?? IDLE_SECONDS) * 1000;
  const lifetimeMs = (settings.sessionLifetimeSeconds ?? LIFETIME_SECONDS) * 1000;
  return {
    createdAfter: new Date(at - lifetimeMs),
    usedAfter: new Date(at - idleMs),
    /** Half of the idle time: a process that notes uses once a minute must not let a session in use run out. */
    notedAfter: new Date(at - idleMs / 2),
  };
}
