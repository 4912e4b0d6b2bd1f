import { isPlatformAdmin, type Caller, type KeyScope, type MemberRole, type OrganizationRole } from "./caller.ts";

/*
 * What somebody may do to this member, this role, this key. permissions.ts decides who may attempt a call at all; here are
 * the decisions that need the target. Each function returns the sentence of the refusal, or undefined for "may".
 * Source: specification, Authentication rules 5-10; contract users-organizations §4.5-§6.3.
 */

/** What the caller counts as inside an organization: a platform ADMIN before anything it may also be in there. */
export type Actor = "PLATFORM_ADMIN" | OrganizationRole | undefined;

/** The caller as an actor in an organization in which it has this role. */
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

/** Whether the actor may read the organization. */
export function denyRead(actor: Actor, organizationId: string): string | undefined {
  return actor === undefined ? `PERMISSION ERROR: You are not a member of organization ${organizationId}` : undefined;
}

/** Whether the actor may send these fields of an organization; name is open to every manager. */
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

/** Whether the actor may delete the organization. */
export function denyDelete(actor: Actor, organizationId: string): string | undefined {
  return outranksEveryMember(actor) ? undefined : `You are not the owner of organization ${organizationId}`;
}

/** Whether the actor may move a service out of the organization; for that organization the move is a removal. */
export function denyMoveService(actor: Actor): string | undefined {
  return outranksEveryMember(actor) || actor === "ADMIN"
    ? undefined
    : "PERMISSION ERROR: Only an OWNER or ADMIN can move a service to another organization";
}

/** Whether the actor may give somebody this role; asked for new members and for changes. */
function denyRole(actor: Actor, role: MemberRole): string | undefined {
  if (actor === "MANAGER" && role === "ADMIN") return HIGH_LEVEL;
  if (actor === "ADMIN" && role === "ADMIN") return ASSIGN_ADMIN;
  return undefined;
}

/** Whether the actor may add a member with this role. */
export function denyAddMember(actor: Actor, role: MemberRole): string | undefined {
  return manages(actor) ? denyRole(actor, role) : INSUFFICIENT;
}

/** Whether the actor may change members at all; denyNewRole follows when the target is known. */
export function denyChangeMembers(actor: Actor): string | undefined {
  if (actor === undefined) return NOT_INSIDE;
  return manages(actor) ? undefined : INSUFFICIENT;
}

/** Whether an actor who may change members may take this member from its role to the new one. */
export function denyNewRole(actor: Actor, current: MemberRole, role: MemberRole): string | undefined {
  if (actor === "MANAGER" && current === "ADMIN") return HIGH_LEVEL;
  return denyRole(actor, role);
}

/** Whether the actor may remove this member; `role` is undefined when there is no such member. */
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

/** Whether the actor may touch keys at all; the two below follow when the scope is known. */
export function denyKeys(actor: Actor): string | undefined {
  return manages(actor) ? undefined : INSUFFICIENT;
}

/** Whether an actor who may touch keys may create one of this scope. */
export function denyAddKey(actor: Actor, scope: KeyScope): string | undefined {
  return actor === "MANAGER" && scope === "ALL"
    ? "PERMISSION ERROR: Only SPACE admins or organization-level OWNER and ADMIN can add API keys with ALL scope."
    : undefined;
}

/** Whether an actor who may touch keys may delete one of this scope. */
export function denyRemoveKey(actor: Actor, scope: KeyScope): string | undefined {
  return actor === "MANAGER" && scope === "ALL"
    ? "PERMISSION ERROR: Only SPACE admins or organization-level OWNER and ADMIN can remove API keys with ALL scope."
    : undefined;
}

/** Whether the actor is shown keys of this scope in clear. Source: contract users-organizations §6.3. */
export function seesKey(actor: Actor, scope: KeyScope): boolean {
  if (actor === "MANAGER") return scope !== "ALL";
  return manages(actor);
}

/** A key as those see it who may not use it: recognisable, and of no use. */
export function maskKey(apiKey: string): string {
  return `${apiKey.slice(0, 12)}${"*".repeat(16)}`;
}

const INHERITANCE: readonly MemberRole[] = ["ADMIN", "MANAGER", "EVALUATOR"];

/** Who inherits an organization whose owner leaves: the first ADMIN, else MANAGER, else EVALUATOR, in order of joining. */
export function chooseHeir<T extends { role: MemberRole }>(inOrderOfJoining: readonly T[]): T | undefined {
  for (const role of INHERITANCE) {
    const heir = inOrderOfJoining.find((member) => member.role === role);
    if (heir !== undefined) return heir;
  }
  return undefined;
}
