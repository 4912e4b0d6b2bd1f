import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { numberEvents } from "../../src/db/queries/outbox.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import {
  ADD_ONS_ONLY,
  contract,
  contractFor,
  type ContractBody,
  show,
  tasker,
  upload,
} from "../support/contracting.ts";

let api: TestApi;
let key: string;
let organizationId: string;
let admin: string;

const NOON = new Date("2025-06-15T12:00:00.000Z");

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  organizationId = api.callers.organizationId;
  admin = api.callers.platformAdmin.key;
  await upload(api, key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01" }), ADD_ONS_ONLY);
});
afterAll(() => api.close());
beforeEach(() => api.setNow(NOON));

const create = (body: unknown, as = key) => api.call<ContractBody>("POST", "/contracts", { key: as, body });

describe("access to contracts", () => {
  test("is decided before anything is validated: organization, membership, role, then the body", async () => {
    const { callers } = api;
    const unknown = "0".repeat(24);
    const at = (id: string) => `/organizations/${id}/contracts`;
    const calls: [path: string, as: string | undefined, status: number, error: string][] = [
      [
        "/contracts",
        undefined,
        401,
        'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.',
      ],
      ["/contracts", callers.owner.key, 403, "Your user role (USER) does not have permission to POST /contracts"],
      [
        "/contracts",
        callers.evaluation.key,
        403,
        "Your organization API key role (EVALUATION) does not have permission to POST /contracts",
      ],
      [at(unknown), callers.owner.key, 404, `Organization with ID ${unknown} not found`],
      [
        at(organizationId),
        callers.outsider.key,
        403,
        "This route requires user authentication. Either you did not provide an user API key or your are not a member of this organization",
      ],
      [
        at(organizationId),
        callers.evaluator.key,
        403,
        "You do not have permission to access this resource. Allowed roles: OWNER, ADMIN, MANAGER",
      ],
      [at(organizationId), callers.manager.key, 422, "The userContact field is required"],
      ["/contracts", callers.management.key, 422, "The userContact field is required"],
    ];
    for (const [path, as, status, error] of calls) {
      expect(await api.call("POST", path, { key: as, body: {} })).toMatchObject({ status, body: { error } });
    }
    expect(await api.call("DELETE", at(organizationId), { key: callers.manager.key })).toMatchObject({
      status: 403,
      body: { error: "You do not have permission to access this resource. Allowed roles: OWNER, ADMIN" },
    });
    expect(await api.call("PUT", at(organizationId), { key, body: {} })).toMatchObject({
      status: 403,
      body: { error: "This route requires a user API key. Organization API keys are not allowed" },
    });
    expect(await api.call("POST", "/contracts/u", { key, body: {} })).toMatchObject({
      status: 403,
      body: { details: "No permission rule found for POST /contracts/u" },
    });
    expect((await api.call("PATCH", "/contracts/u", { key, body: {} })).status).toBe(404);
  });
});

