import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { contracts, members, organizationKeys, organizations, pricings, services, users } from "../../src/db/schema.ts";
import { createTestApi, type TestApi, type TestUser } from "../support/api.ts";
import { fillOrganization, insertUsers } from "../support/builders.ts";

interface Organization {
  id: string;
  name: string;
  owner: string;
  default: boolean;
  apiKeys: { id: string; key: string; scope: string }[];
  members: { username: string; role: string }[];
  ownerDetails?: Record<string, unknown>;
  error?: string;
}

let api: TestApi;
let admin: TestUser;
let owner: TestUser;

beforeAll(async () => {
  api = await createTestApi();
  admin = api.callers.platformAdmin;
  owner = api.callers.owner;
});
afterAll(() => api.close());

let made = 0;
const newUser = async (part: string): Promise<TestUser> => {
  const [user] = await insertUsers(api.resources, [`${part}-${(made += 1)}`]);
  if (user === undefined) throw new Error("no user");
  return user;
};
const show = (id: string, key = admin.key) => api.call<Organization>("GET", `/organizations/${id}`, { key });
const update = (id: string, key: string, body: unknown) =>
  api.call<Organization>("PUT", `/organizations/${id}`, { key, body });
const create = (key: string, body: unknown) => api.call<Organization>("POST", "/organizations", { key, body });
const join = (id: string, user: TestUser, role: string) =>
  api.call<Organization>("POST", `/organizations/${id}/members`, {
    key: admin.key,
    body: { username: user.username, role },
  });
const defaultOf = async (user: TestUser) => {
  const { body } = await api.call<{ data: Organization[] }>("GET", "/organizations", { key: user.key });
  return body.data.find((one) => one.default && one.owner === user.username)?.id ?? "";
};
const stored = async (id: string) => {
  const { db } = api.resources;
  return JSON.stringify([
    await db.select().from(organizations).where(eq(organizations.id, id)),
    await db.select().from(members).where(eq(members.organizationId, id)).orderBy(members.position),
    await db.select().from(organizationKeys).where(eq(organizationKeys.organizationId, id)),
  ]);
};

describe("the address of an organization (§4.2)", () => {
  const calls = [
    ["GET", "", undefined],
    ["PUT", "", { name: "New name" }],
    ["DELETE", "", undefined],
    ["POST", "/members", { username: "outsider", role: "MANAGER" }],
    ["PUT", "/members/manager", { role: "EVALUATOR" }],
    ["DELETE", "/members/manager", undefined],
    ["POST", "/api-keys", { scope: "ALL" }],
    ["DELETE", "/api-keys/none", undefined],
  ] as const;

  test.each(calls)(
    "%s /organizations/{org}%s with a malformed id is 422, and the server lives on (K4)",
    async (method, rest, body) => {
      const ids = [
        "invalid-id",
        "z".repeat(24),
        "0".repeat(23),
        "0".repeat(25),
        "%00",
        "%20".repeat(24),
        "é".repeat(24),
        "a".repeat(10_000),
      ];
      for (const id of ids) {
        const answer = await api.call(method, `/organizations/${id}${rest}`, { key: admin.key, body });
        expect(answer.status).toBe(422);
        expect(answer.body).toEqual({ error: "organizationId must be a valid 24-character hex string" });
      }
      expect((await api.call("GET", "/healthcheck")).status).toBe(200);
    },
  );

  test.each(calls)(
    "%s /organizations/{org}%s with an unknown id is 404, for an ADMIN and a USER",
    async (method, rest, body) => {
      const id = "0".repeat(24);
      for (const { key } of [admin, owner]) {
        const answer = await api.call(method, `/organizations/${id}${rest}`, { key, body });
        expect(answer.status).toBe(404);
        expect(answer.body).toEqual({ error: `Organization with ID ${id} not found` });
      }
    },
  );

  test("the shape of the body is looked at before the organization", async () => {
    for (const id of ["invalid-id", "0".repeat(24), api.callers.organizationId]) {
      expect(await update(id, api.callers.outsider.key, { name: 5 })).toMatchObject({
        status: 422,
        body: { error: "Organization name must be a string" },
      });
      const added = await api.call("POST", `/organizations/${id}/members`, { key: api.callers.outsider.key, body: {} });
      expect(added).toMatchObject({ status: 422, body: { error: "Member username is required" } });
    }
  });
});

