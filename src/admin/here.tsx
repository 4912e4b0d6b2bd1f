import { createContext, useContext, useEffect, useMemo, type ReactNode } from "react";
import type { OrganizationRole } from "../core/access/caller.ts";
import type { Actor } from "../core/access/membership.ts";
import { keyFor, may, roleIn } from "./access.ts";
import type { ApiKey, Organization } from "./answers.ts";
import type { Method } from "./api.ts";
import { useUser } from "./session.tsx";

/** Where the browser keeps the last visited organization. */
export const KEPT_ORGANIZATION = "faregate-organization";

/** The current organization and this user's permissions in it. */
export interface Here {
  organization: Organization;
  role: OrganizationRole | undefined;
  /** The role in terms of the membership rules, which rank a platform ADMIN above every role. */
  actor: Actor;
  /** `/organizations/{id}`, to which calls append the rest. */
  base: string;
  /** Address of the organization's pages in the console. */
  home: string;
  /** Returns true when the permission table lets this user call `base` + `rest`. */
  may(method: Method, rest: string): boolean;
  /** Finds the key of least scope for a call that only organization keys may make. */
  keyFor(method: Method, path: string): ApiKey | undefined;
}

const HereContext = createContext<Here | undefined>(undefined);

/** Provides the current organization to the pages below. */
export function HereProvider({ organization, children }: { organization: Organization; children: ReactNode }) {
  const user = useUser();
  useEffect(() => localStorage.setItem(KEPT_ORGANIZATION, organization.id), [organization.id]);
  const here = useMemo<Here>(() => {
    const role = roleIn(organization, user.username);
    const base = `/organizations/${organization.id}`;
    const who = { username: user.username, role: user.role, inOrganization: role };
    return {
      organization,
      role,
      actor: user.role === "ADMIN" ? "PLATFORM_ADMIN" : role,
      base,
      home: `/o/${organization.id}`,
      may: (method, rest) => may(who, method, base + rest),
      keyFor: (method, path) => keyFor(organization.apiKeys, method, path),
    };
  }, [organization, user]);
  return <HereContext.Provider value={here}>{children}</HereContext.Provider>;
}

/** Returns the current organization; throws outside its pages. */
export function useHere(): Here {
  const here = useContext(HereContext);
  if (here === undefined) throw new Error("no organization around this part");
  return here;
}
