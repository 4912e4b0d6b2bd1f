import type { ErrorKind } from "./entry.ts";

export const notFound: ErrorKind = {
  title: "Not found",
  status: 404,
  meaning: "It does not exist, or belongs to another organization. Both look alike.",
  remedy: "Check the name in the path, and that the key belongs to the right organization.",
  groups: [
    {
      remedy: "Check the method and path against the API reference; it begins with `/api/v1`.",
      sentences: ["Cannot {method} {path}", "Not found"],
    },
    {
      remedy: "Create the contract first, or use the `userId` that it was created with.",
      sentences: [
        "Contract with userId {user} not found",
        "Contract with userId {user} not found at {moment}: it begins at {start}",
        "INVALID DATA: Contract with groupId {group} not found within organization {organization}",
        "INVALID DATA: No contracts found with groupId {group} within organization {organization}",
      ],
    },
    {
      remedy: "List the services and versions, and use one of them. A removed service returns with its next upload.",
      sentences: [
        "NOT FOUND: Service with name {service}",
        "NOT FOUND: Service with name {service} in the request organization. Please check the services declared in subscriptionPlans and subscriptionAddOns.",
        "Service {service} not found in the contract",
        "Pricing version {version} not found for service {service}",
        "Pricing version {version} for service {service} not found in the request organization",
        "Pricing version {version} of service {service} has no expectations",
        "Pricing version {version} for service {service} does not have a persisted yamlPath",
        "Plan {plan} not found in pricing for service {service}, whose pricing do have plans.",
        "Plan {plan} for service {service} not found in {pricing}",
        "Add-on {addOn} declared in the subscription not found in pricing version {version}",
        "The configuration provided to novate affected contracts is not valid for version {version} of service {service}. Error: Error: {problem}",
      ],
    },
    {
      remedy: "Archive the version first: only archived versions can be deleted.",
      sentences: [
        "Invalid request: No archived version {version} found for service {service}. Remember that a pricing must be archived before it can be deleted.",
      ],
    },
    {
      remedy:
        "Write `<service>-<name>` with the service in lower case, as the pricing of the contract spells the name.",
      sentences: [
        "Feature {feature} not found in contract for userId {user}",
        "Usage limit: {limit} not found in the contract. Maybe it's not being tracked as usage level",
        "{element} not found in pricing version {version} of service {service}",
        "No override of {element} of service {service} in the contract of {user}",
      ],
    },
    {
      remedy: "Use the id that its creation returned, with a key of the same organization.",
      sentences: [
        "Organization with ID {organization} not found",
        "INVALID DATA: Invalid organization ID",
        "Session {id} not found",
        "Single sign-on is not configured",
        "Scheduled change {id} not found",
        "Hold {id} not found",
        "Lease {id} not found",
        "Block {id} not found in the contract of {user}",
        "Member {id} of {user} not found",
        "Budget {name} of {user} not found",
        "Webhook {id} not found",
        "Invitation {id} not found",
        "Change request {id} not found",
        "Delivery {id} not found",
        "Billing connection {id} not found",
        "Message {id} not found",
        "API Key not found in organization {organization}.",
      ],
    },
    {
      remedy: "Ask for a new link: each works once, until it expires or is revoked.",
      sentences: ["NOT FOUND: This {kind} link is not valid any more"],
    },
    {
      remedy: "Connect the payment provider first, or leave the contract: no subscription of a provider moves it.",
      sentences: [
        "The organization has no connection to {provider}",
        "Contract of user {user} follows no subscription",
      ],
    },
    {
      remedy: "Check the user name, or choose another one if you are creating or renaming a user.",
      sentences: [
        "INVALID DATA: User not found",
        "INVALID DATA: There is already a user with the username that you are trying to set",
      ],
    },
  ],
};