describe("creating a contract", () => {
  test("answers 201 with the whole contract, service keys in lower case, maps never dropped and unset fields absent", async () => {
    const made = await create({
      userContact: { userId: "shape", username: "ada", phone: "+34 600" },
      contractedServices: { Tasker: "1.0.0", EXTRAS: "1.0.0" },
      subscriptionPlans: { TASKER: "pro" },
      subscriptionAddOns: { Extras: { REPORTING: 1 } },
      note: "ignored",
    });
    expect(made.status).toBe(201);
    expect(made.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(made.body).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      userContact: { userId: "shape", username: "ada", phone: "+34 600" },
      billingPeriod: {
        startDate: "2025-06-15T12:00:00.000Z",
        endDate: "2025-07-15T12:00:00.000Z",
        autoRenew: false,
        renewalDays: 30,
      },
      usageLevels: {
        tasker: { maxTasks: { resetTimeStamp: "2025-07-15T12:00:00.000Z", consumed: 0 }, maxExports: { consumed: 0 } },
        extras: { maxReports: { consumed: 0 } },
      },
      organizationId,
      contractedServices: { tasker: "1.0.0", extras: "1.0.0" },
      subscriptionPlans: { tasker: "pro" },
      subscriptionAddOns: { extras: { reporting: 1 } },
      history: [],
    });
    expect(Object.keys(made.body)).toEqual([
      "id",
      "userContact",
      "billingPeriod",
      "usageLevels",
      "organizationId",
      "contractedServices",
      "subscriptionPlans",
      "subscriptionAddOns",
      "history",
    ]);
    expect(await show(api, key, "shape")).toEqual(made.body);
  });

  test("gives empty maps to a contract whose service has neither plan nor add-ons", async () => {
    const made = await contract(api, key, "bare", { subscriptionPlans: {} });
    expect(made).toMatchObject({
      subscriptionPlans: {},
      subscriptionAddOns: {},
      contractedServices: { tasker: "1.0.0" },
    });
    const evaluated = await api.call("POST", "/features/bare", { key });
    expect(evaluated).toMatchObject({
      status: 400,
      body: {
        error:
          "Invalid subscription: No plan found in user subscription for service tasker, whose pricing do have plans",
      },
    });
  });

  const TOO_LATE = "billingPeriod.renewalDays must not make the billing period end after the year 9999";
  const valid = contractFor("never");
  const contact = (change: Record<string, unknown>) => ({
    ...valid,
    userContact: { userId: "u", username: "n", ...change },
  });
  const billing = (billingPeriod: unknown) => ({ ...valid, billingPeriod });
  test.each<[sentence: string, body: unknown]>([
    ["The userContact field is required", { ...valid, userContact: undefined }],
    ["The userContact field is required", { ...valid, userContact: null, contractedServices: 1 }],
    ["The userContact field must be an object", { ...valid, userContact: "x" }],
    ["The userContact field must be an object", { ...valid, userContact: [] }],
    ["The userContact.userId field is required", contact({ userId: undefined })],
    ["The userContact.userId field must be a string", contact({ userId: 5 })],
    ["The userContact.userId field must be a string", contact({ userId: null })],
    ["The userContact.userId field cannot be empty", contact({ userId: "" })],
    ["The userContact.userId field must not be . or ..", contact({ userId: "." })],
    ["The userContact.userId field must not be . or ..", contact({ userId: ".." })],
    ["The userContact.userId field must not be longer than 512 characters", contact({ userId: "x".repeat(513) })],
    ["The userContact.firstName field must not be longer than 512 characters", contact({ firstName: "x".repeat(513) })],
    ["The userContact.lastName field must not be longer than 512 characters", contact({ lastName: "x".repeat(513) })],
    ["The userContact.phone field must not be longer than 512 characters", contact({ phone: "x".repeat(513) })],
    ["The userContact.username field is required", contact({ username: undefined })],
    ["The userContact.username field must be a string", contact({ username: {} })],
    ["The userContact.username field is required", contact({ username: "" })],
    ...["username", "firstName", "lastName", "phone"].map((field): [string, unknown] => [
      `The userContact.${field} field must not be longer than 512 characters`,
      contact({ [field]: "x".repeat(513) }),
    ]),
    ["The userContact.firstName field must be a string", contact({ firstName: null, email: 1 })],
    ["The userContact.lastName field must be a string", contact({ lastName: 1 })],
    ["The userContact.email field must be a valid email address", contact({ email: "nobody" })],
    ["The userContact.email field must be a valid email address", contact({ email: null })],
    ["The userContact.phone field must be a string", contact({ phone: 600 })],
    ["The billingPeriod field must be an object", billing("monthly")],
    ["The billingPeriod field must be an object", billing(null)],
    ["billingPeriod.autoRenew must be a boolean", billing({ autoRenew: "yes", renewalDays: -1 })],
    ["billingPeriod.renewalDays is required when billingPeriod.autoRenew is true", billing({ autoRenew: true })],
    ["billingPeriod.renewalDays must be a positive integer", billing({ autoRenew: true, renewalDays: 0 })],
    ["billingPeriod.renewalDays must be a positive integer", billing({ renewalDays: 1.5 })],
    ["billingPeriod.renewalDays must be a positive integer", billing({ renewalDays: -3 })],
    ["billingPeriod.renewalDays must be a positive integer", billing({ renewalDays: null })],
    ["billingPeriod.renewalDays must be a positive integer", billing({ renewalDays: "soon" })],
    [TOO_LATE, billing({ renewalDays: 2_912_643 })],
    [TOO_LATE, billing({ renewalDays: 1e300 })],
    ["The contractedServices field is required", { ...valid, contractedServices: undefined, subscriptionPlans: 1 }],
    [
      "contractedServices must be an object where keys are service names and values are pricing versions",
      { ...valid, contractedServices: ["tasker"] },
    ],
    [
      "contractedServices must be an object where keys are service names and values are pricing versions",
      { ...valid, contractedServices: null },
    ],
    ["Each value in contractedServices must be a string (service name)", { ...valid, contractedServices: { a: "" } }],
    ["Each value in contractedServices must be a string (service name)", { ...valid, contractedServices: { a: null } }],
    ["Each value in contractedServices must be a string (pricing version)", { ...valid, contractedServices: { a: 1 } }],
    ["The subscriptionPlans field is required", { ...valid, subscriptionPlans: undefined }],
    [
      "subscriptionPlans must be an object where keys are service names and values are plan names",
      { ...valid, subscriptionPlans: "PRO" },
    ],
    ["Plan name must be a string", { ...valid, subscriptionPlans: { tasker: 1 } }],
    ["Plan name cannot be empty", { ...valid, subscriptionPlans: { tasker: "" } }],
    ["The subscriptionAddOns field is required", { ...valid, subscriptionAddOns: undefined }],
    ["subscriptionAddOns must be an object", { ...valid, subscriptionAddOns: 1 }],
    ["Each value in subscriptionAddOns must be an object of add-ons", { ...valid, subscriptionAddOns: { tasker: 2 } }],
    [
      "Each add-on quantity must be an integer greater than or equal to 0",
      { ...valid, subscriptionAddOns: { tasker: { extraTasks: -1 } } },
    ],
    [
      "Each add-on quantity must be an integer greater than or equal to 0",
      { ...valid, subscriptionAddOns: { tasker: { extraTasks: 1.5 } } },
    ],
    [
      "Each add-on quantity must be an integer greater than or equal to 0",
      { ...valid, subscriptionAddOns: { tasker: { extraTasks: "1" } } },
    ],
  ])("is refused with 422 and the first failing rule: %s", async (sentence, body) => {
    for (const path of ["/contracts", `/organizations/${organizationId}/contracts`]) {
      const answer = await api.call("POST", path, { key: path === "/contracts" ? key : api.callers.owner.key, body });
      expect(answer).toMatchObject({ status: 422, body: { error: sentence } });
    }
  });

  test.each<[given: unknown, stored: boolean]>([
    [true, true],
    ["true", true],
    ["1", true],
    [1, true],
    [false, false],
    ["false", false],
    ["0", false],
    [0, false],
  ])("takes %j for autoRenew and stores %j", async (given, stored) => {
    const made = await contract(api, key, `renew-${typeof given}-${given}`, {
      billingPeriod: { autoRenew: given, renewalDays: "45" },
    });
    expect(made.billingPeriod).toEqual({
      startDate: "2025-06-15T12:00:00.000Z",
      endDate: "2025-07-30T12:00:00.000Z",
      autoRenew: stored,
      renewalDays: 45,
    });
  });

  test.each([
    [40_000, "2134-12-21T12:00:00.000Z"],
    [2_912_642, "9999-12-31T12:00:00.000Z"],
  ])("takes %d renewal days", async (renewalDays, endDate) => {
    const userId = `long-${renewalDays}`;
    const made = await contract(api, key, userId, { billingPeriod: { renewalDays } });
    expect(made.billingPeriod).toMatchObject({ renewalDays, endDate });
    expect(await show(api, key, userId)).toEqual(made);
  });

  test("that lasts to the end of the year 9999 lasts no longer once it is novated", async () => {
    api.setNow(new Date("2025-06-17T12:00:00.000Z"));
    const { userContact: _, ...body } = contractFor("");
    const novated = await api.call<ContractBody>("PUT", "/contracts/long-2912642", { key, body });
    expect(novated.body.billingPeriod).toMatchObject({
      endDate: "9999-12-31T23:59:59.999Z",
      renewalDays: 2_912_642,
    });
    expect(await show(api, key, "long-2912642")).toEqual(novated.body);
  });

  const at = (contractedServices: object, subscriptionPlans: object = {}, subscriptionAddOns: object = {}) =>
    contractFor("never", { contractedServices, subscriptionPlans, subscriptionAddOns });
  test.each<[status: number, sentence: string, body: unknown]>([
    [
      403,
      "PERMISSION ERROR: Organization ID mismatch",
      { ...valid, organizationId: "0".repeat(24), contractedServices: {} },
    ],
    [400, "Invalid request: serviceNames must be a non-empty array", at({})],
    [400, "Invalid contract: Services not found: nothing, more", at({ Nothing: "1", tasker: "1.0.0", MORE: "2" })],
    [400, "Invalid contract: Services not found: task", at({ task: "1.0.0" })],
    [400, "Invalid contract: Services not found:  tasker ", at({ " Tasker ": "1.0.0" })],
    [400, "Invalid contract: Pricing version 9.9.9 for service Tasker not found", at({ Tasker: "9.9.9" })],
    [400, "INVALID DATA: Service tasker is given more than once", at({ Tasker: "1.0.0", tasker: "1.0.0" })],
  ])("is refused with %i: %s", async (status, sentence, body) => {
    expect(await create(body)).toMatchObject({ status, body: { error: sentence } });
  });

  const plan = { tasker: "PRO" };
  const version = { tasker: "1.0.0" };
  /** Columns: status at novation where it differs from creation, message, maps. Source: contract contracts §4.3, §6. */
  const RULES: [novation: number, rule: string, services: object, plans: object, addOns: object][] = [
    [
      404,
      "NOT FOUND: Service with name extras in the request organization. Please check the services declared in subscriptionPlans and subscriptionAddOns.",
      version,
      { ...plan, Extras: "X" },
      {},
    ],
    [404, "Plan GOLD for service tasker not found in the request organization", version, { tasker: "GOLD" }, {}],
    [
      404,
      "Add-on nope declared in the subscription not found in pricing version 1.0.0 in the request organization",
      version,
      plan,
      { tasker: { nope: 1 } },
    ],
    [
      400,
      "Add-on proOnly is not available for plan BASIC in the request organization",
      version,
      { tasker: "BASIC" },
      { tasker: { proOnly: 1 } },
    ],
    [
      400,
      "Add-on needsTasks requires the following add-ons to be selected in the request organization: extraTasks",
      version,
      plan,
      { tasker: { needsTasks: 1 } },
    ],
    [
      400,
      "Add-on loner cannot be selected with the following add-ons in the request organization: extraTasks",
      version,
      plan,
      { tasker: { extraTasks: 2, loner: 1 } },
    ],
    [
      400,
      "Add-on extraTasks quantity 3 is not valid. It must be between 2 and 6, and a multiple of 2 in the request organization",
      version,
      plan,
      { tasker: { extraTasks: 3 } },
    ],
    [
      400,
      "Add-on extraTasks is selected more than once in the request organization",
      version,
      plan,
      { tasker: { extraTasks: 2, ExtraTasks: 4 } },
    ],
    [
      400,
      "Add-on proOnly quantity 0 is not valid. It must be between 1 and Infinity, and a multiple of 1 in the request organization",
      version,
      plan,
      { tasker: { proOnly: 0 } },
    ],
  ];
  test.each(RULES)(
    "and novating (%i) keep the subscription rule: %s",
    async (status, rule, services, plans, addOns) => {
      expect(await create(at(services, plans, addOns))).toMatchObject({
        status: 400,
        body: { error: `Invalid subscription: Error: ${rule}` },
      });
      const maps = { contractedServices: services, subscriptionPlans: plans, subscriptionAddOns: addOns };
      const before = await show(api, key, "bare");
      const error = status === 404 ? rule : `Invalid subscription: Error: ${rule}`;
      const paths = [
        ["/contracts/bare", key],
        [`/organizations/${organizationId}/contracts/bare`, api.callers.manager.key],
      ] as const;
      for (const [path, as] of paths) {
        expect(await api.call("PUT", path, { key: as, body: maps })).toMatchObject({ status, body: { error } });
      }
      expect(await show(api, key, "bare")).toEqual(before);
    },
  );

  test("is refused with 409 for the same end user, before the services are looked at, and the other organization is free", async () => {
    const again = await create(contractFor("shape", { contractedServices: {} }));
    expect(again).toMatchObject({ status: 409, body: { error: "CONFLICT: Contract for user shape already exists" } });
    const other = await api.newOrganization(api.callers.outsider);
    await upload(api, other.key, tasker());
    expect((await contract(api, other.key, "shape")).organizationId).toBe(other.id);
  });

  test("by a platform ADMIN needs an organization, in the body, or in the path, which decides", async () => {
    expect(await create(contractFor("by-admin"), admin)).toMatchObject({
      status: 400,
      body: {
        error:
          "INVALID DATA: Organization ID is required for contract creation. Since you are an ADMIN, you must specify the organizationId in the request body.",
      },
    });
    expect(await create(contractFor("by-admin", { organizationId }), admin)).toMatchObject({ status: 201 });
    const nested = `/organizations/${organizationId}/contracts`;
    expect(await api.call("POST", nested, { key: admin, body: contractFor("by-admin-2") })).toMatchObject({
      status: 201,
    });
    for (const as of [admin, api.callers.owner.key]) {
      const body = contractFor("by-admin-3", { organizationId: "0".repeat(24) });
      expect(await api.call("POST", nested, { key: as, body })).toMatchObject({
        status: 403,
        body: { error: "PERMISSION ERROR: Organization ID mismatch" },
      });
    }
    const nowhere = contractFor("by-admin-3", { organizationId: "0".repeat(24) });
    expect(await create(nowhere, admin)).toMatchObject({
      status: 404,
      body: { error: `Organization with ID ${"0".repeat(24)} not found` },
    });
  });

  test("takes no archived version and no disabled service", async () => {
    await upload(
      api,
      key,
      tasker({ name: "Fading" }),
      tasker({ name: "Fading", version: "2", createdAt: "2025-02-01" }),
    );
    const body = { subscriptionPlan: "PRO" };
    const archived = await api.call("PUT", "/services/Fading/pricings/1.0.0?availability=archived", { key, body });
    expect(archived.status).toBe(200);
    expect(await create(at({ Fading: "1.0.0" }))).toMatchObject({
      status: 400,
      body: { error: "Invalid contract: Pricing version 1.0.0 for service Fading not found" },
    });
    await api.call("DELETE", "/services/Fading", { key });
    expect(await create(at({ Fading: "2" }))).toMatchObject({
      status: 400,
      body: { error: "Invalid contract: Services not found: fading" },
    });
  });

  test("stores url-encoded bodies like JSON", async () => {
    const form =
      "userContact[userId]=formed&userContact[username]=f&contractedServices[tasker]=1.0.0&subscriptionPlans[tasker]=PRO&subscriptionAddOns=";
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const refused = await api.call("POST", "/contracts", { key, body: form, headers });
    expect(refused).toMatchObject({ status: 422, body: { error: "subscriptionAddOns must be an object" } });
  });
});

