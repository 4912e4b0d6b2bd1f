/** Platform role of a user account. */
export type PlatformRole = "ADMIN" | "USER";
/** Role of a member inside one organization; the owner counts as OWNER without being a member. */
export type MemberRole = "ADMIN" | "MANAGER" | "EVALUATOR";
/** What somebody is inside one organization. */
export type OrganizationRole = "OWNER" | MemberRole;
/** What an organization key may be used for. */
export type KeyScope = "ALL" | "MANAGEMENT" | "EVALUATION";

/** Who is asking. Source: specification, Authentication. */
export type Caller =
  | { kind: "anonymous" }
  | { kind: "user"; id: string; username: string; role: PlatformRole }
  | { kind: "key"; keyId: string; organizationId: string; scope: KeyScope };

export type UserCaller = Extract<Caller, { kind: "user" }>;

/** True for a user key of a platform ADMIN, who passes every organization-role check. */
export function isPlatformAdmin(caller: Caller): boolean {
  return caller.kind === "user" && caller.role === "ADMIN";
}