describe("creating an organization (§4.4)", () => {
  test("answers 201 with one key of scope ALL, no members, no owner details and no Location", async () => {
    const answer = await create(owner.key, { name: "Acme", owner: owner.username });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("location")).toBeNull();
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name: "Acme",
      owner: owner.username,
      default: false,
      apiKeys: [
        {
          id: expect.stringMatching(/^[0-9a-f]{24}$/),
          key: expect.stringMatching(/^org_[0-9a-f]{64}$/),
          scope: "ALL",
        },
      ],
      members: [],
    });
    const key = answer.body.apiKeys[0]?.key;
    expect((await api.call("GET", "/services", { key })).status).toBe(200);
    expect(JSON.stringify(await api.resources.db.select().from(organizationKeys))).not.toMatch(/org_[0-9a-f]{8}/);
  });

  test.each<[unknown, string]>([
    [{}, "Organization name is required"],
    [[], "Organization name is required"],
    [{ name: null, owner: "owner" }, "Organization name must be a string"],
    [{ name: 5, owner: 5 }, "Organization name must be a string"],
    [{ name: "", owner: "owner" }, "Organization name cannot be empty"],
    [{ name: " \t\u3000", owner: "owner" }, "Organization name cannot be empty"],
    [{ name: "ab", owner: "owner" }, "Organization name must be at least 3 characters long"],
    [{ name: "x".repeat(513), owner: "owner" }, "Organization name must not be longer than 512 characters"],
    [{ name: "Acme" }, "Owner username is required"],
    [{ name: "Acme", owner: "" }, "Owner username is required"],
    [{ name: "Acme", owner: null }, "Owner username must be a string"],
    [{ name: "Acme", owner: ["owner"] }, "Owner username must be a string"],
  ])("the body %j is 422", async (body, error) => {
    const answer = await create(owner.key, body);
    expect(answer.body).toEqual({ error });
    expect(answer.status).toBe(422);
  });

  test("refusals come in the documented order", async () => {
    const conflict = "CONFLICT: The proposed owner owner already has a default organization.";
    const foreign = "PERMISSION ERROR: Only admins can create organizations for other users.";
    const flag = "INVALID DATA: Invalid organization default flag.";
    const unknown = "INVALID DATA: User with username nobody does not exist.";
    const refusals: [string, unknown, number, string][] = [
      [owner.key, { name: "Acme", owner: "nobody", default: "yes" }, 400, unknown],
      [owner.key, { name: "Acme", owner: "manager", default: "yes" }, 403, foreign],
      [owner.key, { name: "Acme", owner: "owner", default: "yes" }, 400, flag],
      [owner.key, { name: "Acme", owner: "owner", default: null }, 400, flag],
      [owner.key, { name: "Acme", owner: "owner", default: 1 }, 400, flag],
      [owner.key, { name: "Acme", owner: "owner", default: true }, 409, conflict],
      [admin.key, { name: "Acme", owner: "owner", default: true }, 409, conflict],
    ];
    const before = await api.resources.db.$count(organizations);
    for (const [key, body, status, error] of refusals) {
      const answer = await create(key, body);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
    expect(await api.resources.db.$count(organizations)).toBe(before);
  });

  test("an ADMIN creates for anybody, names need not be unique, and a default one is made when there is none", async () => {
    const user = await newUser("defaultless");
    await api.resources.db.delete(organizations).where(eq(organizations.ownerId, user.id));
    for (const isDefault of [true, false]) {
      const answer = await create(admin.key, { name: "Same name", owner: user.username, default: isDefault });
      expect(answer).toMatchObject({ status: 201, body: { owner: user.username, default: isDefault } });
    }
  });

  test("of eight default organizations created at once one is, and seven are refused", async () => {
    const user = await newUser("hasty");
    await api.resources.db.delete(organizations).where(eq(organizations.ownerId, user.id));
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => create(user.key, { name: "Mine", owner: user.username, default: true })),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
    for (const { status, body } of answers) {
      if (status === 409) {
        expect(body).toEqual({
          error: `CONFLICT: The proposed owner ${user.username} already has a default organization.`,
        });
      }
    }
  });

  test("takes nothing but name, owner and default from the body (D5)", async () => {
    const answer = await create(owner.key, {
      name: "Acme",
      owner: owner.username,
      id: "0".repeat(24),
      apiKeys: [{ key: "org_planted", scope: "ALL" }],
      members: [{ username: "outsider", role: "ADMIN" }],
    });
    expect(answer.status).toBe(201);
    expect(answer.body.id).not.toBe("0".repeat(24));
    expect(answer.body.members).toEqual([]);
    expect((await api.call("GET", "/services", { key: "org_planted" })).status).toBe(401);
  });
});

