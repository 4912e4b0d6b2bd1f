import type { EventFilter } from "../core/event-messages.ts";
import { PUBLIC_EVENTS } from "../core/event-messages.ts";

/** Path of the engine. Only `handshakeUrl` rewrites requests to it, so the application keeps `/events/status`. */
export const ENGINE_PATH = "/.faregate-handshake/";

/**
 * Rewrites a handshake request's URL to the engine's path; undefined for other requests. Accepts `/events` with or without
 * a trailing slash, also below the sub-path, and for upgrades the path that the specification calls `wsUrl`.
 * Source: contract features-events §9.1, §13.10.
 */
export function handshakeUrl(url: string, baseUrlPath: string, isUpgrade: boolean): string | undefined {
  const end = url.indexOf("?");
  let path = end < 0 ? url : url.slice(0, end);
  if (baseUrlPath !== "" && path.startsWith(`${baseUrlPath}/`)) path = path.slice(baseUrlPath.length);
  if (path.endsWith("/")) path = path.slice(0, -1);
  if (path !== "/events" && !(isUpgrade && path === "/api/v1/events")) return undefined;
  return ENGINE_PATH + (end < 0 ? "" : url.slice(end));
}

/** Resume options that a client sent when it joined `/pricings`. */
export interface ResumeRequest {
  /** Last event that the client has received; null to start with the next one. */
  lastEventId: number | null;
  filter: EventFilter;
}

/** Rejects a client's handshake. The message becomes its `connect_error`. */
export class HandshakeError extends Error {}

/** Finds the organization of a key. Rejects with HandshakeError for an invalid key. */
export type FindOrganization = (organizationKey: string) => Promise<string>;

/**
 * Parses the `auth` of a namespace handshake. Returns undefined without resume options: published clients send none and
 * receive messages of two fields only.
 * @throws HandshakeError for malformed options or an invalid key.
 */
export async function parseAuth(auth: unknown, findOrganization: FindOrganization): Promise<ResumeRequest | undefined> {
  if (typeof auth !== "object" || auth === null) return undefined;
  const { lastEventId, organizationKey } = auth as { lastEventId?: unknown; organizationKey?: unknown };
  if (lastEventId === undefined && organizationKey === undefined) return undefined;
  const after = eventIdOf(lastEventId);
  if (organizationKey === undefined || organizationKey === null) return { lastEventId: after, filter: PUBLIC_EVENTS };
  if (typeof organizationKey !== "string") throw new HandshakeError("organizationKey must be a string");
  return { lastEventId: after, filter: { ...PUBLIC_EVENTS, organizationId: await findOrganization(organizationKey) } };
}

function eventIdOf(value: unknown): number | null {
  if (value === undefined || value === null) return null;
  const id = typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : value;
  if (typeof id === "number" && Number.isSafeInteger(id) && id >= 0) return id;
  throw new HandshakeError("lastEventId must be the id of an event, or null to begin with the next one");
}
