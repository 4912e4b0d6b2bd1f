import type { KeyScope, OrganizationRole, PlatformRole } from "./caller.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Root of a pattern: the API, or the server's root for a protocol with fixed paths. */
export type Base = "/api/v1" | "/";

/**
 * One row of the permission table. `pattern` is relative to `base` (default: /api/v1). `*` matches exactly one segment;
 * a final `/**` matches the prefix itself and everything below it.
 * - `users`: platform roles that pass.
 * - `keys`: scopes that pass. "user-only" rejects all organization keys with a different message.
 * - `members`: for paths inside an organization, the organization roles that pass. A platform ADMIN always passes.
 * - `reads`: a POST that changes nothing, or nothing without a body. A frozen organization goes on answering it.
 */
export interface PermissionRule {
  base?: Base;
  pattern: string;
  methods: readonly Method[];
  access: "public" | { users: readonly PlatformRole[]; keys: readonly KeyScope[] | "user-only" };
  members?: readonly OrganizationRole[];
  reads?: true | "without body";
  /** Users who are no members get 404, as for an organization that does not exist. Default: 403. */
  hidesFromOutsiders?: true;
  /** A platform ADMIN passes if the query names the organization (contract README, decision 2). */
  adminNamingOrganization?: true;
}

const ALL_METHODS: readonly Method[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const EVERY_SCOPE: readonly KeyScope[] = ["ALL", "MANAGEMENT", "EVALUATION"];
const MANAGING: readonly KeyScope[] = ["ALL", "MANAGEMENT"];
const USER_KEYS = { users: ["ADMIN", "USER"], keys: "user-only" } as const;
const USERS_NO_KEYS = { users: ["ADMIN", "USER"], keys: [] } as const;
const READERS: readonly OrganizationRole[] = ["OWNER", "ADMIN", "MANAGER", "EVALUATOR"];
const WRITERS: readonly OrganizationRole[] = ["OWNER", "ADMIN", "MANAGER"];
const REMOVERS: readonly OrganizationRole[] = ["OWNER", "ADMIN"];

/** Creates the rules of one resource inside an organization: for reading, writing and removing. */
function insideOrganization(
  pattern: string,
  writes: readonly Method[],
  access: PermissionRule["access"] = USER_KEYS,
  removes: readonly Method[] = ["DELETE"],
): PermissionRule[] {
  const rules: PermissionRule[] = [{ pattern, methods: ["GET"], access, members: READERS }];
  if (writes.length > 0) rules.push({ pattern, methods: writes, access, members: WRITERS });
  if (removes.length > 0) rules.push({ pattern, methods: removes, access, members: REMOVERS });
  return rules;
}

/** Creates a rule of connections to payment providers, which outsiders do not even find. Source: contract billing §5, 11. */
function billing(pattern: string, methods: readonly Method[], members: readonly OrganizationRole[]): PermissionRule[] {
  return [{ pattern, methods, access: USER_KEYS, members, hidesFromOutsiders: true }];
}

/**
 * The permission table. The first row that matches method and path decides, from top to bottom. A path without a row is
 * denied to everyone, so a route without a rule is unreachable. membership.ts makes the decisions that depend on the
 * target (member, role, key). Source: specification, Authentication rules 1-13; contract users-organizations §7.1,
 * services-pricings §1.2, contracts §1, features-events §0.
 */
export const PERMISSION_RULES: readonly PermissionRule[] = [
  { pattern: "/users/authenticate", methods: ["POST"], access: "public" },
  { pattern: "/users", methods: ["POST"], access: "public" },
  { pattern: "/users/*/recovery", methods: ["POST"], access: { users: ["ADMIN"], keys: "user-only" } },
  { pattern: "/users/**", methods: ALL_METHODS, access: USER_KEYS },
  { pattern: "/sessions", methods: ["POST"], access: "public" },
  { pattern: "/sessions/**", methods: ["GET", "DELETE"], access: USER_KEYS },
  { pattern: "/auth/oidc/link", methods: ["GET"], access: USER_KEYS },
  { pattern: "/auth/oidc/backchannel-logout", methods: ["POST"], access: "public" },
  { pattern: "/auth/**", methods: ["GET"], access: "public" },

  { pattern: "/recovery", methods: ["POST"], access: "public" },
  { pattern: "/recovery/*", methods: ["POST"], access: "public" },
  { pattern: "/invitations/*", methods: ["GET"], access: "public" },
  { pattern: "/invitations/*/accept", methods: ["POST"], access: "public" },
  { pattern: "/organizations/*/invitations", methods: ["GET", "POST"], access: USER_KEYS, members: WRITERS },
  { pattern: "/organizations/*/invitations/*", methods: ["DELETE"], access: USER_KEYS, members: WRITERS },

  ...insideOrganization("/organizations/*/services", ["POST"]),
  { pattern: "/organizations/*/services/lint", methods: ["POST"], access: USER_KEYS, members: WRITERS, reads: true },
  ...insideOrganization("/organizations/*/services/*", ["PUT", "PATCH"]),
  ...insideOrganization("/organizations/*/services/*/pricings", ["POST"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/pricings/*", ["PUT", "PATCH"]),
  ...insideOrganization("/organizations/*/services/*/pricings/*/public-url", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/versions", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/pricings/*/source", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/pricings/*/expectations", ["PUT"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/diff", [], USER_KEYS, []),
  { pattern: "/organizations/*/services/*/diff", methods: ["POST"], access: USER_KEYS, members: WRITERS, reads: true },
  {
    pattern: "/organizations/*/services/*/impact",
    methods: ["POST"],
    access: USER_KEYS,
    members: WRITERS,
    reads: true,
  },
  {
    pattern: "/organizations/*/services/*/replay",
    methods: ["POST"],
    access: USER_KEYS,
    members: WRITERS,
    reads: true,
  },
  { pattern: "/organizations/*/services/*/novations", methods: ["POST"], access: USER_KEYS, members: WRITERS },
  ...insideOrganization("/organizations/*/services/*/decisions", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/offer", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/scheduled", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/services/*/scheduled/*", ["DELETE"], USER_KEYS, []),
  { pattern: "/organizations/*/public-offer", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/public-offer", methods: ["PUT"], access: USER_KEYS, members: REMOVERS },
  { pattern: "/organizations/*/gate", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/approvals", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/approvals", methods: ["PUT"], access: USER_KEYS, members: ["OWNER"] },
  { pattern: "/organizations/*/change-requests/**", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/change-requests/**", methods: ["POST"], access: USER_KEYS, members: WRITERS },
  { pattern: "/organizations/*/gate", methods: ["PUT"], access: USER_KEYS, members: REMOVERS },
  ...insideOrganization("/organizations/*/usage-alerts", ["PUT"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/local-evaluation", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts", ["POST"], USERS_NO_KEYS),
  // Group novation rejects keys as "user keys only"; no other contract call in an organization does.
  { pattern: "/organizations/*/contracts", methods: ["PUT"], access: USER_KEYS, members: WRITERS },
  ...insideOrganization("/organizations/*/contracts/*", ["PUT", "PATCH"], USERS_NO_KEYS),
  ...insideOrganization("/organizations/*/contracts/*/overrides/**", ["PUT"]),
  ...insideOrganization("/organizations/*/contracts/*/usage", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/usage", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/overrides", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/holds", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/balances", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/blocks", [], USER_KEYS, []),
  // Cancelling and revoking are managing: the row stays.
  ...insideOrganization("/organizations/*/contracts/*/blocks", ["POST"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/blocks/*", ["DELETE"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/members", ["PUT"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/members/*", ["PUT", "DELETE"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/budgets", [], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/budgets/*", ["PUT", "DELETE"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/scheduled", ["POST"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/contracts/*/scheduled/*", ["DELETE"], USER_KEYS, []),
  ...insideOrganization("/organizations/*/scheduled", [], USER_KEYS, []),
  { pattern: "/organizations/*/contracts/*/billing", methods: ["DELETE"], access: USER_KEYS, members: REMOVERS },
  ...billing("/organizations/*/billing", ["GET"], WRITERS),
  ...billing("/organizations/*/billing/*", ["GET"], WRITERS),
  ...billing("/organizations/*/billing/*", ["PUT", "DELETE"], REMOVERS),
  ...billing("/organizations/*/billing/*/messages", ["GET"], WRITERS),
  ...billing("/organizations/*/billing/*/messages/*/replay", ["POST"], WRITERS),
  ...billing("/organizations/*/billing/*/replay", ["POST"], WRITERS),
  ...insideOrganization("/organizations/*/webhooks/**", ["POST", "PUT", "DELETE"], USER_KEYS, []),
  { pattern: "/organizations/*/overview", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/trends", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/denials", methods: ["GET"], access: USER_KEYS, members: READERS },
  { pattern: "/organizations/*/audit-log", methods: ["GET"], access: USER_KEYS, members: REMOVERS },
  { pattern: "/organizations/**", methods: ALL_METHODS, access: USER_KEYS },

  { pattern: "/organization", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },

  { pattern: "/services", methods: ["GET"], access: { users: ["ADMIN"], keys: EVERY_SCOPE } },
  { pattern: "/services", methods: ["POST"], access: { users: [], keys: MANAGING } },
  { pattern: "/services", methods: ["DELETE"], access: { users: ["ADMIN"], keys: ["ALL"] } },
  { pattern: "/services/lint", methods: ["POST"], access: { users: [], keys: MANAGING }, reads: true },
  { pattern: "/services/*", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*", methods: ["PUT", "PATCH"], access: { users: [], keys: MANAGING } },
  {
    pattern: "/services/*",
    methods: ["DELETE"],
    access: { users: [], keys: ["ALL"] },
    adminNamingOrganization: true,
  },
  { pattern: "/services/*/pricings", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/pricings", methods: ["POST"], access: { users: [], keys: MANAGING } },
  { pattern: "/services/*/pricings/*", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/pricings/*", methods: ["PUT", "PATCH"], access: { users: [], keys: MANAGING } },
  {
    pattern: "/services/*/pricings/*",
    methods: ["DELETE"],
    access: { users: [], keys: ["ALL"] },
    adminNamingOrganization: true,
  },
  { pattern: "/services/*/pricings/*/public-url", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/versions", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/pricings/*/source", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/pricings/*/expectations", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/pricings/*/expectations", methods: ["PUT"], access: { users: [], keys: MANAGING } },

  { pattern: "/services/*/scheduled", methods: ["GET"], access: { users: [], keys: MANAGING } },
  { pattern: "/services/*/scheduled/*", methods: ["DELETE"], access: { users: [], keys: MANAGING } },
  { pattern: "/services/*/offer", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/diff", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/services/*/diff", methods: ["POST"], access: { users: [], keys: MANAGING }, reads: true },
  { pattern: "/services/*/impact", methods: ["POST"], access: { users: [], keys: MANAGING }, reads: true },
  { pattern: "/services/*/replay", methods: ["POST"], access: { users: [], keys: MANAGING }, reads: true },
  { pattern: "/services/*/novations", methods: ["POST"], access: { users: [], keys: MANAGING } },
  { pattern: "/services/*/decisions", methods: ["GET"], access: { users: [], keys: MANAGING } },

  { pattern: "/contracts", methods: ["GET", "POST", "PUT"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts", methods: ["DELETE"], access: { users: ["ADMIN"], keys: ["ALL"] } },
  { pattern: "/contracts/*/scheduled", methods: ["POST"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/*/scheduled/*", methods: ["DELETE"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/*/blocks", methods: ["POST"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/*/blocks/*", methods: ["DELETE"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/*/members/*", methods: ["DELETE"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/*/budgets/*", methods: ["DELETE"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/**", methods: ["GET", "PUT", "PATCH"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/contracts/**", methods: ["DELETE"], access: { users: ["ADMIN"], keys: ["ALL"] } },

  { pattern: "/overrides", methods: ["GET"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/scheduled", methods: ["GET"], access: { users: ["ADMIN"], keys: MANAGING } },

  { pattern: "/features", methods: ["GET"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/features/*", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE }, reads: true },
  { pattern: "/features/*/pricing-token", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE }, reads: true },
  { pattern: "/features/*/*", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE }, reads: "without body" },
  { pattern: "/features/*/*/unlock", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE }, reads: true },
  { pattern: "/features/**", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/features/**", methods: ["PUT", "PATCH", "DELETE"], access: { users: [], keys: MANAGING } },
  { pattern: "/snapshot", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE }, reads: true },

  // Ending a hold or a lease is part of consuming.
  { pattern: "/holds/*", methods: ["POST", "DELETE"], access: { users: [], keys: EVERY_SCOPE } },
  { pattern: "/leases/*", methods: ["POST", "DELETE"], access: { users: [], keys: EVERY_SCOPE } },

  { pattern: "/usage", methods: ["GET"], access: { users: ["ADMIN"], keys: MANAGING } },
  { pattern: "/usage", methods: ["POST"], access: { users: [], keys: EVERY_SCOPE } },

  // OFREP runs the same evaluations under its own paths, and never consumes usage.
  {
    base: "/",
    pattern: "/ofrep/v1/evaluate/flags",
    methods: ["POST"],
    access: { users: [], keys: EVERY_SCOPE },
    reads: true,
  },
  {
    base: "/",
    pattern: "/ofrep/v1/evaluate/flags/*",
    methods: ["POST"],
    access: { users: [], keys: EVERY_SCOPE },
    reads: true,
  },

  // A tool call is a request of its own, to which its own rule applies.
  {
    base: "/",
    pattern: "/mcp",
    methods: ALL_METHODS,
    access: { users: ["ADMIN", "USER"], keys: EVERY_SCOPE },
    reads: true,
  },

  { pattern: "/webhooks/**", methods: ["GET", "POST", "PUT", "DELETE"], access: { users: ["ADMIN"], keys: MANAGING } },

  { pattern: "/audit-log", methods: ["GET"], access: { users: ["ADMIN"], keys: ["ALL"] } },
  {
    pattern: "/pricing-tokens/verify",
    methods: ["POST"],
    access: { users: ["ADMIN", "USER"], keys: EVERY_SCOPE },
    reads: true,
  },
  { base: "/", pattern: "/.well-known/jwks.json", methods: ["GET"], access: "public" },
  { pattern: "/analytics/**", methods: ["GET"], access: { users: ["ADMIN", "USER"], keys: EVERY_SCOPE } },
  { pattern: "/cache/**", methods: ["GET", "POST"], access: { users: ["ADMIN"], keys: "user-only" } },
  { pattern: "/public-offers/*/*", methods: ["GET"], access: "public" },
  { pattern: "/billing/*", methods: ["POST"], access: "public" },
  { pattern: "/events/**", methods: ["GET", "POST"], access: "public" },
  { pattern: "/healthcheck", methods: ["GET"], access: "public" },
  { pattern: "/openapi.json", methods: ["GET"], access: "public" },
  { pattern: "/docs/**", methods: ["GET"], access: "public" },
];
