import type { ErrorKind } from "./entry.ts";

export const invalid: ErrorKind = {
  title: "Invalid",
  status: 400,
  meaning: "The request is well-formed, but a value or a business rule forbids it. Nothing was changed.",
  remedy: "Correct the value that the sentence names. The same request fails again, so do not retry it.",
  groups: [
    {
      remedy:
        "Send JSON in UTF-8, not compressed, with the header `content-type: application/json`, or a form with a boundary, and send it completely.",
      sentences: [
        "INVALID DATA: Malformed JSON body",
        "INVALID DATA: The body must not be compressed (Content-Encoding: {encoding})",
        "INVALID DATA: Malformed request",
        "INVALID DATA",
        "INVALID DATA: Malformed multipart body",
        "INVALID DATA: Malformed multipart boundary",
        "INVALID DATA: Line {line} is not valid JSON",
        "INVALID DATA: The request body did not arrive completely",
        "INVALID DATA: The body is nested too deeply",
        "Unexpected field",
        "The client closed the request",
      ],
    },
    {
      remedy: "Percent-encode each segment of the path once, and leave out `.` and `..`.",
      sentences: [
        "INVALID DATA: The path is not valid percent-encoding",
        "INVALID DATA: The path must not contain . or .. segments",
        "INVALID DATA: The name of a service must not be . or ..",
      ],
    },
    {
      remedy: "Remove the character NUL and lone surrogates, or shorten the text.",
      sentences: [
        "INVALID DATA: The {field} contains a character that cannot be stored",
        "INVALID DATA: A text contains a character that cannot be stored",
        "INVALID DATA: A text is longer than can be stored",
      ],
    },
    {
      remedy: "Send a key of 1 to 255 characters, or leave out the header.",
      sentences: ["INVALID DATA: The Idempotency-Key must have {range} characters"],
    },
    {
      remedy: "Give the query parameter once, with a value that the API reference lists.",
      sentences: [
        "INVALID DATA: Query parameter {name} must be given once",
        "INVALID DATA: Query parameter {name} must be a plain value",
        "INVALID DATA: The {name} query parameter is required",
        "INVALID DATA: The {name} query parameter is empty",
        "INVALID DATA: The {name} query parameter is longer than 1000 characters",
        "The {name} query parameter is required",
        "Missing {name} query parameter",
        "INVALID DATA: {name} must be {rule}",
        "INVALID DATA: {name} must not be in the future",
        "INVALID DATA: The filters parameter is not valid JSON",
        "INVALID DATA: The {name} field is not valid",
        "Errors where found during validation of query params: {problems}",
        "Page must be greater than or equal to 1",
        "Offset must be greater than or equal to 0",
        "Limit must be greater that or equal to 1",
        "INVALID DATA: Limit must be between 1 and {most}",
        "INVALID DATA: Offset must be a non-negative number",
        "INVALID DATA: Status must be pending, delivered or failed",
        "Invalid sort field. Please use one of the following: {fields}",
        "Invalid order value. Please use 'asc' or 'desc'",
        "Invalid state. Please use one of the following: {states}",
        "Invalid kind. Please use one of the following: {kinds}",
        "Invalid pricing status",
      ],
    },
    {
      remedy: "Leave out one of the two; they contradict each other.",
      sentences: [
        "INVALID DATA: {one} cannot be combined with {other}",
        "INVALID DATA: A pricing token cannot be issued for a moment in the past",
        "INVALID DATA: A public offer takes no {name}",
        "Invalid query: Both reset and usageLimit cannot be provided at the same time",
      ],
    },
    {
      remedy: "Name the organization: in the path, in the query parameter or in the body, by its id of 24 hex digits.",
      sentences: [
        "INVALID DATA: Organization ID is required for contract creation. Since you are an ADMIN, you must specify the organizationId in the request body.",
        "INVALID DATA: near requires an organization",
        "INVALID DATA: Invalid organization ID",
        "INVALID DATA: Organization with id {id} not found",
      ],
    },
    {
      remedy: "Correct the file at the line and column in `problems`. `npx faregate lint` checks it without a server.",
      sentences: [
        "Pricing parsing error: {problem}",
        "The file does not contain valid YAML content.",
        'Invalid key in {place}: "{key}". Keys must not contain "." or other invalid characters.',
        "INVALID DATA: The pricing is too large to be analysed: it takes more time or memory than one analysis may have",
      ],
    },
    {
      remedy: "Correct the pricing or the expectations; `npx faregate test` shows each that is not met.",
      sentences: [
        "Expectations parsing error: {problem}",
        "INVALID DATA: The expectations take too long; run them with npx faregate test",
        "Invalid request: {count} of {all} expectations are not met. {first}",
      ],
    },
    {
      remedy: "Send the file in the field `pricing` of a form, or an https address of the public internet.",
      sentences: [
        "No file or URL provided",
        "Invalid URL",
        "Invalid URL: {reason}",
        'Protocol "{protocol}" not supported. Expected "https:"',
        "Timeout fetching pricing from URL: {url}",
        "Failed to fetch pricing from URL: {url}",
        "This server accepts pricings only as files: it cannot fetch URLs safely",
        "INVALID DATA: At most {most} drafts",
        "INVALID DATA: The expectations field must be a file or a text",
      ],
    },
    {
      remedy: "Raise the version in the file, or send it to the service that it names.",
      sentences: [
        "Invalid request: The service name in the pricing file ({file}) does not match the service name in the URL ({path})",
        "Pricing version {version} already exists for service {service}",
        "Invalid request: Service {service} already exists",
      ],
    },
    {
      remedy: "Activate another version first, or name a version that is active.",
      sentences: [
        "You cannot archive the last active pricing for service {service}",
        "No active pricing found for service {service}",
        "Pricing version {version} of service {service} is archived",
        "INVALID DATA: Pricing version {version} of service {service} is archived",
        "No availability provided",
        'Invalid availability status. Either provide "active" or "archived"',
      ],
    },
    {
      remedy:
        "Name a target for the contracts: `subscriptionPlan` and `subscriptionAddOns`, or `groups`. The prediction of the change proposes one per group.",
      sentences: [
        "Invalid request: Archiving pricing version {version} of service {service} cannot be completed. To proceed, you must provide a fallback subscription in the request body. All active contracts will be novated to this new version upon archiving.",
        "Invalid request: In order to novate contracts to the latest version, the provided fallback subscription must contain at least a subscriptionPlan (if the pricing has plans), and optionally a subset of add-ons. If the pricing do not have plans, the set of add-ons is mandatory.",
        "The configuration provided to novate affected contracts is not valid for version {version} of service {service}. Error: Error: {problem}",
        "Pricing version {version} of service {service} offers nothing to contracts with {configuration}",
        "INVALID DATA: groups[{index}] has a configuration that another one has",
        "INVALID DATA: groups[{index}] has a configuration that no contract has",
      ],
    },
    {
      remedy: "Use services, versions, plans and add-ons that exist together; the offers of the service list them.",
      sentences: [
        "Invalid contract: Services not found: {services}",
        "Invalid contract: Pricing version {version} for service {service} not found",
        "Invalid subscription: Error: {problem}",
        "Invalid trial: Error: {problem}",
        "Invalid subscription: No plan found in user subscription for service {service}, whose pricing do have plans",
        "INVALID DATA: Service {service} is given more than once",
        "Service {service} must have either a plan or add-ons selected",
        "Invalid request: serviceNames must be a non-empty array",
        "The fields serviceName and pricingVersion are required",
      ],
    },
    {
      remedy: "Renew the contract: novate it, or move the end of its billing period.",
      sentences: [
        "Invalid subscription: Your susbcription has expired and it is not set to renew automatically. To continue accessing the features, please purchase any subscription.",
        "INVALID DATA: The billing period of {user} has ended: at must be a date",
        "End date cannot be before the start date",
        "INVALID DATA: Error updating billing period for contract of user {user}. {problem}.",
      ],
    },
    {
      remedy: "Choose another moment. The sentence says which moments are possible.",
      sentences: [
        "INVALID DATA: expiresAt must be in the future: delete the key to end it at once",
        "INVALID DATA: trial.until must be within the next 365 days",
        "INVALID DATA: There is no record of the contract of {user}",
        "INVALID DATA: The record of usage starts at {moment}",
        "INVALID DATA: The record of the contract of {user} starts at {moment}",
        "INVALID DATA: The record of the contract of {user} is incomplete since {moment}",
        "INVALID DATA: At most {most} {units} can be asked for at once",
        "INVALID DATA: Movements before {moment} were summed up: from must be later",
        "INVALID DATA: At most {most} days can be replayed at once",
      ],
    },
    {
      remedy: "Name a version, or send the draft as a file in the field `pricing` of a form: exactly one of both.",
      sentences: ["INVALID DATA: A replay needs a pricingVersion or a pricing"],
    },
    {
      remedy: "Name every service of the contract in `trial.then`.",
      sentences: ["INVALID DATA: trial.then says nothing of service {service}"],
    },
    {
      remedy: "Give a value of the element's type, or end other overrides first.",
      sentences: [
        "INVALID DATA: The value of {element} must be {rule}",
        "INVALID DATA: Mode add is for numeric usage limits",
        "INVALID DATA: Blocks are for numeric usage limits that are tracked",
        "INVALID DATA: A contract cannot have more than {most} overrides that have not ended",
        "INVALID DATA: A service cannot have more than {most} availability changes scheduled",
      ],
    },
    {
      remedy: "Check the name: the user, member or key does not exist there.",
      sentences: [
        "INVALID DATA: User with username {user} does not exist.",
        "INVALID DATA: User with username {user} is not a member of the organization.",
        "Member with username {user} not found in organization {organization}.",
        "API Key not found in organization {organization}.",
        "INVALID DATA: Invalid organization default flag.",
      ],
    },
    {
      remedy: "Send the scope that the server shall have: ALL, MANAGEMENT or EVALUATION.",
      sentences: ["scope field is required"],
    },
    {
      remedy: "Send `key`, `value` and `expirationInSeconds` as the API reference shows.",
      sentences: [
        "INVALID DATA: The {field} field must be {rule}",
        "INVALID DATA: The {field} field must not be {rule}",
        "INVALID DATA: The value field is required",
      ],
    },
    {
      remedy: "Set the connection's secret to that of the provider's webhook, and forward the body unchanged.",
      sentences: ["The signature is not valid"],
    },
    {
      remedy: "Look into the server's log for the reason; a provider may send a new token.",
      sentences: ["INVALID DATA: The logout token is not valid", "INVALID DATA: The logout token was used before"],
    },
    {
      remedy: "Use an https address with a public name and without credentials.",
      sentences: [
        "INVALID DATA: The url is not a valid address",
        "INVALID DATA: The url must begin with https://. WEBHOOK_ALLOWED_HOSTS of the server allows local receivers",
        "INVALID DATA: The url must resolve to a public address",
        "INVALID DATA: The url must not contain credentials",
      ],
    },
  ],
};
