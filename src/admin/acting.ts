import { scopeMay } from "./access.ts";
import type { Call, Method } from "./api.ts";
import { useHere, useUser } from "./session.tsx";
import type { KeyScope } from "../core/access/caller.ts";

/** With what a call is made that has no form below /organizations. */
export interface Acting {
  key: string;
  /** Names the organization where the key does not. */
  query: NonNullable<Call["query"]>;
}

/**
 * How this user makes a call that members' keys cannot make: with the organization's key of least scope that they see, or
 * as a platform ADMIN naming the organization. undefined: not at all.
 */
export function useActing(method: Method, path: string): Acting | undefined {
  const here = useHere();
  const user = useUser();
  const key = here.keyFor(method, path);
  if (key !== undefined) return { key: key.key, query: {} };
  const isOpenToAdmins = user.role === "ADMIN" && path.startsWith("/contracts");
  return isOpenToAdmins ? { key: user.apiKey, query: { organizationId: here.organization.id } } : undefined;
}

const SCOPES: readonly KeyScope[] = ["EVALUATION", "MANAGEMENT", "ALL"];

/** The scopes of keys with which a call may be made, for telling what is missing. */
export function scopesFor(method: Method, path: string): string {
  return SCOPES.filter((scope) => scopeMay(scope, method, path)).join(", ");
}