describe("showing a contract", () => {
  test("of nobody is a 404 with the userId as sent", async () => {
    const error = "Contract with userId no body not found";
    expect(await api.call("GET", "/contracts/no%20body", { key })).toMatchObject({ status: 404, body: { error } });
    const nested = `/organizations/${organizationId}/contracts/no%20body`;
    expect(await api.call("GET", nested, { key: api.callers.evaluator.key })).toMatchObject({
      status: 404,
      body: { error },
    });
  });

  test("is the same on both paths", async () => {
    const nested = await api.call("GET", `/organizations/${organizationId}/contracts/shape`, {
      key: api.callers.evaluator.key,
    });
    expect(nested.body).toEqual(await show(api, key, "shape"));
  });

  test("by a platform ADMIN finds the only match, asks when there are several, and takes the organization that is named", async () => {
    expect(await api.call("GET", "/contracts/bare", { key: admin })).toMatchObject({ status: 200 });
    expect(await api.call("GET", "/contracts/shape", { key: admin })).toMatchObject({
      status: 409,
      body: {
        error: "CONFLICT: Several contracts found for userId shape. Please specify the organizationId query parameter",
      },
    });
    expect(await api.call("GET", `/contracts/shape?organizationId=${organizationId}`, { key: admin })).toMatchObject({
      status: 200,
      body: { organizationId },
    });
    expect(await api.call("GET", "/contracts/nobody", { key: admin })).toMatchObject({ status: 404 });
  });

  const override = "overrides/tasker/usageLimits/maxTasks";
  test.each([
    ...[
      "overrides",
      override,
      "scheduled",
      "holds",
      "usage",
      "blocks",
      "balances",
      "budgets",
      "budgets/a",
      "members",
      "members/a",
    ].map((path) => ["GET", path, undefined] as const),
    ["PUT", override, { mode: "set", value: 1, reason: "Agreed" }] as const,
    ...[override, "budgets/a", "members/a", "billing"].map((path) => ["DELETE", path, undefined] as const),
  ])("by a platform ADMIN asks when there are several, also for %s %s", async (method, path, body) => {
    const answer = await api.call(method, `/contracts/shape/${path}`, { key: admin, body });
    expect(answer).toMatchObject({
      status: 409,
      body: {
        error: "CONFLICT: Several contracts found for userId shape. Please specify the organizationId query parameter",
      },
    });
  });
});

