import { Hono } from "hono";
import { isIdentifier } from "../../operations/access.ts";
import { Failure } from "../../operations/errors.ts";
import {
  addOrganizationKey,
  changeOrganizationKey,
  listOrganizationKeys,
  removeOrganizationKey,
} from "../../operations/accounts/keys.ts";
import { readDenials, readOverview, readTrends } from "../../operations/reports/overview.ts";
import { addMember, changeMemberRole, removeMember } from "../../operations/accounts/members.ts";
import {
  createOrganization,
  deleteOrganization,
  listOrganizations,
  showKeyOrganization,
  showOrganization,
  updateOrganization,
} from "../../operations/accounts/organizations.ts";
import { type AppEnv, context, fieldOf, type AppContext } from "../context.ts";
import { bodyOf, fieldsOf } from "../body.ts";
import { newMember, newMemberRole, newOrganization, organizationChange } from "../../wire/organizations.ts";
import { keyChange, keyRequest } from "../../wire/organization-keys.ts";
import { afterOf, leadingInteger, nearOf, organizationOf, queryParameter, setNextAfter } from "../params.ts";
import { json, reply } from "../reply.ts";

/** Reads `hours`: the period for which reached limits are counted. */
function hoursOf(c: AppContext): number {
  const hours = Number(queryParameter(c, "hours") ?? 24);
  if (Number.isInteger(hours) && hours >= 1 && hours <= 720) return hours;
  throw new Failure("invalid", "INVALID DATA: hours must be a whole number from 1 to 720");
}

/**
 * Returns the organization id of the path. Call it after validating the body.
 * @throws Failure unprocessable for a malformed id.
 */
function organizationIdOf(c: AppContext): string {
  const organizationId = c.req.param("organizationId") ?? "";
  if (isIdentifier(organizationId)) return organizationId;
  throw new Failure("unprocessable", "organizationId must be a valid 24-character hex string");
}

/** Reads a paging parameter. The operation rejects an empty or unreadable one. */
function pageNumber(given: string | undefined, byDefault: number): number {
  return given === undefined ? byDefault : (leadingInteger(given) ?? Number.NaN);
}

/** The organization of the calling key. Source: contract files-and-migration, Clarifications. */
export const keyOrganizationRoute = new Hono<AppEnv>().get("/", async (c) =>
  json(c, await showKeyOrganization(context(c), organizationOf(c))),
);

/** Organizations, their members and their keys. Source: contract users-organizations §4-§6. */
export const organizationRoutes = new Hono<AppEnv>()
  .get("/", async (c) => {
    const { next, ...page } = await listOrganizations(context(c), () => ({
      q: queryParameter(c, "q") ?? "",
      limit: pageNumber(queryParameter(c, "limit"), 10),
      offset: pageNumber(queryParameter(c, "offset"), 0),
      after: afterOf(c),
    }));
    setNextAfter(c, next);
    return json(c, page);
  })
  .post("/", async (c) => json(c, await createOrganization(context(c), bodyOf(c, newOrganization)), 201))
  .get("/:organizationId", async (c) => json(c, await showOrganization(context(c), organizationIdOf(c))))
  .put("/:organizationId", async (c) => {
    const change = bodyOf(c, organizationChange);
    return json(c, await updateOrganization(context(c), { organizationId: organizationIdOf(c), ...change }));
  })
  .delete("/:organizationId", async (c) => {
    await deleteOrganization(context(c), organizationIdOf(c));
    return reply(c, null, 204);
  })
  .post("/:organizationId/members", async (c) => {
    const member = bodyOf(c, newMember);
    return json(c, await addMember(context(c), { organizationId: organizationIdOf(c), ...member }));
  })
  .put("/:organizationId/members/:username", async (c) => {
    const { role } = bodyOf(c, newMemberRole);
    const organizationId = organizationIdOf(c);
    const username = c.req.param("username");
    return json(c, await changeMemberRole(context(c), { organizationId, username, role }));
  })
  .delete("/:organizationId/members/:username", async (c) => {
    const organizationId = organizationIdOf(c);
    return json(c, await removeMember(context(c), { organizationId, username: c.req.param("username") }));
  })
  .get("/:organizationId/overview", async (c) =>
    json(
      c,
      await readOverview(context(c), {
        organizationId: organizationIdOf(c),
        near: nearOf(c) ?? 0.8,
        hours: hoursOf(c),
      }),
    ),
  )
  .get("/:organizationId/trends", async (c) => json(c, await readTrends(context(c), organizationIdOf(c))))
  .get("/:organizationId/denials", async (c) =>
    json(c, await readDenials(context(c), { organizationId: organizationIdOf(c), hours: hoursOf(c) })),
  )
  .post("/:organizationId/api-keys", async (c) => {
    const organizationId = organizationIdOf(c);
    const given = fieldOf(fieldsOf(c), "scope");
    const scope = given === undefined ? queryParameter(c, "scope") : given;
    // Other fields extend the contract, so their checks follow the contract's.
    const details = () => {
      const { name = null, expiresAt = null } = bodyOf(c, keyRequest);
      return { name, expiresAt };
    };
    return json(c, await addOrganizationKey(context(c), { organizationId, scope, details }));
  })
  .get("/:organizationId/api-keys", async (c) => json(c, await listOrganizationKeys(context(c), organizationIdOf(c))))
  .put("/:organizationId/api-keys/:apiKeyId", async (c) => {
    const { name, expiresAt } = bodyOf(c, keyChange);
    const changes = { name, expiresAt };
    const keyId = c.req.param("apiKeyId");
    return json(c, await changeOrganizationKey(context(c), { organizationId: organizationIdOf(c), keyId, changes }));
  })
  .delete("/:organizationId/api-keys/:apiKeyId", async (c) => {
    const organizationId = organizationIdOf(c);
    return json(c, await removeOrganizationKey(context(c), { organizationId, idOrKey: c.req.param("apiKeyId") }));
  });
