import type { ErrorKind } from "./entry.ts";

export const unauthenticated: ErrorKind = {
  title: "Unauthenticated",
  status: 401,
  meaning: "The key is missing, unknown, expired or deleted, or the credentials are wrong.",
  remedy: "Send a valid key in the header `x-api-key`. Do not retry with the same one: unknown keys are rate-limited.",
  groups: [
    {
      remedy: "Add the header `x-api-key`; calls of OpenFeature may use `Authorization: Bearer`.",
      sentences: ['API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.'],
    },
    {
      remedy: "Sign in again for a user key, or create a new key of the organization and give it to your server.",
      sentences: [
        "INVALID DATA: Invalid API Key",
        "Invalid Organization API Key",
        'Invalid API Key format. API Keys must start with "usr_" or "org_"',
      ],
    },
    {
      remedy: "Check the name and the password; an ADMIN of the platform can set a new one.",
      sentences: ["INVALID DATA: Invalid credentials"],
    },
    {
      remedy: "Use the provider's button: the operator has switched passwords off, or keeps them for ADMINs.",
      sentences: ["Sign in with {provider}"],
    },
    {
      remedy: "Sign in again: the session ran out, was ended, or the password or role changed.",
      sentences: ["The session has ended. Please sign in again"],
    },
  ],
};

export const forbidden: ErrorKind = {
  title: "Forbidden",
  status: 403,
  meaning: "The key is valid and lacks the permission for this call. Nothing was changed.",
  remedy: "Use a key with the scope or role that the sentence names, or ask an OWNER of the organization for it.",
  groups: [
    {
      remedy: "Use an organization key with a wider scope, or a user with the platform role ADMIN.",
      sentences: [
        "Your user role ({role}) does not have permission to {call}",
        "Your organization API key role ({scope}) does not have permission to {call}",
        "You do not have permission to access this resource",
        "You do not have permission to access this resource. Allowed roles: {roles}",
        "The key's permissions changed",
      ],
    },
    {
      remedy: "Sign in, and call with the user key: a key of an organization cannot do this.",
      sentences: ["This route requires a user API key. Organization API keys are not allowed"],
    },
    {
      remedy: "Call from a page of this server, or send a key: a session's cookie is not for other pages.",
      sentences: ["This request comes from another page"],
    },
    {
      remedy: "Ask the operator to add the page's origin to ALLOWED_ORIGINS.",
      sentences: ["The origin is not one of ALLOWED_ORIGINS"],
    },
    {
      remedy: "Use a key of an organization: a user key cannot do this.",
      sentences: ["Changes are told to organization keys only"],
    },
    {
      remedy: "Ask an OWNER or ADMIN of the organization to add you as a member.",
      sentences: [
        "This route requires user authentication. Either you did not provide an user API key or your are not a member of this organization",
        "You are not a member of this organization",
        "PERMISSION ERROR: You are not a member of organization {organization}",
        "PERMISSION ERROR: Organization ID mismatch",
      ],
    },
    {
      remedy: "Ask an OWNER or ADMIN of the organization to do it, or for a higher role.",
      sentences: [
        "PERMISSION ERROR: Insufficient organization permissions. Required: OWNER, ADMIN, MANAGER",
        "PERMISSION ERROR: Only SPACE admins or {roles} can {action}",
        "PERMISSION ERROR: Only users with OWNER, ADMIN, or MANAGER role can remove members, unless the user is removing themselves",
        "PERMISSION ERROR: Only an OWNER or ADMIN can move a service to another organization",
        "PERMISSION ERROR: Only a key of scope ALL or an ADMIN or OWNER of the organization can give another trial",
        "PERMISSION ERROR: You do not have permission to move services into organization {organization}",
        "You are not the owner of organization {organization}",
      ],
    },
    {
      remedy: "Ask another person of these roles; the author withdraws instead.",
      sentences: [
        "PERMISSION ERROR: Change requests are decided on by: {roles}",
        "PERMISSION ERROR: The author cannot decide on a change request; an OWNER without members approves with confirm=alone",
        "PERMISSION ERROR: Only the author can withdraw a change request",
      ],
    },
    {
      remedy: "Ask the OWNER to repeat the call, or change the pricing until the broken rules in `gate` pass.",
      sentences: ["PERMISSION ERROR: Only the OWNER of an organization can override its gate"],
    },
    {
      remedy: "Ask an ADMIN of the platform to do it.",
      sentences: [
        "PERMISSION ERROR: Only admins can {action}",
        "PERMISSION ERROR: There must always be at least one ADMIN user in the system.",
      ],
    },
  ],
};
