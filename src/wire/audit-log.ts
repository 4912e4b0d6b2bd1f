import { z } from "zod";
import { actor, EXAMPLE, id, moment, NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";

export const auditPage = z
  .strictObject({
    data: z.array(
      z.strictObject({
        id: z.number(),
        at: moment,
        organizationId: id.nullable(),
        actor,
        action: z.string(),
        target: z.string(),
        before: z.unknown(),
        after: z.unknown(),
        requestId: z.string().nullable(),
      }),
    ),
    next: z.number().nullable().describe("`before` of the next page; null on the last one"),
  })
  .meta({ id: "AuditPage" });

const auditOperation = {
  group: "Audit log",
  method: "GET",
  summary: "Read the audit log",
  query: z.object({
    action: z.string().optional().describe("An action such as `contract.novate`, or the part before its dot"),
    target: z.string().optional().describe("Name of the target, exactly"),
    actorId: z.string().optional().describe("Id of the user or key"),
    from: z.string().optional().describe("ISO 8601: start, inclusive"),
    to: z.string().optional().describe("ISO 8601: end, exclusive"),
    before: z.int().optional().describe("Id of the last entry of the previous page"),
    limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
  }),
  answers: {
    200: {
      schema: auditPage,
      example: {
        data: [
          {
            id: 17,
            at: EXAMPLE.createdAt,
            organizationId: EXAMPLE.organizationId,
            actor: { kind: "user", id: EXAMPLE.userObjectId, name: "margaret" },
            action: "pricing.create",
            target: "Tasker 1.0.0",
            before: null,
            after: { version: "1.0.0", availability: "active" },
            requestId: "0d4c7a4e-6d0f-4a7e-9a35-1f6b6a1f0a11",
          },
        ],
        next: null,
      },
    },
  },
} as const;

/** Audit log. */
export const auditLogOperations: readonly Operation[] = [
  {
    ...auditOperation,
    id: "readAuditLog",
    path: "/audit-log",
    description:
      "Returns who changed what, newest first. A platform ADMIN who names no organization reads every entry.",
  },
  {
    ...auditOperation,
    id: "readAuditLogInOrganization",
    path: "/organizations/{organizationId}/audit-log",
    errors: { 404: NO_ORGANIZATION },
    description: "Returns who changed what in an organization, newest first, for its OWNER and ADMINs.",
  },
];