describe("novating a contract", () => {
  const maps = (contractedServices: object, subscriptionPlans: object, subscriptionAddOns: object = {}) => ({
    contractedServices,
    subscriptionPlans,
    subscriptionAddOns,
  });
  const novate = (userId: string, body: unknown) =>
    api.call<ContractBody>("PUT", `/contracts/${userId}`, { key, body });

  test("appends the old subscription to the history, restarts the billing period and keeps balances still tracked", async () => {
    await contract(api, key, "moving", { billingPeriod: { autoRenew: true, renewalDays: 10 } });
    await api.call("PUT", "/contracts/moving/usageLevels", { key, body: { tasker: { maxTasks: 3, maxExports: 2 } } });
    api.setNow(new Date("2025-06-20T00:00:00.000Z"));
    const body = {
      ...maps({ TASKER: "2.0.0", extras: "1.0.0" }, { Tasker: "BASIC" }, { Extras: { reporting: 1 } }),
      userContact: { userId: "x" },
    };
    const novated = await novate("moving", { ...body, billingPeriod: { autoRenew: false, renewalDays: 99 } });
    expect(novated).toMatchObject({ status: 200 });
    expect(novated.body).toMatchObject({
      userContact: { userId: "moving" },
      billingPeriod: {
        startDate: "2025-06-20T00:00:00.000Z",
        endDate: "2025-06-30T00:00:00.000Z",
        autoRenew: false,
        renewalDays: 10,
      },
      contractedServices: { tasker: "2.0.0", extras: "1.0.0" },
      subscriptionPlans: { tasker: "BASIC" },
      subscriptionAddOns: { extras: { reporting: 1 } },
    });
    expect(novated.body.usageLevels).toEqual({
      tasker: { maxTasks: { resetTimeStamp: "2025-07-15T12:00:00.000Z", consumed: 3 }, maxExports: { consumed: 2 } },
      extras: { maxReports: { consumed: 0 } },
    });
    expect(novated.body.history).toEqual([
      {
        startDate: "2025-06-15T12:00:00.000Z",
        endDate: "2025-06-20T00:00:00.000Z",
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      },
    ]);
  });

  test("to nothing leaves a contract without services, and back again restarts it", async () => {
    const empty = await novate("moving", maps({}, {}));
    expect(empty.body).toMatchObject({
      usageLevels: {},
      contractedServices: {},
      subscriptionPlans: {},
      subscriptionAddOns: {},
    });
    expect(empty.body.history).toHaveLength(2);
    const back = await novate("moving", maps({ tasker: "1.0.0" }, { tasker: "PRO" }));
    expect(back.body.usageLevels["tasker"]?.["maxTasks"]).toEqual({
      resetTimeStamp: "2025-07-15T12:00:00.000Z",
      consumed: 0,
    });
    expect(back.body.history.map((entry) => entry["contractedServices"])).toEqual([
      { tasker: "1.0.0" },
      { tasker: "2.0.0", extras: "1.0.0" },
      {},
    ]);
  });

  test("makes an expired contract valid again", async () => {
    await contract(api, key, "expired", { billingPeriod: { renewalDays: 1 } });
    api.setNow(new Date("2025-06-20T00:00:00.000Z"));
    expect(await api.call("POST", "/features/expired", { key })).toMatchObject({ status: 400 });
    expect((await novate("expired", maps({ tasker: "1.0.0" }, { tasker: "PRO" }))).status).toBe(200);
    expect(await api.call("POST", "/features/expired", { key })).toMatchObject({ status: 200 });
  });

  test("makes a contract whose only service was disabled valid again, for the usual number of days", async () => {
    await upload(api, key, tasker({ name: "Closing" }));
    await contract(api, key, "emptied", {
      ...maps({ closing: "1.0.0" }, { closing: "PRO" }),
      billingPeriod: { autoRenew: true, renewalDays: 7 },
    });
    await api.call("DELETE", "/services/Closing", { key });
    const at = NOON.toISOString();
    expect((await show(api, key, "emptied")).billingPeriod).toEqual({
      startDate: at,
      endDate: at,
      autoRenew: false,
      renewalDays: 0,
    });
    const novated = await novate("emptied", maps({ tasker: "1.0.0" }, { tasker: "PRO" }));
    expect(novated.body.billingPeriod).toEqual({
      startDate: at,
      endDate: "2025-07-15T12:00:00.000Z",
      autoRenew: false,
      renewalDays: 30,
    });
    expect(await show(api, key, "emptied")).toEqual(novated.body);
    api.setNow(new Date("2025-06-16T12:00:00.000Z"));
    expect(await api.call("POST", "/features/emptied", { key })).toMatchObject({ status: 200 });
  });

  test("adds a reset moment to a kept limit that became renewable, drops one that stopped, and keeps what was consumed", async () => {
    const turned = tasker({ name: "Turning", version: "2.0.0", createdAt: "2025-02-01" })
      .replace(
        "type: RENEWABLE, period: { value: 1, unit: MONTH }, linkedFeatures: [board]",
        "type: NON_RENEWABLE, trackable: true",
      )
      .replace(
        "unit: export, type: NON_RENEWABLE, trackable: true",
        "unit: export, type: RENEWABLE, period: { value: 2, unit: DAY }",
      );
    await upload(api, key, tasker({ name: "Turning" }), turned);
    await contract(api, key, "turning", maps({ turning: "1.0.0" }, { turning: "PRO" }));
    await api.call("PUT", "/contracts/turning/usageLevels", { key, body: { turning: { maxTasks: 3, maxExports: 2 } } });
    const novated = await novate("turning", maps({ turning: "2.0.0" }, { turning: "PRO" }));
    expect(novated.body.usageLevels).toEqual({
      turning: { maxTasks: { consumed: 3 }, maxExports: { resetTimeStamp: "2025-06-17T12:00:00.000Z", consumed: 2 } },
    });
  });

  test("keeps an archived version that the contract already holds, and takes no other archived one", async () => {
    await upload(api, key, tasker({ name: "Old" }), tasker({ name: "Old", version: "2.0.0", createdAt: "2025-02-01" }));
    await contract(api, key, "older", maps({ old: "1.0.0" }, { old: "PRO" }));
    await api.call("PUT", "/services/Old/pricings/1.0.0?availability=archived", {
      key,
      body: { subscriptionPlan: "PRO" },
    });
    expect(await show(api, key, "older")).toMatchObject({ contractedServices: { old: "2.0.0" }, history: [] });
    const sentence = "Pricing version 1.0.0 for service old not found in the request organization";
    expect(await novate("older", maps({ old: "1.0.0" }, { old: "GOLD" }))).toMatchObject({
      status: 404,
      body: { error: sentence },
    });
    // Only re-enabling a service leaves a contract on an archived version, so the test creates the state directly.
    await api.database.connection.client`update pricings set availability = 'archived' where version = '2.0.0'
      and service_id = (select id from services where name = 'Old')`;
    expect(await novate("older", maps({ old: "2.0.0" }, { old: "BASIC" }))).toMatchObject({ status: 200 });
    await contract(api, key, "younger");
    expect(await novate("younger", maps({ old: "2.0.0" }, { old: "BASIC" }))).toMatchObject({ status: 404 });
  });

  test.each([
    [422, "The contractedServices field is required", {}],
    [422, "The subscriptionPlans field is required", { contractedServices: {} }],
    [422, "The subscriptionAddOns field is required", { contractedServices: {}, subscriptionPlans: {} }],
    [422, "Each value in contractedServices must be a string (service name)", maps({ tasker: null }, {})],
    [404, "Pricing version  for service tasker not found in the request organization", maps({ tasker: "" }, {})],
    [404, "Pricing version 3 for service nothing not found in the request organization", maps({ Nothing: "3" }, {})],
    [
      404,
      "Pricing version 1.0.0 for service  tasker not found in the request organization",
      maps({ " tasker": "1.0.0" }, {}),
    ],
    [400, "INVALID DATA: Service tasker is given more than once", maps({ Tasker: "1.0.0", tasker: "1.0.0" }, {})],
  ])("is refused with %i: %s", async (status, error, body) => {
    expect(await novate("bare", body)).toMatchObject({ status, body: { error } });
  });

  test("of nobody is a 404, once the body is valid", async () => {
    expect(await novate("nobody", {})).toMatchObject({ status: 422 });
    expect(await novate("nobody", maps({}, {}))).toMatchObject({
      status: 404,
      body: { error: "Contract with userId nobody not found" },
    });
  });

  describe("of a group", () => {
    const group = (groupId: string, body: unknown, as = key, path = "/contracts") =>
      api.call<ContractBody[]>("PUT", `${path}?groupId=${groupId}`, { key: as, body });
    const target = maps({ tasker: "2.0.0" }, { tasker: "BASIC" });

    beforeAll(async () => {
      for (const [userId, username] of [
        ["g1", "Zoe"],
        ["g2", "adam"],
        ["g3", "Bob"],
      ] as const) {
        await contract(api, key, userId, { userContact: { userId, username }, groupId: "team" });
      }
      await contract(api, key, "h1", { groupId: "other" });
    });

    test("moves every contract of the group, answers them by username in code-point order, and touches no other", async () => {
      const untouched = await show(api, key, "h1");
      for (const [as, path] of [
        [key, "/contracts"],
        [api.callers.manager.key, `/organizations/${organizationId}/contracts`],
      ] as const) {
        const moved = await group("team", target, as, path);
        expect(moved.status).toBe(200);
        expect(moved.body.map((one) => one.userContact["username"])).toEqual(["Bob", "Zoe", "adam"]);
        for (const one of moved.body) expect(one.contractedServices).toEqual({ tasker: "2.0.0" });
      }
      expect(await show(api, key, "h1")).toEqual(untouched);
    });

    test("is all or none: one contract that may not have the version stops all", async () => {
      await api.call("PUT", "/contracts/g2", { key, body: maps({ old: "2.0.0" }, { old: "PRO" }) });
      await contract(api, key, "g4", { groupId: "mixed" });
      await api.database.connection.client`update contracts set group_id = 'mixed' where user_id = 'older'`;
      const before = [await show(api, key, "g4"), await show(api, key, "older")];
      expect(await group("mixed", maps({ old: "2.0.0" }, { old: "PRO" }))).toMatchObject({ status: 404 });
      expect([await show(api, key, "g4"), await show(api, key, "older")]).toEqual(before);
    });

    test.each([
      [422, "The contractedServices field is required", "", {}],
      [400, "Missing groupId query parameter", "", target],
    ])("is refused with %i: %s", async (status, error, groupId, body) => {
      expect(await group(groupId, body)).toMatchObject({ status, body: { error } });
      const nested = `/organizations/${organizationId}/contracts`;
      expect(await group(groupId, body, api.callers.owner.key, nested)).toMatchObject({ status, body: { error } });
    });

    test("that has no contract is a 404 that names group and organization", async () => {
      const sentence = (scope: string) =>
        `INVALID DATA: No contracts found with groupId nope within organization ${scope}`;
      expect(await group("nope", target)).toMatchObject({ status: 404, body: { error: sentence(organizationId) } });
      expect(await group("nope", target, admin)).toMatchObject({ status: 404, body: { error: sentence("undefined") } });
    });

    test("by a platform ADMIN reaches every organization, each validated against its own services", async () => {
      const [other] = await api.database.connection.client<{ id: string; organization_id: string }[]>`
        update contracts set group_id = 'everywhere' where user_id = 'shape' and organization_id <> ${organizationId} returning *`;
      await api.database.connection.client`update contracts set group_id = 'everywhere' where user_id = 'h1'`;
      expect(await group("everywhere", target, admin)).toMatchObject({ status: 404 });
      const moved = await group("everywhere", maps({ tasker: "1.0.0" }, { tasker: "BASIC" }), admin);
      expect(moved.body.map((one) => one.organizationId).toSorted()).toEqual(
        [organizationId, other?.organization_id].toSorted(),
      );
      for (const one of moved.body) expect(one.subscriptionPlans).toEqual({ tasker: "BASIC" });
    });
  });
});