describe("reading an organization (§4.5)", () => {
  test("answers the organization with its owner's details and nothing secret of the owner", async () => {
    const answer = await show(api.callers.organizationId, owner.key);
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body)).toEqual(["id", "name", "owner", "default", "apiKeys", "members", "ownerDetails"]);
    expect(answer.body.members).toEqual([
      { username: "organization-admin", role: "ADMIN" },
      { username: "manager", role: "MANAGER" },
      { username: "evaluator", role: "EVALUATOR" },
    ]);
    expect(answer.body.apiKeys.map(({ scope }) => scope)).toEqual(["ALL", "MANAGEMENT", "EVALUATION"]);
    expect(answer.body.ownerDetails).toEqual({
      _id: owner.id,
      username: "owner",
      createdAt: "2025-06-15T10:00:00.000Z",
      updatedAt: "2025-06-15T10:00:00.000Z",
      __v: 0,
    });
  });

  test("is refused to a USER outside of it, keys included (K2)", async () => {
    const answer = await show(api.callers.organizationId, api.callers.outsider.key);
    expect(answer.status).toBe(403);
    expect(answer.body).toEqual({
      error: `PERMISSION ERROR: You are not a member of organization ${api.callers.organizationId}`,
    });
  });

  test("a fresh sign-up reads no organization but its own (K2)", async () => {
    const stranger = await api.newUser("stranger");
    const ids = await api.resources.db
      .select({ id: organizations.id, ownerId: organizations.ownerId })
      .from(organizations);
    for (const { id, ownerId } of ids) {
      const answer = await show(id, stranger.key);
      expect(answer.status).toBe(ownerId === stranger.id ? 200 : 403);
      if (ownerId !== stranger.id) expect(JSON.stringify(answer.body)).not.toMatch(/org_/);
    }
  });
});

