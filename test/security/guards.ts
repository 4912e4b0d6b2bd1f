/** Removes one guard. `find` occurs once in the file below src/. */
export interface Guard {
  file: string;
  what: string;
  find: string;
  put: string;
  /** A second place, for guards that are checked twice. */
  also?: { find: string; put: string };
  /** The smallest test that detects the removal: a file below test/, and a pattern of its titles. */
  test: { file: string; title?: string };
}

type Test = Guard["test"];
const guard = (file: string, what: string, find: string, put: string, test: Test): Guard => ({
  file,
  what,
  find,
  put,
  test,
});
const inFile = (file: string): Test => ({ file });
/** Operations of the tenant matrix that match. */
const matrix = (title: string): Test => ({ file: "security/tenants.fault.test.ts", title });

/** Every place in the file that the removal changes. */
export const placesOf = ({ find, put, also }: Guard) => [{ find, put }, ...(also === undefined ? [] : [also])];

/** Predicates that keep tenants and roles apart. `npm run test:guards` removes each one, and a test must fail. */
export const GUARDS: readonly Guard[] = [
  {
    ...guard(
      "operations/messaging/change-stream.ts",
      "a stream of changes leaves out other organizations",
      "if ((change.organizationId ?? organizationId) !== organizationId) return false;",
      "",
      { file: "http/change-stream.pg.test.ts", title: "an organization is deleted" },
    ),
    also: { find: "if (!(change.organizationIds?.includes(organizationId) ?? true)) return false;", put: "" },
  },
  guard(
    "http/authorize.ts",
    "the permission table is asked",
    "if (denial !== undefined) {",
    "if (denial?.letter === undefined && denial !== undefined) {",
    inFile("http/permissions.pg.test.ts"),
  ),
  guard(
    "http/authorize.ts",
    "roles in an organization are asked",
    "if (rule?.members !== undefined)",
    "if (rule === undefined)",
    matrix("GET /organizations/\\{organizationId\\}/contracts$"),
  ),
  guard(
    "http/authorize.ts",
    "who has no role in it is refused",
    "if (role === undefined) {",
    // Both checks go, because either one alone still rejects a caller without a role.
    "if (role === undefined) return;\n  if (role === undefined) {",
    matrix("GET /organizations/\\{organizationId\\}/contracts$"),
  ),
  guard(
    "http/authorize.ts",
    "the role has to be one of the rule's",
    "if (!roles.includes(role)) {",
    "if (roles.length === 0) {",
    matrix("POST /organizations/\\{organizationId\\}/contracts$"),
  ),
  guard(
    "operations/access.ts",
    "a key is bound to its organization, whatever the query names",
    'if (caller.kind === "key") return caller.organizationId;',
    'if (caller.kind === "key") return named.query ?? caller.organizationId;',
    matrix("GET /contracts$"),
  ),
  guard(
    "operations/access.ts",
    "a key that is over is unknown",
    "return isOver ? null : known;",
    "return isOver && known === null ? null : known;",
    inFile("http/key-rotation.pg.test.ts"),
  ),
  guard(
    "operations/access.ts",
    "memberships are those of the organization",
    "and(eq(members.organizationId, organizationId), eq(members.userId, callerId))",
    "eq(members.userId, callerId)",
    matrix("GET /organizations/\\{organizationId\\}$"),
  ),
  guard(
    "operations/policy/change-decision.ts",
    "only an OWNER overrides a gate",
    "if (isOwner) return reason;",
    "if (isOwner || reason !== undefined) return reason;",
    inFile("http/gate.pg.test.ts"),
  ),
  guard(
    "core/access/membership.ts",
    "a MANAGER moves no service away",
    'outranksEveryMember(actor) || actor === "ADMIN"\n    ? undefined\n    : "PERMISSION ERROR: Only an OWNER or ADMIN can move',
    'manages(actor)\n    ? undefined\n    : "PERMISSION ERROR: Only an OWNER or ADMIN can move',
    inFile("security/moves.pg.test.ts"),
  ),
  guard(
    "operations/changes/gates.ts",
    "decisions of the organization that a service has left stay with it",
    "eq(pricingDecisions.organizationId, service.organizationId),",
    "eq(pricingDecisions.serviceId, service.id),",
    { file: "security/moves.pg.test.ts", title: "decisions of the organization" },
  ),
  guard(
    "operations/catalog/service-changes.ts",
    "a key that may not remove services moves none away",
    'findRule("DELETE", path)',
    'findRule("PUT", path)',
    inFile("security/moves.pg.test.ts"),
  ),
  guard(
    "operations/catalog/service-changes.ts",
    "the gate decides on a move",
    "return decideChange(ctx,",
    "return service.id !== targetId ? undefined : decideChange(ctx,",
    inFile("security/moves.pg.test.ts"),
  ),
  guard(
    "operations/contracts/group-decisions.ts",
    "the gate decides on a group novation",
    "if (!gated.has(novation.organizationId)) continue;",
    "if (gated.size >= 0) continue;",
    inFile("http/group-novation-gate.pg.test.ts"),
  ),
  guard(
    "operations/reports/audit-log.ts",
    "entries of one organization",
    "eq(auditLog.organizationId, input.organizationId)",
    "undefined",
    matrix("GET /audit-log$"),
  ),
  guard(
    "operations/contract-address.ts",
    "a contract of one organization",
    "eq(contracts.organizationId, organizationId)",
    "undefined",
    matrix("GET /contracts/\\{userId\\}$"),
  ),
  guard(
    "operations/contracts/contract-listing.ts",
    "contracts of one organization",
    "eq(contracts.organizationId, query.organizationId)",
    "undefined",
    matrix("GET /contracts$"),
  ),
  guard(
    "operations/contracts/contract-rows.ts",
    "a group of one organization",
    "organizationId === undefined ? undefined : eq(contracts.organizationId, organizationId)",
    "undefined",
    inFile("http/contracts-isolation.pg.test.ts"),
  ),
  guard(
    "http/routes/contracts.ts",
    "a body names no other organization",
    "if (fixed !== undefined && named && named !== fixed) {",
    'if (fixed === "" && named && named !== fixed) {',
    inFile("http/contracts.pg.test.ts"),
  ),
  guard(
    "operations/evaluation/offers.ts",
    "only a published offer is everybody's",
    "if (!service.offerPublished) throw unknown;",
    "",
    matrix("GET /public-offers/"),
  ),
  {
    ...guard(
      "db/queries/contract-snapshots.ts",
      "what is evaluated is the organization's",
      "where organization_id = asked.organization_id and user_id = asked.user_id",
      "where user_id = asked.user_id",
      matrix("POST /features/\\{userId\\}$"),
    ),
    also: { find: "select c.organization_id, c.user_id, c.id", put: "select asked.organization_id, c.user_id, c.id" },
  },
  guard(
    "operations/evaluation/features.ts",
    "features of one organization",
    "eq(services.organizationId, organizationId),",
    "",
    matrix("GET /features$"),
  ),
  guard(
    "db/queries/pricings.ts",
    "a service of one organization",
    "eq(services.organizationId, input.organizationId),\n        eq(services.nameKey, serviceKey(input.name)),",
    "eq(services.nameKey, serviceKey(input.name)),",
    matrix("GET /services/\\{serviceName\\}$"),
  ),
  guard(
    "operations/catalog/services.ts",
    "services of one organization are listed",
    "input.organizationId === undefined ? undefined : eq(services.organizationId, input.organizationId),",
    "undefined,",
    matrix("GET /services$"),
  ),
  guard(
    "operations/catalog/services.ts",
    "services of one organization are pruned",
    ".where(input.organizationId === undefined ? undefined : eq(services.organizationId, input.organizationId))",
    ".where(undefined)",
    inFile("http/services-contracts.pg.test.ts"),
  ),
  guard(
    "operations/catalog/service-changes.ts",
    "who moves a service may write where it goes",
    'if (member?.role === "ADMIN" || member?.role === "MANAGER") return;',
    "if (member?.role !== undefined || targetId) return;",
    inFile("http/services-contracts.pg.test.ts"),
  ),
  guard(
    "operations/accounts/keys.ts",
    "keys of one organization are listed",
    ".where(eq(organizationKeys.organizationId, organizationId))",
    "",
    matrix("GET /organizations/\\{organizationId\\}/api-keys$"),
  ),
  guard(
    "operations/accounts/keys.ts",
    "a key of one organization is changed",
    "and(eq(organizationKeys.organizationId, organizationId), eq(organizationKeys.id, keyId))",
    "and(eq(organizationKeys.id, keyId))",
    matrix("PUT /organizations/\\{organizationId\\}/api-keys"),
  ),
  guard(
    "operations/accounts/keys.ts",
    "a key of one organization is deleted",
    "eq(organizationKeys.organizationId, organizationId),\n          or(",
    "or(",
    matrix("DELETE /organizations/\\{organizationId\\}/api-keys"),
  ),
  guard(
    "operations/accounts/members.ts",
    "a member of one organization is found",
    "and(eq(members.organizationId, organizationId), eq(users.username, username))",
    "eq(users.username, username)",
    inFile("http/organizations-members.pg.test.ts"),
  ),
  guard(
    "operations/accounts/members.ts",
    "a member of one organization is changed",
    "return and(eq(members.organizationId, organizationId), eq(members.userId, userId));",
    "return and(eq(members.userId, userId));",
    inFile("http/organizations-members.pg.test.ts"),
  ),
  guard(
    "operations/accounts/organization-view.ts",
    "refusals about members, roles and keys refuse",
    "if (refusal !== undefined) throw",
    'if (refusal === "") throw',
    inFile("http/organizations-members.pg.test.ts"),
  ),
  guard(
    "operations/messaging/webhooks.ts",
    "a webhook of one organization",
    "and(eq(webhookEndpoints.id, webhookId), eq(webhookEndpoints.organizationId, organizationId))",
    "and(eq(webhookEndpoints.id, webhookId))",
    matrix("GET /webhooks/\\{webhookId\\}$"),
  ),
  guard(
    "operations/messaging/webhooks.ts",
    "webhooks of one organization are listed",
    ".where(eq(webhookEndpoints.organizationId, organizationId))\n    .orderBy",
    "\n    .orderBy",
    matrix("GET /webhooks$"),
  ),
  guard(
    "operations/messaging/event-stream.ts",
    "a stream of one organization is its members'",
    "if (role === undefined && !isPlatformAdmin(caller)) {",
    'if (role === "OWNER" && !isPlatformAdmin(caller) && role === undefined) {',
    inFile("http/stream.pg.test.ts"),
  ),
  guard(
    "db/queries/outbox.ts",
    "events of one organization",
    "organizationId === undefined ? undefined : eq(outbox.organizationId, organizationId)",
    "undefined",
    inFile("http/stream.pg.test.ts"),
  ),
  guard(
    "operations/accounts/users.ts",
    "a USER changes nobody else",
    "if (target.id !== caller.id) {",
    "if (target.id === undefined) {",
    inFile("http/users.pg.test.ts"),
  ),
  guard(
    "operations/accounts/users.ts",
    "a USER deletes nobody else",
    'if (caller.role !== "ADMIN" && target.id !== caller.id) {',
    'if (caller.role !== "ADMIN" && target.id === "") {',
    inFile("http/users.pg.test.ts"),
  ),
  guard(
    "operations/accounts/users.ts",
    "a USER makes nobody ADMIN",
    'input.role === "ADMIN") {\n    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can assign',
    'input.target === "") {\n    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can assign',
    inFile("http/users.pg.test.ts"),
  ),
  guard(
    "operations/accounts/users.ts",
    "a USER changes no other's role",
    'if (caller.role !== "ADMIN" && input.target !== caller.username) {',
    'if (caller.role !== "ADMIN" && input.target === "") {',
    inFile("http/users.pg.test.ts"),
  ),
  guard(
    "operations/messaging/events.ts",
    "test events have a rate per organization",
    "> MAX_PER_MINUTE) {",
    "> MAX_PER_MINUTE * 1000) {",
    { file: "events/test-events.e2e.test.ts", title: "ten test events per minute" },
  ),
  guard(
    "events/broadcast.ts",
    "a test event reaches numbered sockets of its sender's organization only",
    "send([roomOf(organizationId)], {",
    "send([NUMBERED, roomOf(organizationId)], {",
    { file: "events/test-events.e2e.test.ts", title: "and no other organization's" },
  ),
  guard(
    "events/webhook-claims.ts",
    "an owner of organizations has one share",
    "when is_slow then ${Math.ceil(perOwner / 2)}::integer else ${perOwner}::integer end",
    "when is_slow then ${Math.ceil(perOwner / 2)}::integer else ${perOwner * 1000}::integer end",
    inFile("events/webhook-claims.pg.test.ts"),
  ),
  guard(
    "events/webhook-claims.ts",
    "an organization has a share of its owner's",
    "${Math.ceil(perOrganization / 2)}::integer else ${perOrganization}::integer end",
    "${Math.ceil(perOrganization / 2)}::integer else ${perOrganization * 1000}::integer end",
    inFile("events/webhook-claims.pg.test.ts"),
  ),
  {
    ...guard(
      "events/webhook-claims.ts",
      "reserved places are for owners with nothing in flight",
      "where s.of_owner = 1 or ${limit > reserved}::boolean",
      "where s.of_owner >= 1 or ${limit > reserved}::boolean",
      inFile("events/webhook-claims.pg.test.ts"),
    ),
    also: { find: "${limit - reserved}::integer", put: "${limit}::integer" },
  },
  guard(
    "http/stream-places.ts",
    "streams without a key leave half of the places to keys",
    'if (of("without key") >= Math.ceil(total * WITHOUT_KEY)) throw full();',
    'if (of("without key") >= total) throw full();',
    inFile("http/stream-places.pg.test.ts"),
  ),
  guard(
    "http/stream-places.ts",
    "an account has a share of the streams",
    ">= Math.ceil(total * PER_ACCOUNT)) throw",
    ">= total) throw",
    inFile("http/stream-places.pg.test.ts"),
  ),
  guard(
    "operations/evaluation/pricing-tokens.ts",
    "a token is verified by keys of its organization",
    "return caller.organizationId === organizationId;",
    'return organizationId !== "";',
    inFile("http/token-audience.pg.test.ts"),
  ),
  guard(
    "operations/evaluation/pricing-tokens.ts",
    "a token is verified by users of its organization",
    "(await organizationRole(ctx, organizationId)) !== undefined",
    '(await organizationRole(ctx, organizationId)) !== "OTHER"',
    inFile("http/token-audience.pg.test.ts"),
  ),
  guard(
    "operations/evaluation/pricing-tokens.ts",
    "a token without an organization is refused",
    "if (!isPlatformAdmin(ctx.caller)) return refused(",
    'if (ctx.caller.kind === "anonymous") return refused(',
    inFile("http/token-audience.pg.test.ts"),
  ),
  guard(
    "operations/accounts/username-skeletons.ts",
    "a look-alike of another user's name is refused",
    "  if (similar !== undefined) {",
    '  if (similar?.username === "nobody") {',
    inFile("security/accounts.pg.test.ts"),
  ),
  guard(
    "operations/accounts/throttle.ts",
    "failed sign-ins count per address",
    "digestOf(`${name}\\n${address}`)",
    "digestOf(name)",
    inFile("security/accounts.pg.test.ts"),
  ),
  guard(
    "operations/accounts/throttle.ts",
    "only platform ADMINs are exempt from the limit of account calls",
    "|| isPlatformAdmin(ctx.caller)) return;",
    '|| ctx.caller.kind === "user") return;',
    inFile("security/accounts.pg.test.ts"),
  ),
  guard(
    "operations/state/hashing-queue.ts",
    "an account has a share of the hashing queue",
    '(key !== "" && own >= ownShare)',
    '(key !== "" && own >= maxWaiting)',
    inFile("operations/state/hashing-queue.test.ts"),
  ),
];
