import { z } from "zod";
import { emailAddress, EXAMPLE, id, moment, NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";
import { memberRole } from "./organizations.ts";
import { newUser } from "./users.ts";

const DAYS = "The days field must be a whole number from 1 to 30";

export const newInvitation = z
  .object({
    role: memberRole,
    email: emailAddress.default(null).describe("Where mails are sent: gets the link by mail"),
    days: z.int(DAYS).min(1, DAYS).max(30, DAYS).default(7).describe("Days until it expires"),
  })
  .meta({ id: "InvitationToCreate" });
export const invitationAcceptance = newUser
  .pick({ username: true, password: true })
  .meta({ id: "InvitationAcceptance" });

const role = z.enum(["ADMIN", "MANAGER", "EVALUATOR"]);
const invitation = z.strictObject({
  id,
  role,
  email: z.string().nullable(),
  expiresAt: moment,
  state: z.enum(["pending", "accepted", "revoked", "expired"]),
});
export const invitationCreated = invitation
  .extend({ url: z.string().describe("The link, shown this once") })
  .meta({ id: "CreatedInvitation" });
export const invitationListed = invitation
  .extend({ invitedBy: z.string(), createdAt: moment })
  .meta({ id: "Invitation" });
export const invitationOffer = z
  .strictObject({ organization: z.string(), role, invitedBy: z.string(), expiresAt: moment })
  .meta({ id: "InvitationOffer" });
export const invitationAccepted = z
  .strictObject({ organization: z.strictObject({ id, name: z.string() }), role, username: z.string() })
  .meta({ id: "AcceptedInvitation" });

const SHOWN = {
  id: EXAMPLE.invitationId,
  role: "MANAGER",
  email: "grace@example.com",
  expiresAt: "2025-06-22T10:00:00.000Z",
  state: "pending",
};
const INVALID = "NOT FOUND: This invitation link is not valid any more";

/** Invitations to organizations. Source: contract sign-in §3. */
export const invitationOperations: readonly Operation[] = [
  {
    id: "createInvitation",
    group: "Organizations",
    method: "POST",
    path: "/organizations/{organizationId}/invitations",
    summary: "Invite somebody",
    description:
      "Returns a link that makes its first user a member, also somebody without an account. The link is shown this once. It stops working once you may no longer add such a member.",
    body: { schema: newInvitation, example: { role: "MANAGER", email: "grace@example.com" } },
    answers: {
      201: {
        schema: invitationCreated,
        example: { ...SHOWN, url: `https://faregate.example.com/console/invitations/${EXAMPLE.linkToken}` },
      },
    },
    errors: {
      404: NO_ORGANIZATION,
      409: "CONFLICT: An organization can have at most 100 open invitations",
    },
  },
  {
    id: "listInvitations",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/invitations",
    summary: "List invitations",
    description: "Returns the 200 newest invitations without their links, newest first.",
    answers: {
      200: {
        schema: z.array(invitationListed),
        example: [{ ...SHOWN, invitedBy: "margaret", createdAt: EXAMPLE.createdAt }],
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "revokeInvitation",
    group: "Organizations",
    method: "DELETE",
    path: "/organizations/{organizationId}/invitations/{invitationId}",
    summary: "Revoke an invitation",
    description: "The link stops working at once.",
    answers: { 204: null },
    errors: {
      404: `Invitation ${EXAMPLE.invitationId} not found`,
      409: `CONFLICT: Invitation ${EXAMPLE.invitationId} is accepted`,
    },
  },
  {
    id: "showInvitation",
    group: "Organizations",
    method: "GET",
    path: "/invitations/{linkToken}",
    summary: "Show the invitation of a link",
    description: "Needs no key. Unknown, accepted, revoked and expired links look alike.",
    answers: {
      200: {
        schema: invitationOffer,
        example: { organization: "Acme", role: "MANAGER", invitedBy: "margaret", expiresAt: SHOWN.expiresAt },
      },
    },
    errors: { 404: INVALID },
  },
  {
    id: "acceptInvitation",
    group: "Organizations",
    method: "POST",
    path: "/invitations/{linkToken}/accept",
    summary: "Accept an invitation",
    description:
      "Makes the caller a member. Without a key, the body names a new user, who becomes one; this works where sign-up is closed, too. Each link works once.",
    body: {
      schema: invitationAcceptance,
      example: { username: "grace", password: "correct-horse-battery" },
      required: false,
    },
    answers: {
      200: {
        schema: invitationAccepted,
        example: {
          organization: { id: EXAMPLE.organizationId, name: "Acme" },
          role: "MANAGER",
          username: "grace",
        },
      },
    },
    errors: {
      403: "This route requires a user API key. Organization API keys are not allowed",
      404: INVALID,
      409: "CONFLICT: User with username grace is already a member of the organization.",
    },
  },
];