describe("listing organizations (§4.3)", () => {
  type Page = { data: Organization[]; pagination: Record<string, number> };
  const list = (query: string, key = admin.key) => api.call<Page>("GET", `/organizations${query}`, { key });

  beforeAll(async () => {
    const lister = await newUser("lister");
    for (let i = 0; i < 23; i += 1) await create(lister.key, { name: `Listed ${i}`, owner: lister.username });
    for (const name of ["50%_off", "500 off", "c++", " blank "])
      await create(lister.key, { name, owner: lister.username });
  });

  test("an ADMIN pages through all of them, in order of creation, each once", async () => {
    const first = await list("?q=listed");
    expect(first.body.pagination).toEqual({ offset: 0, limit: 10, total: 23, page: 1, pages: 3 });
    const names: string[] = [];
    for (let offset = 0; offset < 23; offset += 5) {
      const { body } = await list(`?q=LISTED&limit=5&offset=${offset}`);
      expect(body.pagination).toMatchObject({ page: offset / 5 + 1, pages: 5 });
      names.push(...body.data.map(({ name }) => name));
    }
    expect(names).toEqual(Array.from({ length: 23 }, (_, i) => `Listed ${i}`));
    expect(Object.keys(first.body.data[0] ?? {})).toEqual(["id", "name", "owner", "default", "apiKeys", "members"]);
  });

  test("an empty result has one page", async () => {
    const { body } = await list("?q=no-such-organization");
    expect(body).toEqual({ data: [], pagination: { offset: 0, limit: 10, total: 0, page: 1, pages: 1 } });
  });

  test.each([
    ["limit=0", "Limit must be between 1 and 50"],
    ["limit=51", "Limit must be between 1 and 50"],
    ["limit=abc", "Limit must be between 1 and 50"],
    ["limit=", "Limit must be between 1 and 50"],
    ["offset=-1", "Offset must be a non-negative number"],
    ["offset=", "Offset must be a non-negative number"],
    ["limit=&offset=", "Limit must be between 1 and 50"],
  ])("an ADMIN's ?%s is 400", async (query, message) => {
    expect(await list(`?${query}`)).toMatchObject({ status: 400, body: { error: `INVALID DATA: ${message}` } });
  });

  test.each([
    ["%25_", ["50%_off"]],
    ["50%25", ["50%_off"]],
    ["C%2B%2B", ["c++"]],
    ["%20blank%20", [" blank "]],
    [".*", []],
    ["(", []],
    ["[", []],
    ["\\", []],
  ])("the search text %s is found literally, untrimmed, whatever the case", async (q, names) => {
    const { status, body } = await list(`?q=${q}`);
    expect(status).toBe(200);
    expect(body.data.map(({ name }) => name)).toEqual(names);
  });

  test("a USER gets all it owns or is a member of, without pagination, whatever the query", async () => {
    const { manager, organizationId } = api.callers;
    for (const query of ["", "?limit=0", "?limit=abc&offset=-1&q=none", "?limit=1&limit=2", "?q[]=none&offset[x]=1"]) {
      const { status, body } = await list(query, manager.key);
      expect(status).toBe(200);
      expect(Object.keys(body)).toEqual(["data"]);
      expect(body.data.map(({ id }) => id)).toEqual([await defaultOf(manager), organizationId]);
      for (const organization of body.data) expect(organization).not.toHaveProperty("ownerDetails");
    }
  });

  test("needs the same number of queries for one organization and for many", async () => {
    const client = api.database.connection.client;
    const count = async (query: string, key: string) => {
      const spy = vi.spyOn(client, "unsafe");
      const { body } = await list(query, key);
      const queries = spy.mock.calls.length;
      spy.mockRestore();
      return { queries, listed: body.data.length };
    };
    const [few, many] = [await count("?limit=1", admin.key), await count("?limit=50", admin.key)];
    expect(few.listed).toBe(1);
    expect(many.listed).toBeGreaterThan(30);
    expect(few.queries).toBeGreaterThan(1);
    expect(few.queries).toBe(many.queries);
    expect(many.queries).toBeLessThanOrEqual(5);
    const [own, all] = [await count("", api.callers.outsider.key), await count("", owner.key)];
    expect(own.listed).toBeLessThan(all.listed);
    expect(own.queries).toBe(all.queries);
  });
});

