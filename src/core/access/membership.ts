import { isPlatformAdmin, type Caller, type KeyScope, type MemberRole, type OrganizationRole } from "./caller.ts";

/*
 * Authorization that depends on the target: this member, role or key. permissions.ts decides which callers may attempt
 * a request. Each `deny…` function returns the error message, or undefined if the action is allowed. Source:
 * specification, Authentication rules 5-10; contract users-organizations §4.5-§6.3.
 */

/** Effective role of the caller inside an organization. PLATFORM_ADMIN takes precedence over any organization role. */
export type Actor = "PLATFORM_ADMIN" | OrganizationRole | undefined;

/** Returns the caller's effective role, given its role in the organization. */
export function actorOf(caller: Caller, role: OrganizationRole | undefined): Actor {
  return isPlatformAdmin(caller) ? "PLATFORM_ADMIN" : role;
}

const INSUFFICIENT = "PERMISSION ERROR: Insufficient organization permissions. Required: OWNER, ADMIN, MANAGER";
const NOT_INSIDE =
  "This route requires user authentication. Either you did not provide an user API key or your are not a member of this organization";
const HIGH_LEVEL = "PERMISSION ERROR: Only SPACE admins or organization-level OWNER/ADMIN can add high-level members.";
const ASSIGN_ADMIN = "PERMISSION ERROR: Only SPACE admins or the organization OWNER can assign the ADMIN role.";

function outranksEveryMember(actor: Actor): boolean {
  return actor === "PLATFORM_ADMIN" || actor === "OWNER";
}

function manages(actor: Actor): boolean {
  return outranksEveryMember(actor) || actor === "ADMIN" || actor === "MANAGER";
}

/** Returns an error message unless the actor may read the organization. */
export function denyRead(actor: Actor, organizationId: string): string | undefined {
  return actor === undefined ? `PERMISSION ERROR: You are not a member of organization ${organizationId}` : undefined;
}

/**
 * Returns an error message unless the actor may update these fields of an organization. Every manager may change the
 * name.
 */
export function denyUpdate(actor: Actor, sent: { owner: boolean; default: boolean }): string | undefined {
  if (!manages(actor)) {
    return "PERMISSION ERROR: Only SPACE admins or organization-level OWNER, ADMIN and MANAGER can update organizations.";
  }
  if (outranksEveryMember(actor)) return undefined;
  if (sent.owner) {
    return "PERMISSION ERROR: Only SPACE admins or organization owners can change organization ownership.";
  }
  if (sent.default) {
    return "PERMISSION ERROR: Only SPACE admins or organization owners can change the default flag.";
  }
  return undefined;
}

/** Returns an error message unless the actor may delete the organization. */
export function denyDelete(actor: Actor, organizationId: string): string | undefined {
  return outranksEveryMember(actor) ? undefined : `You are not the owner of organization ${organizationId}`;
}

/**
 * Returns an error message unless the actor may move a service out of the organization. The move needs the permission
 * to remove it.
 */
export function denyMoveService(actor: Actor): string | undefined {
  return outranksEveryMember(actor) || actor === "ADMIN"
    ? undefined
    : "PERMISSION ERROR: Only an OWNER or ADMIN can move a service to another organization";
}

/** Returns an error message unless the actor may assign this role. Applies to new members and to role changes. */
function denyRole(actor: Actor, role: MemberRole): string | undefined {
  if (actor === "MANAGER" && role === "ADMIN") return HIGH_LEVEL;
  if (actor === "ADMIN" && role === "ADMIN") return ASSIGN_ADMIN;
  return undefined;
}

/** Returns an error message unless the actor may add a member with this role. */
export function denyAddMember(actor: Actor, role: MemberRole): string | undefined {
  return manages(actor) ? denyRole(actor, role) : INSUFFICIENT;
}

/**
 * Returns an error message unless the actor may change any members. Call {@link denyNewRole} next, when the target is
 * known.
 */
export function denyChangeMembers(actor: Actor): string | undefined {
  if (actor === undefined) return NOT_INSIDE;
  return manages(actor) ? undefined : INSUFFICIENT;
}

/**
 * Returns an error message unless the actor may change a member's role from `current` to `role`. Call {@link
 * denyChangeMembers} first.
 */
export function denyNewRole(actor: Actor, current: MemberRole, role: MemberRole): string | undefined {
  if (actor === "MANAGER" && current === "ADMIN") return HIGH_LEVEL;
  return denyRole(actor, role);
}

/**
 * Returns an error message unless the actor may remove this member. `role` is undefined when there is no such member.
 */
export function denyRemoveMember(
  actor: Actor,
  target: { isSelf: boolean; role: MemberRole | undefined },
): string | undefined {
  if (actor === undefined) return NOT_INSIDE;
  if (actor === "EVALUATOR" && !target.isSelf) {
    return "PERMISSION ERROR: Only users with OWNER, ADMIN, or MANAGER role can remove members, unless the user is removing themselves";
  }
  if (actor === "MANAGER" && target.role === "ADMIN") {
    return "PERMISSION ERROR: Only SPACE admins or organization-level OWNER/ADMIN can remove ADMIN members.";
  }
  return undefined;
}

/**
 * Returns an error message unless the actor may manage any keys. Call {@link denyAddKey} or {@link denyRemoveKey} next,
 * when the scope is known.
 */
export function denyKeys(actor: Actor): string | undefined {
  return manages(actor) ? undefined : INSUFFICIENT;
}

/** Returns an error message unless the actor may create a key of this scope. Call {@link denyKeys} first. */
export function denyAddKey(actor: Actor, scope: KeyScope): string | undefined {
  return actor === "MANAGER" && scope === "ALL"
    ? "PERMISSION ERROR: Only SPACE admins or organization-level OWNER and ADMIN can add API keys with ALL scope."
    : undefined;
}

/** Returns an error message unless the actor may delete a key of this scope. Call {@link denyKeys} first. */
export function denyRemoveKey(actor: Actor, scope: KeyScope): string | undefined {
  return actor === "MANAGER" && scope === "ALL"
    ? "PERMISSION ERROR: Only SPACE admins or organization-level OWNER and ADMIN can remove API keys with ALL scope."
    : undefined;
}

/** Returns true if the actor may see keys of this scope unmasked. Source: contract users-organizations §6.3. */
export function seesKey(actor: Actor, scope: KeyScope): boolean {
  if (actor === "MANAGER") return scope !== "ALL";
  return manages(actor);
}

/** Masks a key for users who may not use it: still recognizable, but useless. */
export function maskKey(apiKey: string): string {
  return `${apiKey.slice(0, 12)}${"*".repeat(16)}`;
}

const INHERITANCE: readonly MemberRole[] = ["ADMIN", "MANAGER", "EVALUATOR"];

/**
 * Selects the next owner of an organization whose owner leaves. Prefers ADMIN over MANAGER over EVALUATOR, then the
 * earliest member.
 */
export function chooseHeir<T extends { role: MemberRole }>(inOrderOfJoining: readonly T[]): T | undefined {
  for (const role of INHERITANCE) {
    const heir = inOrderOfJoining.find((member) => member.role === role);
    if (heir !== undefined) return heir;
  }
  return undefined;
}