describe("usage levels", () => {
  const put = (query: string, body?: unknown, userId = "levels") =>
    api.call<ContractBody>("PUT", `/contracts/${userId}/usageLevels${query}`, { key, body });
  const reset = { maxTasks: { resetTimeStamp: "2025-07-15T12:00:00.000Z", consumed: 4 }, maxExports: { consumed: 6 } };

  beforeEach(async () => {
    await api.call("DELETE", "/contracts/levels", { key });
    await contract(api, key, "levels", {
      contractedServices: { tasker: "1.0.0", extras: "1.0.0" },
      subscriptionAddOns: { extras: { reporting: 1 } },
    });
    await put("", { tasker: { maxTasks: 4, maxExports: 6 } });
  });

  const SHAPE = "The input must be an object with the structure: Record<string, Record<string, number>>";
  test.each([
    ["[]", "[]"],
    ["a number for a service", '{"tasker":1}'],
    ["a text amount", '{"tasker":{"maxTasks":"1"}}'],
    ["null", '{"tasker":null}'],
    ["an infinite amount", '{"tasker":{"maxTasks":1e999}}'],
  ])("refuse a body that is not amounts by service and limit, in every mode: %s", async (_, body) => {
    for (const query of ["", "?reset=true", "?usageLimit=maxTasks", "?reset=true&usageLimit=x"]) {
      expect(await put(query, body)).toMatchObject({ status: 422, body: { error: SHAPE } });
    }
  });

  test.each<[mode: string, query: string, body: unknown, usageLevels: unknown]>([
    ["add amounts", "", { TASKER: { maxTasks: 2 } }, { ...reset, maxTasks: { ...reset.maxTasks, consumed: 6 } }],
    [
      "add fractions exactly",
      "",
      { tasker: { maxTasks: 0.1, maxExports: 0.2 } },
      { maxTasks: { ...reset.maxTasks, consumed: 4.1 }, maxExports: { consumed: 6.2 } },
    ],
    [
      "give back, down to zero",
      "",
      { tasker: { maxTasks: -1, maxExports: -100 } },
      { maxTasks: { ...reset.maxTasks, consumed: 3 }, maxExports: { consumed: 0 } },
    ],
    ["ignore limits that the service does not track", "", { tasker: { maxSeats: 1, nothing: 2, __proto__: 3 } }, reset],
    ["stay as they are for an empty body", "", {}, reset],
    ["stay as they are for an absent body", "", undefined, reset],
    ["count only an exactly true reset", "?reset=false", {}, reset],
    [
      "reset the renewable ones, one period on",
      "?reset=true",
      {},
      { maxTasks: { resetTimeStamp: "2025-08-15T12:00:00.000Z", consumed: 0 }, maxExports: { consumed: 6 } },
    ],
    [
      "reset all when asked",
      "?reset=true&renewableOnly=false",
      undefined,
      { maxTasks: { resetTimeStamp: "2025-08-15T12:00:00.000Z", consumed: 0 }, maxExports: { consumed: 0 } },
    ],
    [
      "reset one limit by name",
      "?usageLimit=maxTasks",
      {},
      { maxTasks: { resetTimeStamp: "2025-08-15T12:00:00.000Z", consumed: 0 }, maxExports: { consumed: 6 } },
    ],
    [
      "reset one limit that does not renew",
      "?usageLimit=maxExports",
      {},
      { maxTasks: reset.maxTasks, maxExports: { consumed: 0 } },
    ],
  ])("%s", async (_, query, body, usageLevels) => {
    const answer = await put(query, body);
    expect(answer).toMatchObject({ status: 200 });
    expect(answer.body.usageLevels["tasker"]).toEqual(usageLevels);
    expect(await show(api, key, "levels")).toEqual(answer.body);
  });

  test("take any finite amount, and never say more than a number can", async () => {
    const exports = async (amount: number, query = "") => {
      const answer = await put(query, { tasker: { maxExports: amount } });
      expect(answer).toMatchObject({ status: 200 });
      expect(await show(api, key, "levels")).toEqual(answer.body);
      return answer.body.usageLevels["tasker"]?.["maxExports"]?.consumed;
    };
    expect(await exports(1e16)).toBe(1e16 + 6);
    expect(await exports(0, "?reset=true&renewableOnly=false")).toBe(0);
    expect(await exports(Number.MAX_VALUE)).toBe(Number.MAX_VALUE);
    expect(await exports(Number.MAX_VALUE)).toBe(Number.MAX_VALUE);
    expect(await exports(Number.MIN_VALUE)).toBe(Number.MAX_VALUE);
    expect(await api.call("POST", "/features/levels/tasker-bulk?details=true", { key })).toMatchObject({
      status: 200,
      body: { eval: false },
    });
    expect(await exports(-Number.MAX_VALUE)).toBe(0);
    expect(await exports(Number.MIN_VALUE)).toBe(Number.MIN_VALUE);
    expect((await checkLedger(api.database.connection.db)).violations).toEqual([]);
  });

  test("are zero after a reset, also where the balance had more digits than a number", async () => {
    await put("", { tasker: { maxExports: 1e15 } });
    await put("", { tasker: { maxExports: 0.01 } });
    expect((await put("?usageLimit=maxExports", {})).body.usageLevels["tasker"]?.["maxExports"]?.consumed).toBe(0);
  });

  test.each<[status: number, error: string, query: string, body: unknown, userId: string]>([
    [
      400,
      "Invalid query: Both reset and usageLimit cannot be provided at the same time",
      "?reset=false&usageLimit=maxTasks",
      {},
      "nobody",
    ],
    [404, "Contract with userId nobody not found", "", {}, "nobody"],
    [
      404,
      "Usage limit: nope not found in the contract. Maybe it's not being tracked as usage level",
      "?usageLimit=nope",
      {},
      "levels",
    ],
    [
      404,
      "Usage limit: maxSeats not found in the contract. Maybe it's not being tracked as usage level",
      "?usageLimit=maxSeats",
      {},
      "levels",
    ],
    [404, "Service nope not found in the contract", "", { tasker: { maxTasks: 1 }, nope: { x: 1 } }, "levels"],
    [404, "Service  tasker not found in the contract", "", { " tasker": { maxTasks: 1 } }, "levels"],
    [404, "Service constructor not found in the contract", "", { constructor: { prototype: 1 } }, "levels"],
  ])("are refused with %i and nothing changes: %s", async (status, error, query, body, userId) => {
    expect(await put(query, body, userId)).toMatchObject({ status, body: { error } });
    expect((await show(api, key, "levels")).usageLevels["tasker"]).toEqual(reset);
    expect(Object.hasOwn(Object.prototype, "consumed")).toBe(false);
  });

  test("do not exist inside an organization", async () => {
    for (const part of ["usageLevels", "userContact", "billingPeriod"]) {
      const path = `/organizations/${organizationId}/contracts/levels/${part}`;
      expect((await api.call("PUT", path, { key: api.callers.owner.key, body: {} })).status).toBe(404);
    }
  });
});