describe("updating an organization (§4.6)", () => {
  let id: string;
  let fresh: TestUser;
  let orgAdmin: TestUser;
  let manager: TestUser;
  let evaluator: TestUser;
  beforeAll(async () => {
    fresh = await newUser("fresh");
    orgAdmin = await newUser("org-admin");
    manager = await newUser("mgr");
    evaluator = await newUser("eval");
    id = (await api.newOrganization(fresh)).id;
    await join(id, orgAdmin, "ADMIN");
    await join(id, manager, "MANAGER");
    await join(id, evaluator, "EVALUATOR");
  });

  test("ADMIN, OWNER, organization ADMIN and MANAGER rename it", async () => {
    for (const [i, { key }] of [admin, fresh, orgAdmin, manager].entries()) {
      const answer = await update(id, key, { name: `N${i}` });
      expect(answer).toMatchObject({ status: 200, body: { name: `N${i}`, owner: fresh.username, default: false } });
      expect(answer.body.ownerDetails).toMatchObject({ username: fresh.username });
    }
  });

  test.each<[unknown, string]>([
    [{ name: 5 }, "Organization name must be a string"],
    [{ name: null }, "Organization name must be a string"],
    [{ name: "" }, "Organization name cannot be empty"],
    [{ name: " " }, "Organization name cannot be empty"],
    [{ name: "x".repeat(513) }, "Organization name must not be longer than 512 characters"],
    [{ owner: 5 }, "Owner username must be a string"],
    [{ owner: null }, "Owner username must be a string"],
    [{ owner: "" }, "Owner username is required"],
    [{ owner: "", name: "" }, "Organization name cannot be empty"],
  ])("the body %j is 422", async (body, error) => {
    const answer = await update(id, fresh.key, body);
    expect(answer.body).toEqual({ error });
    expect(answer.status).toBe(422);
  });

  test("refusals come in the documented order and write nothing", async () => {
    const personal = await defaultOf(fresh);
    await join(personal, orgAdmin, "ADMIN");
    const roles =
      "PERMISSION ERROR: Only SPACE admins or organization-level OWNER, ADMIN and MANAGER can update organizations.";
    const ownership = "PERMISSION ERROR: Only SPACE admins or organization owners can change organization ownership.";
    const flagOwners = "PERMISSION ERROR: Only SPACE admins or organization owners can change the default flag.";
    const transfer = "CONFLICT: Cannot transfer ownership of a default organization.";
    const unknown = "INVALID DATA: User with username nobody does not exist.";
    const flag = "INVALID DATA: Invalid organization default flag.";
    const second = (user: TestUser) =>
      `CONFLICT: The proposed owner ${user.username} already has a default organization.`;
    const refusals: [string, string, unknown, number, string][] = [
      [id, evaluator.key, { name: "New", owner: "nobody" }, 403, roles],
      [id, api.callers.outsider.key, { name: "New" }, 403, roles],
      [id, api.callers.outsider.key, {}, 403, roles],
      [id, orgAdmin.key, { name: "New", owner: "nobody", default: 5 }, 403, ownership],
      [id, manager.key, { owner: manager.username }, 403, ownership],
      [id, orgAdmin.key, { name: "New", default: true }, 403, flagOwners],
      [id, manager.key, { default: false }, 403, flagOwners],
      [personal, orgAdmin.key, { owner: "nobody" }, 403, ownership],
      [personal, fresh.key, { owner: "nobody", default: 5 }, 409, transfer],
      [personal, admin.key, { owner: orgAdmin.username, name: "New" }, 409, transfer],
      [id, fresh.key, { name: "New", owner: "nobody", default: 5 }, 400, unknown],
      [id, fresh.key, { name: "New", owner: orgAdmin.username, default: "yes" }, 400, flag],
      [id, fresh.key, { default: null }, 400, flag],
      [id, fresh.key, { name: "New", owner: orgAdmin.username, default: true }, 409, second(orgAdmin)],
      [id, fresh.key, { default: true }, 409, second(fresh)],
      [id, fresh.key, { default: false }, 409, second(fresh)],
      [personal, fresh.key, { default: true }, 409, second(fresh)],
    ];
    const before = [await stored(id), await stored(personal)];
    for (const [target, key, body, status, error] of refusals) {
      const answer = await update(target, key, body);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
    expect([await stored(id), await stored(personal)]).toEqual(before);
  });

  test("a body without changes is 200 and changes nothing", async () => {
    const before = (await show(id)).body;
    expect((await update(id, manager.key, {})).status).toBe(200);
    expect((await update(id, fresh.key, { name: before.name, owner: fresh.username })).body).toMatchObject(before);
    expect((await show(id)).body.members).toEqual(before.members);
  });

  test("a transfer makes the old owner the last member with role ADMIN and takes the new one from the members", async () => {
    const [from, to, other] = [await newUser("from"), await newUser("to"), await newUser("other")];
    const { id } = await api.newOrganization(from);
    await join(id, to, "EVALUATOR");
    await join(id, other, "MANAGER");
    const answer = await update(id, from.key, { owner: to.username });
    expect(answer.status).toBe(200);
    expect(answer.body.owner).toBe(to.username);
    expect(answer.body.ownerDetails).toMatchObject({ _id: to.id, username: to.username });
    expect(answer.body.members).toEqual([
      { username: other.username, role: "MANAGER" },
      { username: from.username, role: "ADMIN" },
    ]);
    // A platform ADMIN transfers it to a user who is not a member; then the old owner leaves.
    const outsider = await newUser("outside");
    expect((await update(id, admin.key, { owner: outsider.username })).body.members).toEqual([
      { username: other.username, role: "MANAGER" },
      { username: from.username, role: "ADMIN" },
      { username: to.username, role: "ADMIN" },
    ]);
    const left = await api.call<Organization>("DELETE", `/organizations/${id}/members/${to.username}`, { key: to.key });
    expect(left.body.members).not.toContainEqual({ username: to.username, role: "ADMIN" });
  });

  test("owner and default together are valid when the new owner has no default one", async () => {
    const [from, to] = [await newUser("from"), await newUser("to")];
    await api.resources.db.delete(organizations).where(eq(organizations.ownerId, to.id));
    const { id } = await api.newOrganization(from);
    const answer = await update(id, from.key, { owner: to.username, default: true });
    expect(answer).toMatchObject({ status: 200, body: { owner: to.username, default: true } });
    // The default flag cannot be switched off.
    const error = `CONFLICT: The proposed owner ${to.username} already has a default organization.`;
    expect(await update(id, to.key, { default: false })).toMatchObject({ status: 409, body: { error } });
  });

  test("of two organizations made the default one at once, one is", async () => {
    for (let round = 0; round < 10; round += 1) {
      const user = await newUser("both");
      await api.resources.db.delete(organizations).where(eq(organizations.ownerId, user.id));
      const [a, b] = [await api.newOrganization(user, "First"), await api.newOrganization(user, "Second")];
      const answers = await Promise.all([a, b].map((one) => update(one.id, user.key, { default: true })));
      expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409]);
      expect(answers.find((answer) => answer.status === 409)?.body).toEqual({
        error: `CONFLICT: The proposed owner ${user.username} already has a default organization.`,
      });
    }
  });

  test("takes nothing but name, owner and default from the body (D5, D4)", async () => {
    const before = await stored(id);
    const name = (await show(id)).body.name;
    for (const body of [
      { members: [{ username: "outsider", role: "ADMIN" }] },
      { apiKeys: [{ key: "org_planted", scope: "ALL" }] },
      { id: "0".repeat(24), ownerId: "0".repeat(24), isDefault: true, createdAt: "2001-01-01" },
      { $set: { owner: "outsider" }, $push: { members: {} }, "owner[]": "outsider" },
    ]) {
      expect(await update(id, fresh.key, body)).toMatchObject({ status: 200, body: { name, owner: fresh.username } });
    }
    expect(await stored(id)).toBe(before);
    expect((await api.call("GET", "/services", { key: "org_planted" })).status).toBe(401);
  });
});

