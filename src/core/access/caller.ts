/** Platform role of a user account. */
export type PlatformRole = "ADMIN" | "USER";
/** Role of a member inside one organization. The owner has the role OWNER without being a member. */
export type MemberRole = "ADMIN" | "MANAGER" | "EVALUATOR";
/** Role of a user inside one organization. */
export type OrganizationRole = "OWNER" | MemberRole;
/** Permission level of an organization key. */
export type KeyScope = "ALL" | "MANAGEMENT" | "EVALUATION";

/** Caller of a request: anonymous, a user, or an organization key. Source: specification, Authentication. */
export type Caller =
  | { kind: "anonymous" }
  | {
      kind: "user";
      id: string;
      username: string;
      role: PlatformRole;
      /** Session of a request without a key, whose cookie named the user. */
      sessionId?: string;
    }
  | {
      kind: "key";
      keyId: string;
      organizationId: string;
      scope: KeyScope;
      /** Set while the organization moves to another instance, and afterwards. */
      move?: Move;
    };

/** Move of an organization to another instance. */
export interface Move {
  /** Address of the other instance; null while the organization is still here, but frozen. */
  readonly to: string | null;
}

export type UserCaller = Extract<Caller, { kind: "user" }>;

/** Kinds of authors: callers, and a connection to a payment provider. */
export type ActorKind = Caller["kind"] | "billing";

/** Author of a change, as stored. */
export interface Author {
  actorKind: ActorKind;
  actorId: string | null;
}

/** Returns the caller as the author of a change. */
export function authorOf(caller: Caller): Author {
  const actorId = caller.kind === "user" ? caller.id : caller.kind === "key" ? caller.keyId : null;
  return { actorKind: caller.kind, actorId };
}

/** Returns true for a user key of a platform ADMIN, who passes every check of organization roles. */
export function isPlatformAdmin(caller: Caller): boolean {
  return caller.kind === "user" && caller.role === "ADMIN";
}