describe("the user contact", () => {
  const put = (body: unknown) => api.call<ContractBody>("PUT", "/contracts/shape/userContact", { key, body });

  test("takes the given fields and keeps the others, the userId whatever is sent", async () => {
    const changed = await put({ username: "lovelace", email: "ada@example.org", userId: "other", role: "ADMIN" });
    expect(changed).toMatchObject({ status: 200 });
    expect(changed.body.userContact).toEqual({
      userId: "shape",
      username: "lovelace",
      email: "ada@example.org",
      phone: "+34 600",
    });
    expect((await put({})).body).toEqual(changed.body);
    expect(await show(api, key, "shape")).toEqual(changed.body);
  });

  test.each<[error: string, body: object]>([
    ...["username", "firstName", "lastName", "phone"].map((field): [string, object] => [
      `The ${field} field must not be longer than 512 characters`,
      { [field]: "x".repeat(513) },
    ]),
    ["The username field must be a string", { username: 1, firstName: 1 }],
    ["The username field cannot be empty", { username: "", firstName: 1 }],
    ["The firstName field must be a string", { firstName: null }],
    ["The lastName field must be a string", { lastName: {} }],
    ["The email field must be a valid email address", { email: "ada@" }],
    ["The phone field must be a string", { phone: 1, email: 1 }],
  ])("is refused with 422: %s", async (error, body) => {
    expect(await put(body)).toMatchObject({ status: 422, body: { error } });
  });

  test("of nobody is a 404", async () => {
    expect(await api.call("PUT", "/contracts/nobody/userContact", { key, body: {} })).toMatchObject({
      status: 404,
      body: { error: "Contract with userId nobody not found" },
    });
  });
});

