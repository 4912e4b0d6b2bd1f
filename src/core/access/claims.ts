import type { MemberRole } from "./caller.ts";

/** A role that follows a claim of the provider: on the platform, or in an organization by name or id. */
export type RoleRule = { claim: string; has: string } & (
  | { platform: "ADMIN" }
  | { organization: string; role: MemberRole }
);

/** Claims of a verified identity. */
export type Claims = Readonly<Record<string, unknown>>;

/** Roles that claims give, for everything that the rules name. */
export interface ClaimedRoles {
  /** Undefined where no rule is about the platform. */
  platform: "ADMIN" | "USER" | undefined;
  /** Roles by organization; null where the claims give none. */
  organizations: ReadonlyMap<string, MemberRole | null>;
}

const RANKS: readonly MemberRole[] = ["EVALUATOR", "MANAGER", "ADMIN"];

/** Reads a claim by its name, or by a path with dots such as `realm_access.roles`. */
export function claimAt(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let value: unknown = claims;
  for (const name of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = Reflect.get(value, name);
  }
  return value;
}

function hasValue(claims: Claims, { claim, has }: RoleRule): boolean {
  const value = claimAt(claims, claim);
  return Array.isArray(value) ? value.includes(has) : value === has;
}

/** Returns the roles that the claims give. Of several rules about one organization, the highest role counts. */
export function claimedRoles(claims: Claims, rules: readonly RoleRule[]): ClaimedRoles {
  const organizations = new Map<string, MemberRole | null>();
  let platform: ClaimedRoles["platform"];
  for (const rule of rules) {
    const applies = hasValue(claims, rule);
    if ("platform" in rule) {
      if (platform !== "ADMIN") platform = applies ? "ADMIN" : "USER";
      continue;
    }
    const before = organizations.get(rule.organization) ?? null;
    const isHigher = applies && (before === null || RANKS.indexOf(rule.role) > RANKS.indexOf(before));
    organizations.set(rule.organization, isHigher ? rule.role : before);
  }
  return { platform, organizations };
}

/** Returns the names that an identity suggests for its account, the best first. */
export function suggestedNames(claims: Claims, usernameClaim: string): string[] {
  const named = claimAt(claims, usernameClaim);
  const email = claims["email"];
  const ofEmail = typeof email === "string" ? email.slice(0, Math.max(0, email.lastIndexOf("@"))) : "";
  return [named, ofEmail].flatMap((name) => (typeof name === "string" && name.trim() !== "" ? [name.trim()] : []));
}

const MAX_EMAIL = 254;

/** Returns the identity's address. Undefined for one that the provider calls unverified: some write `"false"`. */
export function emailOf(claims: Claims): string | undefined {
  const { email, email_verified: isVerified } = claims;
  if (typeof email !== "string" || String(isVerified) === "false" || email.length > MAX_EMAIL) return undefined;
  return /^[^\s\p{C}@]+@[^\s\p{C}@]+$/u.test(email) ? email : undefined;
}