describe("deleting an organization (§4.7)", () => {
  test("the OWNER deletes it with services, pricings, contracts, members and keys; its keys are unknown then", async () => {
    const user = await newUser("deleter");
    const { id, key } = await api.newOrganization(user);
    await join(id, owner, "MANAGER");
    await fillOrganization(api.resources, id);
    const { db } = api.resources;
    const pricingsBefore = await db.$count(pricings);
    const answer = await api.call("DELETE", `/organizations/${id}`, { key: user.key });
    expect(answer.status).toBe(204);
    expect(answer.body).toBeUndefined();
    expect(await db.$count(services, eq(services.organizationId, id))).toBe(0);
    expect(await db.$count(contracts, eq(contracts.organizationId, id))).toBe(0);
    expect(await db.$count(members, eq(members.organizationId, id))).toBe(0);
    expect(await db.$count(organizationKeys, eq(organizationKeys.organizationId, id))).toBe(0);
    expect(await db.$count(pricings)).toBe(pricingsBefore - 1);
    expect((await show(id)).status).toBe(404);
    expect((await api.call("GET", "/services", { key })).body).toEqual({ error: "Invalid Organization API Key" });
    expect(await db.$count(users, eq(users.id, user.id))).toBe(1);
  });

  test("a platform ADMIN deletes anybody's", async () => {
    const { id } = await api.newOrganization(owner, "Doomed");
    expect((await api.call("DELETE", `/organizations/${id}`, { key: admin.key })).status).toBe(204);
  });

  test("anyone else is refused, organization ADMIN included, also for a default one", async () => {
    const personal = await defaultOf(owner);
    const { organizationAdmin, manager, evaluator, outsider, organizationId } = api.callers;
    for (const id of [organizationId, personal]) {
      for (const { key } of [organizationAdmin, manager, evaluator, outsider]) {
        const answer = await api.call("DELETE", `/organizations/${id}`, { key });
        expect(answer.status).toBe(403);
        expect(answer.body).toEqual({ error: `You are not the owner of organization ${id}` });
      }
    }
  });

  test("a default organization stays, whoever asks", async () => {
    const personal = await defaultOf(owner);
    for (const { key } of [owner, admin]) {
      const answer = await api.call("DELETE", `/organizations/${personal}`, { key });
      expect(answer.status).toBe(409);
      expect(answer.body).toEqual({
        error: "CONFLICT: The default organization for a user cannot be deleted.",
      });
    }
  });
});