describe("the billing period", () => {
  const put = (body: unknown, userId = "billed") =>
    api.call<ContractBody>("PUT", `/contracts/${userId}/billingPeriod`, { key, body });
  beforeAll(() => contract(api, key, "billed", { billingPeriod: { renewalDays: 10 }, groupId: "billing" }));

  test("takes the given fields, never the start date, and a change of renewalDays moves no date", async () => {
    const changed = await put({ autoRenew: "true", renewalDays: "7", startDate: "2001-01-01", id: "x" });
    expect(changed).toMatchObject({ status: 200 });
    expect(changed.body.billingPeriod).toEqual({
      startDate: "2025-06-15T12:00:00.000Z",
      endDate: "2025-06-25T12:00:00.000Z",
      autoRenew: true,
      renewalDays: 7,
    });
  });

  test.each([
    ["2025-12-31", "2025-12-31T00:00:00.000Z"],
    ["2025-12-31T10:00:00+02:00", "2025-12-31T08:00:00.000Z"],
    ["2025-12-31T10:00:00-0230", "2025-12-31T12:30:00.000Z"],
    ["2025-12-31T10:00+02", "2025-12-31T08:00:00.000Z"],
    ["2025-12-31T10:00:00.123456789Z", "2025-12-31T10:00:00.123Z"],
    ["2028-02-29", "2028-02-29T00:00:00.000Z"],
    ["2025-06-15T12:00:00.000Z", "2025-06-15T12:00:00.000Z"],
  ])("takes the end date %s", async (endDate, stored) => {
    expect((await put({ endDate })).body.billingPeriod.endDate).toBe(stored);
  });

  test.each<[status: number, error: string, body: object]>([
    [422, "The autoRenew field must be a boolean", { autoRenew: 2 }],
    [422, "renewalDays must be a positive integer", { renewalDays: 0 }],
    [422, "renewalDays must be a positive integer", { renewalDays: null }],
    [422, "renewalDays must not make the billing period end after the year 9999", { renewalDays: 2_912_643 }],
    [422, "The endDate field must be a valid date", { endDate: "soon" }],
    [422, "The endDate field must be a valid date", { endDate: "2025-13-45" }],
    [422, "The endDate field must be a valid date", { endDate: "+275760-09-13" }],
    [422, "The endDate field must be a valid date", { endDate: 5 }],
    ...[
      "2030-02-30",
      "2029-02-29",
      "2030-01-01 (foo)",
      "2030-01-01 10:00 PM",
      "2030-01-01 10:00",
      "2030-01-01 EST",
      "2030-01-01T10:00 02:00",
      "2030-01-01T25:00Z",
      "-2030-05-05",
      "0000-01-01",
      "9999-12-31T23:00-10:00",
    ].map((endDate): [number, string, object] => [422, "The endDate field must be a valid date", { endDate }]),
    [400, "End date cannot be before the start date", { endDate: "2025-06-15T11:59:59.999Z" }],
  ])("is refused with %i: %s %j", async (status, error, body) => {
    expect(await put(body)).toMatchObject({ status, body: { error } });
  });

  test("that ends at once makes the contract expired and leaves it readable", async () => {
    await put({ endDate: "2025-06-15T12:00:00.000Z", autoRenew: false });
    expect(await api.call("POST", "/features/billed", { key })).toMatchObject({ status: 200 });
    api.setNow(new Date(NOON.getTime() + 1));
    expect(await api.call("POST", "/features/billed", { key })).toMatchObject({ status: 400 });
    expect(await show(api, key, "billed")).toMatchObject({ billingPeriod: { autoRenew: false } });
  });

  test("of nobody is a 404", async () => {
    expect(await put({}, "nobody")).toMatchObject({
      status: 404,
      body: { error: "Contract with userId nobody not found" },
    });
  });

  describe("of a group", () => {
    const all = (query: string, body: unknown, as = key) =>
      api.call<ContractBody[]>("PUT", `/contracts/billingPeriod${query}`, { key: as, body });

    test("changes all its contracts and answers them by username", async () => {
      await contract(api, key, "billed-2", {
        userContact: { userId: "billed-2", username: "Anna" },
        groupId: "billing",
      });
      const changed = await all("?groupId=billing", { renewalDays: 12 });
      expect(changed.body.map((one) => [one.userContact["username"], one.billingPeriod.renewalDays])).toEqual([
        ["Anna", 12],
        ["billed", 12],
      ]);
      expect((await show(api, key, "h1")).billingPeriod.renewalDays).toBe(30);
    });

    test("is all or none", async () => {
      const late = "2025-06-30T00:00:00.000Z";
      await api.database.connection
        .client`update contracts set start_date = ${late}::timestamptz where user_id = 'billed-2'`;
      const before = await show(api, key, "billed");
      expect(await all("?groupId=billing", { endDate: "2025-06-29", renewalDays: 3 })).toMatchObject({
        status: 400,
        body: {
          error:
            "INVALID DATA: Error updating billing period for contract of user billed-2. End date cannot be before the start date.",
        },
      });
      expect(await show(api, key, "billed")).toEqual(before);
    });

    test.each<[status: number, error: string, query: string, body: unknown]>([
      [422, "renewalDays must be a positive integer", "", { renewalDays: 0 }],
      // A script with an unset variable must not change every contract of the organization.
      [400, "Missing groupId query parameter", "?groupId=", { renewalDays: 3 }],
      [
        404,
        "INVALID DATA: Contract with groupId nope not found within organization {organization}",
        "?groupId=nope",
        {},
      ],
    ])("is refused with %i: %s", async (status, error, query, body) => {
      expect(await all(query, body)).toMatchObject({
        status,
        body: { error: error.replace("{organization}", organizationId) },
      });
    });

    test("not named: a key changes all contracts of its organization, a platform ADMIN is refused", async () => {
      expect(await all("", { renewalDays: 2 }, admin)).toMatchObject({
        status: 400,
        body: { error: "Missing groupId query parameter" },
      });
      const changed = await all("", { renewalDays: 2 });
      expect(changed.status).toBe(200);
      expect(new Set(changed.body.map((one) => one.organizationId))).toEqual(new Set([organizationId]));
      expect(changed.body.every((one) => one.billingPeriod.renewalDays === 2)).toBe(true);
      const empty = await api.newOrganization(api.callers.outsider, "Empty");
      expect(await all("", {}, empty.key)).toMatchObject({ status: 404 });
    });
  });
});