export const conflict: ErrorKind = {
  title: "Conflict",
  status: 409,
  meaning: "The request contradicts what is stored. Nothing was changed.",
  remedy: "Read the present state, decide again, and then send another request.",
  groups: [
    {
      remedy: "Novate the existing contract, use another name, or add `organizationId` to say which one is meant.",
      sentences: [
        "CONFLICT: Contract for user {user} already exists",
        "CONFLICT: Several contracts found for userId {user}. Please specify the organizationId query parameter",
        "CONFLICT: Service name {service} already exists",
        "CONFLICT: User with username {user} is already a member of the organization.",
        "CONFLICT: User with username {user} already has the role {role}.",
        "CONFLICT: The username is too similar to an existing one",
        "CONFLICT: The proposed owner {user} already has a default organization.",
        "Value already exists in cache, please use a different key.",
      ],
    },
    {
      remedy: "Use another organization: the default one stays with its user.",
      sentences: [
        "CONFLICT: Cannot transfer ownership of a default organization.",
        "CONFLICT: The default organization for a user cannot be deleted.",
      ],
    },
    {
      remedy: "Move the contracts to another version first.",
      sentences: ["CONFLICT: Pricing version {version} of service {service} is still contracted"],
    },
    {
      remedy: "Change the pricing until the broken rules in `gate` pass; an OWNER can override them with a reason.",
      sentences: ["CONFLICT: The gate is closed: {reasons}"],
    },
    {
      remedy: "Name the target of these contracts in `groups`.",
      sentences: [
        "CONFLICT: What fits contracts with {configuration} best cannot be certified: {reason}. Name their target in groups",
      ],
    },
    {
      remedy: "Send the request again.",
      sentences: ["CONFLICT: The contracts of the service are changing at the moment. Try again"],
    },
    {
      remedy: "Cancel the scheduled change first, or leave it.",
      sentences: [
        "CONFLICT: Contract of user {user} has a change scheduled for {moment} already: {id}",
        "CONFLICT: Pricing version {version} of service {service} has a change scheduled for {moment} already: {id}",
        "CONFLICT: Scheduled change {id} is {state}",
        "CONFLICT: Scheduled change {id} is the end of a trial: novate the contract or move the end of its billing period",
      ],
    },
    {
      remedy: "Create the contract without a trial; `trial.again` allows another one.",
      sentences: ["CONFLICT: User {user} has had a trial of {service} already"],
    },
    {
      remedy: "Nothing: it has ended. Take a new hold or lease if work goes on.",
      sentences: ["CONFLICT: Hold {id} {end} at {moment}", "CONFLICT: Lease {id} ended at {moment}"],
    },
    {
      remedy: "Report the whole of what was spent: never less than before, and never more than was granted.",
      sentences: [
        "CONFLICT: Lease {id} was granted {amount} of {limit}, and {spent} are reported",
        "CONFLICT: Lease {id} has {amount} of {limit} reported already, and {spent} are reported",
      ],
    },
    {
      remedy: "Settle or release some that are open; those that nobody ends expire.",
      sentences: [
        "CONFLICT: The contract has {count} open holds: settle or release some first",
        "CONFLICT: The contract of {user} has {count} open leases",
      ],
    },
    {
      remedy: "Use another key for another block; a repeated one returns the block that it gave.",
      sentences: ["CONFLICT: The key {key} was used for another block"],
    },
    {
      remedy: "List the blocks of the contract: one that is used up, expired or revoked stays so.",
      sentences: [
        "CONFLICT: The block {id} is {state}",
        "CONFLICT: A contract cannot have more than {most} blocks that have not ended",
      ],
    },
    {
      remedy: "Remove a member, or change to a plan with more seats.",
      sentences: ["CONFLICT: No seat is free: {taken} of {seats} are taken"],
    },
    {
      remedy: "Delete budgets that nobody needs, or let one with `*` stand for many.",
      sentences: ["CONFLICT: A contract cannot have more than {most} budgets"],
    },
    {
      remedy: "Enable the webhook, or remove one that you no longer need.",
      sentences: [
        "CONFLICT: The webhook is {state}: enable it first",
        "CONFLICT: An organization can have at most {most} webhooks",
      ],
    },
    {
      remedy: "Name the organization, in the path or as `organizationId`, and make the change for one after the other.",
      sentences: [
        "CONFLICT: Organization {id} needs a second person for this change: make it for each organization alone",
      ],
    },
    {
      remedy: "Read the new report in `report` or in the request, and approve again.",
      sentences: ["CONFLICT: The report of change request {id} has changed: approve the new one"],
    },
    {
      remedy: "Reject or withdraw the request. Its author requests the change again, for the contracts of now.",
      sentences: [
        "CONFLICT: Change request {id} cannot be approved: no contract has the configuration of groups[{index}] any more. Reject or withdraw it",
      ],
    },
    {
      remedy:
        "List the change requests: only a pending one is decided on. Decide on those that wait, or make a new one.",
      sentences: [
        "CONFLICT: Change request {id} is {state}",
        "CONFLICT: Change request {id} is decided already",
        "CONFLICT: The change of request {id} has been made already: reject or withdraw it",
        "CONFLICT: The author of change request {id} may not make this change any more",
        "CONFLICT: An organization can have at most {most} pending change requests",
      ],
    },
    {
      remedy: "List the invitations: only a pending one can be revoked. Revoke those that nobody needs any more.",
      sentences: [
        "CONFLICT: Invitation {id} is {state}",
        "CONFLICT: An organization can have at most {most} open invitations",
      ],
    },
    {
      remedy: "Read the state to see if the first request took effect, then use a new Idempotency-Key.",
      sentences: ["CONFLICT: The first answer to this Idempotency-Key can no longer be read"],
    },
  ],
};

export const gone: ErrorKind = {
  title: "Gone",
  status: 410,
  meaning: "The organization has moved to another instance. Nothing was changed.",
  remedy: "Send the call to the address in `details`. Keys are the same there.",
  groups: [
    {
      remedy: "Set the new address in the client, or let the router in front send the key there.",
      sentences: ["The organization has moved to {address}"],
    },
  ],
};
