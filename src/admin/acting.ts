import { scopeMay } from "./access.ts";
import type { Call, Method } from "./api.ts";
import { useHere } from "./here.tsx";
import { useUser } from "./session.tsx";
import type { KeyScope } from "../core/access/caller.ts";

/** Credentials of a call that has no route below /organizations. */
export interface Acting {
  /** Key of the organization; undefined for the session's cookie. */
  key: string | undefined;
  /** Carries `organizationId` for the session's user; empty for organization keys. */
  query: NonNullable<Call["query"]>;
}

/**
 * Returns credentials for a call that is closed to members. Prefers the visible organization key of least
 * scope; platform ADMINs use their session and name the organization. Undefined when neither is possible.
 */
export function useActing(method: Method, path: string): Acting | undefined {
  const here = useHere();
  const user = useUser();
  const key = here.keyFor(method, path);
  if (key !== undefined) return { key: key.key, query: {} };
  const isOpenToAdmins = user.role === "ADMIN" && path.startsWith("/contracts");
  return isOpenToAdmins ? { key: undefined, query: { organizationId: here.organization.id } } : undefined;
}

const SCOPES: readonly KeyScope[] = ["EVALUATION", "MANAGEMENT", "ALL"];

/** Lists the key scopes that permit a call, for messages about a missing key. */
export function scopesFor(method: Method, path: string): string {
  return SCOPES.filter((scope) => scopeMay(scope, method, path)).join(", ");
}