describe("deleting", () => {
  test("a contract answers 204 without body, once, and the end user may be contracted again at once", async () => {
    await contract(api, key, "leaving");
    await api.call("PUT", "/contracts/leaving/usageLevels", { key, body: { tasker: { maxTasks: 3 } } });
    expect(await api.call("DELETE", "/contracts/leaving", { key })).toMatchObject({ status: 204, body: undefined });
    expect(await api.call("DELETE", "/contracts/leaving", { key })).toMatchObject({
      status: 404,
      body: { error: "Contract with userId leaving not found" },
    });
    expect((await contract(api, key, "leaving")).usageLevels["tasker"]?.["maxTasks"]?.consumed).toBe(0);
    const nested = `/organizations/${organizationId}/contracts/leaving`;
    expect(await api.call("DELETE", nested, { key: api.callers.organizationAdmin.key })).toMatchObject({ status: 204 });
  });

  test("one whose id no path can carry is possible by the query, and leaves the others", async () => {
    await create(contractFor("dotted"));
    await create(contractFor("beside"));
    await api.database.connection.client`update contracts set user_id = '.' where user_id = 'dotted'`;
    const found = await api.call<ContractBody[]>("GET", "/contracts?q=dotted", { key });
    expect(found.body).toMatchObject([{ userContact: { userId: "." } }]);
    expect(await api.call("DELETE", "/contracts?userId=", { key })).toMatchObject({ status: 400 });
    expect(await api.call("DELETE", "/contracts?userId=.", { key })).toMatchObject({ status: 204 });
    expect(await api.call("DELETE", "/contracts?userId=.", { key })).toMatchObject({
      status: 404,
      body: { error: "Contract with userId . not found" },
    });
    expect(await api.call("GET", "/contracts/beside", { key })).toMatchObject({ status: 200 });
  });

  test("all contracts empties the organization only, also when there is nothing left, with one event for each", async () => {
    const count = async () => {
      await numberEvents(api.resources.db);
      const rows = await api.database.connection.client<{ own: string; other: string; events: string }[]>`
        select count(*) filter (where organization_id = ${organizationId}) as own,
          count(*) filter (where organization_id <> ${organizationId}) as other,
          (select count(*) from outbox) as events from contracts`;
      return rows[0];
    };
    const before = await count();
    const nested = `/organizations/${organizationId}/contracts`;
    expect(await api.call("DELETE", nested, { key: api.callers.owner.key })).toMatchObject({
      status: 204,
      body: undefined,
    });
    const events = Number(before?.events) + Number(before?.own);
    expect(await count()).toEqual({ own: "0", other: before?.other, events: String(events) });
    expect(await api.call("DELETE", "/contracts", { key })).toMatchObject({ status: 204 });
    expect(await api.call("GET", "/contracts/bare", { key })).toMatchObject({ status: 404 });
    expect(await api.call("DELETE", "/contracts", { key: admin })).toMatchObject({ status: 204 });
    expect(await count()).toEqual({ own: "0", other: "0", events: String(events + Number(before?.other)) });
  });
});
