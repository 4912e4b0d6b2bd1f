import { z } from "zod";
import { EXAMPLE, message, moment } from "./common.ts";
import type { Operation } from "./operation.ts";
import { credentials, newUser } from "./users.ts";

export const recoveryRequest = credentials.pick({ username: true }).meta({ id: "RecoveryRequest" });
export const newPassword = newUser.pick({ password: true }).meta({ id: "NewPassword" });
export const recoveryLink = z
  .strictObject({ url: z.string().describe("The link, shown this once"), expiresAt: moment })
  .meta({ id: "RecoveryLink" });

/** Forgotten passwords. Source: contract sign-in §3. */
export const recoveryOperations: readonly Operation[] = [
  {
    id: "requestRecovery",
    group: "Users",
    method: "POST",
    path: "/recovery",
    summary: "Request a link for a new password",
    description:
      "Mails a link that is valid for an hour, if the user has an email address and the server sends mails. The answer is the same for every name. Each request counts as a failed sign-in.",
    body: { schema: recoveryRequest, example: { username: "margaret" } },
    answers: {
      202: {
        schema: message,
        example: { message: "A link is on its way if the account has an email address" },
      },
    },
  },
  {
    id: "setPasswordByLink",
    group: "Users",
    method: "POST",
    path: "/recovery/{linkToken}",
    summary: "Set a new password by a link",
    description:
      "Sets the password, and ends the user's sessions and other links. Unknown, used and expired links look alike.",
    body: { schema: newPassword, example: { password: "correct-horse-battery" } },
    answers: { 204: null },
    errors: { 404: "NOT FOUND: This recovery link is not valid any more" },
  },
  {
    id: "createRecovery",
    group: "Users",
    method: "POST",
    path: "/users/{username}/recovery",
    summary: "Make a link for a new password",
    description: "Returns a link to pass on, valid for an hour and once. Only platform ADMINs.",
    answers: {
      201: {
        schema: recoveryLink,
        example: {
          url: `https://faregate.example.com/console/recovery/${EXAMPLE.linkToken}`,
          expiresAt: "2025-06-15T11:00:00.000Z",
        },
      },
    },
    errors: { 404: "INVALID DATA: User not found" },
  },
];
