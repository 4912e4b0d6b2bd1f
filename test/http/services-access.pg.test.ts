import { sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type Callers, type Method, type TestApi } from "../support/api.ts";
import { eventsDuring } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { contract, familyCalls } from "../support/service-calls.ts";
import { yamlUpload } from "../support/uploads.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

describe("the order of checks", () => {
  const BAD_PREFIX = 'Invalid API Key format. API Keys must start with "usr_" or "org_"';
  const NO_KEY = 'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.';
  const NO_RULE = "You do not have permission to access this resource";
  const USER_ONLY = "This route requires a user API key. Organization API keys are not allowed";
  const NOT_MEMBER =
    "This route requires user authentication. Either you did not provide an user API key or your are not a member of this organization";
  const ROLES = (list: string) => `You do not have permission to access this resource. Allowed roles: ${list}`;
  const ORG = "/organizations/{org}/services";
  type Who = keyof Callers | `key ${string}` | undefined;

  // Each call also has every later fault that it can have, such as an invalid body.
  test.each<[string, Who, Method, string, number, string]>([
    ["a key of another kind", "key abc", "PUT", "/services/x", 401, BAD_PREFIX],
    ["a key of another kind on a path without rule", "key abc", "PATCH", "/services", 401, BAD_PREFIX],
    ["an unknown organization key", "key org_x", "PUT", "/services/x", 401, "Invalid Organization API Key"],
    ["an unknown user key", "key usr_x", "PUT", `${ORG}/x`, 401, "INVALID DATA: Invalid API Key"],
    ["a path without rule and no key", undefined, "PATCH", "/services", 403, NO_RULE],
    ["a path without rule", "all", "POST", "/services/x/pricings/1/public-url", 403, NO_RULE],
    ["no key", undefined, "PUT", "/services/x", 401, NO_KEY],
    ["no key inside an organization that is none", undefined, "PUT", "/organizations/nothing/services/x", 401, NO_KEY],
    ["an organization key inside an organization", "all", "PUT", `${ORG}/x`, 403, USER_ONLY],
    ["a user key on the top level", "owner", "PUT", "/services/x", 403, "Your user role (USER) does not have permission to PUT /services/x"], // prettier-ignore
    ["a platform ADMIN on the top level", "platformAdmin", "PUT", "/services/x", 403, "Your user role (ADMIN) does not have permission to PUT /services/x"], // prettier-ignore
    ["a scope that may not", "evaluation", "PUT", "/services/x", 403, "Your organization API key role (EVALUATION) does not have permission to PUT /services/x"], // prettier-ignore
    ["a scope that may not delete", "management", "DELETE", "/services/x", 403, "Your organization API key role (MANAGEMENT) does not have permission to DELETE /services/x"], // prettier-ignore
    ["a scope that may not prune", "management", "DELETE", "/services", 403, "Your organization API key role (MANAGEMENT) does not have permission to DELETE /services"], // prettier-ignore
    ["an unknown organization", "owner", "PUT", "/organizations/000000000000000000000000/services/x", 404, "Organization with ID 000000000000000000000000 not found"], // prettier-ignore
    ["an unknown organization, for a platform ADMIN", "platformAdmin", "PUT", "/organizations/000000000000000000000000/services/x", 404, "Organization with ID 000000000000000000000000 not found"], // prettier-ignore
    ["an id that is none", "owner", "PUT", "/organizations/nothing/services/x", 404, "INVALID DATA: Invalid organization ID"], // prettier-ignore
    ["somebody who is not a member", "outsider", "PUT", `${ORG}/x`, 403, NOT_MEMBER],
    ["a member who may only read", "evaluator", "PUT", `${ORG}/x`, 403, ROLES("OWNER, ADMIN, MANAGER")],
    ["a member who may not delete", "manager", "DELETE", `${ORG}/x`, 403, ROLES("OWNER, ADMIN")],
    ["a member who may not prune", "manager", "DELETE", ORG, 403, ROLES("OWNER, ADMIN")],
    ["a body of the wrong shape", "management", "PUT", "/services/x", 422, "The name field must be a string"],
    ["a body of the wrong shape, inside", "manager", "PUT", `${ORG}/x`, 422, "The name field must be a string"],
    ["a body of the wrong shape, by a platform ADMIN", "platformAdmin", "PUT", `${ORG}/x`, 422, "The name field must be a string"], // prettier-ignore
  ])("%s is what the answer says", async (_, who, method, path, status, error) => {
    const key = who?.startsWith("key ")
      ? who.slice(4)
      : who === undefined
        ? undefined
        : (api.callers[who as keyof Callers] as { key: string }).key;
    const answer = await api.call(method, path.replace("{org}", api.callers.organizationId), {
      key,
      body: { name: 7, availability: 7 },
    });
    expect(answer).toMatchObject({ status, body: { error } });
  });
});

