import type { EventFilter } from "../core/event-messages.ts";
import { PUBLIC_EVENTS } from "../core/event-messages.ts";

/** Where the engine listens; requests get here by `handshakeUrl` only, so that `/events/status` stays with the application. */
export const ENGINE_PATH = "/.faregate-handshake/";

/**
 * The engine's address for a request to the handshake, undefined for any other: `/events` with or without a slash, the
 * same below the sub-path, and for upgrades the address that the specification gives clients as `wsUrl`.
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

/** What a client asked for beyond the plain channel when it joined `/pricings`. */
export interface ResumeRequest {
  /** The last event that it has; null to begin with the next one. */
  lastEventId: number | null;
  filter: EventFilter;
}

/** Why a client may not join, in a sentence for its `connect_error`. */
export class HandshakeError extends Error {}

/** Finds the organization of a key; Refusal for a wrong one. */
export type FindOrganization = (organizationKey: string) => Promise<string>;

/**
 * Reads the `auth` of a namespace's handshake. Undefined when it asks for nothing, which is what the published clients do:
 * they get messages of two fields and nothing else. Refusal when it asks and cannot be understood or be allowed.
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