test("public-url on the top level is readable by every scope", async () => {
  await familyCalls(api, "/services").create({ name: "Readable" });
  for (const { key } of [api.callers.all, api.callers.management, api.callers.evaluation]) {
    expect((await api.call("GET", "/services/Readable/pricings/1.0.0/public-url", { key })).status).toBe(200);
  }
});

test("a version that a contract still holds is not deleted: 409, and nothing has changed", async () => {
  const to = familyCalls(api, "/services");
  await to.create({ name: "Held" });
  await to.add({ name: "Held", version: "2.0.0" });
  await contract(api, "holder", { Held: { version: "1.0.0", plan: "FREE" } });
  // Archiving novates contracts, so only a direct write can leave a contract on an archived version.
  await api.database.connection.db.execute(sql`
    update pricings set availability = 'archived'
    where version = '1.0.0' and service_id = (select id from services where name = 'Held')`);
  const { result, events } = await eventsDuring(api.database, () => to.call("DELETE", "/Held/pricings/1.0.0"));
  expect(result).toMatchObject({ status: 409, body: { error: expect.stringMatching(/^CONFLICT: /) as unknown } });
  expect(events).toEqual([]);
  expect((await to.call("GET", "/Held/pricings/1.0.0")).status).toBe(200);
});

test("a failure of the server tells nobody what failed, and leaves nothing half done", async () => {
  const to = familyCalls(api, "/services");
  await to.create({ name: "Breaking" });
  await to.add({ name: "Breaking", version: "2.0.0" });
  await contract(api, "breaking", { Breaking: { version: "1.0.0", plan: "FREE" } });
  // Each change records its event in the last statement, so a failing event must roll back everything before it.
  const { db } = api.database.connection;
  await db.execute(sql`alter table outbox add constraint broken check (false) not valid`);
  try {
    const before = await to.call("GET", "/Breaking");
    for (const answer of [
      await to.create({ name: "Never" }),
      await to.add({ name: "Breaking", version: "3.0.0" }),
      await to.archive("Breaking", "1.0.0", { subscriptionPlan: "FREE" }),
      await to.call("DELETE", "/Breaking"),
    ]) {
      expect({ status: answer.status, body: answer.body }).toEqual({
        status: 500,
        body: { error: "Internal server error" },
      });
      expect(answer.headers.get("x-request-id")).toMatch(/\S/);
    }
    expect((await to.call("GET", "/Breaking")).body).toEqual(before.body);
    expect((await to.call("GET", "/Never")).status).toBe(404);
    const held = await api.call("GET", "/contracts/breaking", { key: api.callers.all.key });
    expect(held.body).toMatchObject({ contractedServices: { breaking: "1.0.0" } });
  } finally {
    await db.execute(sql`alter table outbox drop constraint broken`);
  }
  expect((await to.archive("Breaking", "1.0.0", { subscriptionPlan: "FREE" })).status).toBe(200);
});

test("names that contain words of errors, quotes and code are names and change nothing else", async () => {
  const to = familyCalls(api, "/services");
  for (const name of [
    "not found invalid exists conflict parsing",
    "zo'+(process.title='pwned')+'m",
    `quote " backslash \\ ']`,
    "<script>alert(1)</script>",
    "constructor",
  ]) {
    const made = await to.call("POST", "", yamlUpload(pricingText({ name })));
    expect(made).toMatchObject({ status: 201, body: { name } });
    await contract(api, name, { [name]: { version: "1.0.0", plan: "FREE" } });
    const evaluated = await api.call("POST", `/features/${encodeURIComponent(name)}`, { key: to.key });
    expect(Object.keys(evaluated.body)).toEqual([`${name.toLowerCase()}-board`, `${name.toLowerCase()}-export`]);
    expect((await to.call("DELETE", `/${encodeURIComponent(name)}`)).status).toBe(204);
    expect((await to.call("DELETE", `/${encodeURIComponent(name)}`)).status).toBe(404);
  }
  expect(globalThis.process.title).not.toBe("pwned");
  expect(await to.create({ name: "__proto__" })).toMatchObject({ status: 201, body: { name: "__proto__" } });
  expect(await to.call("GET", "/__PROTO__")).toMatchObject({ status: 200, body: { name: "__proto__" } });
});
