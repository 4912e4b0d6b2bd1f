import { and, eq } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { members } from "../../src/db/schema.ts";
import { createTestApi, type Callers, type TestApi, type TestUser } from "../support/api.ts";
import { insertUsers } from "../support/builders.ts";

interface Organization {
  members: { username: string; role: string }[];
  ownerDetails: Record<string, unknown>;
  error?: string;
}

const ROLES = ["ADMIN", "MANAGER", "EVALUATOR"] as const;
type Role = (typeof ROLES)[number];

const OUTSIDE =
  "This route requires user authentication. Either you did not provide an user API key or your are not a member of this organization";
const INSUFFICIENT = "PERMISSION ERROR: Insufficient organization permissions. Required: OWNER, ADMIN, MANAGER";
const HIGH_LEVEL = "PERMISSION ERROR: Only SPACE admins or organization-level OWNER/ADMIN can add high-level members.";
const ASSIGN_ADMIN = "PERMISSION ERROR: Only SPACE admins or the organization OWNER can assign the ADMIN role.";

let api: TestApi;
let callers: Callers;
let target: TestUser;
let path: string;

beforeAll(async () => {
  api = await createTestApi();
  callers = api.callers;
  path = `/organizations/${callers.organizationId}/members`;
  [target] = (await insertUsers(api.resources, ["target"])) as [TestUser];
});
afterAll(() => api.close());
beforeEach(() => place(undefined));

/** Sets the target's role directly, or removes it. */
async function place(role: Role | undefined): Promise<void> {
  const { db } = api.resources;
  const { organizationId } = callers;
  await db.delete(members).where(and(eq(members.organizationId, organizationId), eq(members.userId, target.id)));
  if (role !== undefined) await db.insert(members).values({ organizationId, userId: target.id, role });
}
const add = (key: string, body: unknown, at = path) => api.call<Organization>("POST", at, { key, body });
const change = (key: string, username: string, role: unknown) =>
  api.call<Organization>("PUT", `${path}/${username}`, { key, body: { role } });
const remove = (key: string, username: string) => api.call<Organization>("DELETE", `${path}/${username}`, { key });

/** Contract §5.1: roles that each caller may add, take from, give, remove. */
const RIGHTS: [keyof Callers, Role[], Role[], Role[], Role[]][] = [
  ["platformAdmin", [...ROLES], [...ROLES], [...ROLES], [...ROLES]],
  ["owner", [...ROLES], [...ROLES], [...ROLES], [...ROLES]],
  ["organizationAdmin", ["MANAGER", "EVALUATOR"], [...ROLES], ["MANAGER", "EVALUATOR"], [...ROLES]],
  ["manager", ["MANAGER", "EVALUATOR"], ["MANAGER", "EVALUATOR"], ["MANAGER", "EVALUATOR"], ["MANAGER", "EVALUATOR"]],
  ["evaluator", [], [], [], []],
  ["outsider", [], [], [], []],
];

describe.each(RIGHTS)("%s, by the table of members (§5.1),", (who, addable, from, to, removable) => {
  const key = () => {
    const caller = callers[who];
    return typeof caller === "string" ? caller : caller.key;
  };

  test.each(ROLES)("adds a new member as %s, or is refused and nothing changes", async (role) => {
    const answer = await add(key(), { username: "target", role });
    expect(answer.status).toBe(addable.includes(role) ? 200 : 403);
    if (answer.status === 200) expect(answer.body.members.at(-1)).toEqual({ username: "target", role });
    const [row] = await api.resources.db.select().from(members).where(eq(members.userId, target.id));
    expect(row?.role).toBe(addable.includes(role) ? role : undefined);
  });

  test.each(ROLES.flatMap((old) => ROLES.map((role) => [old, role] as const)))(
    "takes a member from %s to %s, or is refused and nothing changes",
    async (old, role) => {
      await place(old);
      const answer = await change(key(), "target", role);
      const allowed = from.includes(old) && to.includes(role);
      // An unchanged role is a conflict for every caller who may change members.
      const status = to.length === 0 ? 403 : old === role ? 409 : allowed ? 200 : 403;
      expect(answer.status).toBe(status);
      const [row] = await api.resources.db.select().from(members).where(eq(members.userId, target.id));
      expect(row?.role).toBe(status === 200 ? role : old);
    },
  );

  test.each(ROLES)("removes a member with role %s, or is refused and nothing changes", async (role) => {
    await place(role);
    const answer = await remove(key(), "target");
    expect(answer.status).toBe(removable.includes(role) ? 200 : 403);
    if (answer.status === 200) {
      expect(answer.body.members.map(({ username }) => username)).not.toContain("target");
    }
    expect(await api.resources.db.$count(members, eq(members.userId, target.id))).toBe(answer.status === 200 ? 0 : 1);
  });
});

describe("adding a member (§5.2)", () => {
  test.each<[unknown, string]>([
    [{}, "Member username is required"],
    [[], "Member username is required"],
    [{ username: "" }, "Member username cannot be empty"],
    [{ username: null }, "Member username cannot be empty"],
    [{ username: 5, role: "OWNER" }, "Member username must be a string"],
    [{ username: "target" }, "Member role is required"],
    [{ username: "target", role: "" }, "Member role cannot be empty"],
    [{ username: "target", role: null }, "Member role cannot be empty"],
    [{ username: "target", role: "OWNER" }, "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
    [{ username: "target", role: 123 }, "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
    [{ username: "target", role: ["MANAGER"] }, "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
    [{ username: "target", role: "manager" }, "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
  ])("the body %j is 422", async (body, error) => {
    const answer = await add(callers.owner.key, body);
    expect(answer.body).toEqual({ error });
    expect(answer.status).toBe(422);
  });

  test("answers 200 with the organization, its owner's details and the new member last", async () => {
    const answer = await add(callers.owner.key, { username: "target", role: "MANAGER", position: 0 });
    expect(answer.status).toBe(200);
    expect(answer.body.ownerDetails).toMatchObject({ username: "owner" });
    expect(answer.body.members).toEqual([
      { username: "organization-admin", role: "ADMIN" },
      { username: "manager", role: "MANAGER" },
      { username: "evaluator", role: "EVALUATOR" },
      { username: "target", role: "MANAGER" },
    ]);
    expect((await api.call("GET", `/organizations/${callers.organizationId}`, { key: target.key })).status).toBe(200);
  });

  test("refusals come in the documented order", async () => {
    const already = (username: string) =>
      `CONFLICT: User with username ${username} is already a member of the organization.`;
    const unknown = "INVALID DATA: User with username nobody does not exist.";
    const refusals: [TestUser, string, Role, number, string][] = [
      [callers.evaluator, "nobody", "ADMIN", 403, INSUFFICIENT],
      [callers.outsider, "nobody", "ADMIN", 403, INSUFFICIENT],
      [callers.manager, "nobody", "ADMIN", 403, HIGH_LEVEL],
      [callers.organizationAdmin, "nobody", "ADMIN", 403, ASSIGN_ADMIN],
      [callers.manager, "nobody", "MANAGER", 400, unknown],
      [callers.owner, "nobody", "ADMIN", 400, unknown],
      [callers.owner, "manager", "MANAGER", 409, already("manager")],
      [callers.owner, "manager", "ADMIN", 409, already("manager")],
      [callers.owner, "owner", "ADMIN", 409, already("owner")],
      [callers.platformAdmin, "owner", "EVALUATOR", 409, already("owner")],
    ];
    for (const [{ key }, username, role, status, error] of refusals) {
      const answer = await add(key, { username, role });
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
  });

  test("of eight who add one user at once one succeeds, and the user is a member once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        add(callers.owner.key, { username: "target", role: ROLES[i % 3] ?? "ADMIN" }),
      ),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 409, 409, 409, 409, 409, 409, 409]);
    expect(await api.resources.db.$count(members, eq(members.userId, target.id))).toBe(1);
  });
});

describe("changing a member's role (§5.3)", () => {
  test.each<[unknown, string]>([
    [undefined, "Member role is required"],
    ["", "Member role cannot be empty"],
    [null, "Member role cannot be empty"],
    ["OWNER", "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
    [123, "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
    [["ADMIN"], "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
  ])("the role %j is 422", async (role, error) => {
    const answer = await change(callers.owner.key, "manager", role);
    expect(answer.body).toEqual({ error });
    expect(answer.status).toBe(422);
  });

  test("answers 200 with the organization; the member keeps its place", async () => {
    const answer = await change(callers.owner.key, "organization-admin", "EVALUATOR");
    expect(answer.status).toBe(200);
    expect(answer.body.members[0]).toEqual({ username: "organization-admin", role: "EVALUATOR" });
    expect(answer.body.ownerDetails).toMatchObject({ username: "owner" });
    expect((await change(callers.owner.key, "organization-admin", "ADMIN")).status).toBe(200);
  });

  test("refusals come in the documented order", async () => {
    const stranger = (username: string) =>
      `INVALID DATA: User with username ${username} is not a member of the organization.`;
    const same = (username: string, role: Role) =>
      `CONFLICT: User with username ${username} already has the role ${role}.`;
    const refusals: [TestUser, string, Role, number, string][] = [
      [callers.outsider, "nobody", "ADMIN", 403, OUTSIDE],
      [callers.evaluator, "nobody", "ADMIN", 403, INSUFFICIENT],
      [callers.evaluator, "evaluator", "MANAGER", 403, INSUFFICIENT],
      [callers.owner, "nobody", "ADMIN", 400, stranger("nobody")],
      [callers.owner, "owner", "ADMIN", 400, stranger("owner")],
      [callers.manager, "outsider", "ADMIN", 400, stranger("outsider")],
      [callers.manager, "organization-admin", "ADMIN", 409, same("organization-admin", "ADMIN")],
      [callers.organizationAdmin, "organization-admin", "ADMIN", 409, same("organization-admin", "ADMIN")],
      [callers.manager, "organization-admin", "MANAGER", 403, HIGH_LEVEL],
      [callers.manager, "evaluator", "ADMIN", 403, HIGH_LEVEL],
      [callers.manager, "manager", "ADMIN", 403, HIGH_LEVEL],
      [callers.organizationAdmin, "manager", "ADMIN", 403, ASSIGN_ADMIN],
    ];
    for (const [{ key }, username, role, status, error] of refusals) {
      const answer = await change(key, username, role);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
  });
});

describe("removing a member (§5.4)", () => {
  test("refusals come in the documented order", async () => {
    const absent = (username: string) =>
      `Member with username ${username} not found in organization ${callers.organizationId}.`;
    const onlySelf =
      "PERMISSION ERROR: Only users with OWNER, ADMIN, or MANAGER role can remove members, unless the user is removing themselves";
    const admins = "PERMISSION ERROR: Only SPACE admins or organization-level OWNER/ADMIN can remove ADMIN members.";
    const refusals: [TestUser, string, number, string][] = [
      [callers.outsider, "nobody", 403, OUTSIDE],
      [callers.outsider, "outsider", 403, OUTSIDE],
      [callers.evaluator, "nobody", 403, onlySelf],
      [callers.evaluator, "manager", 403, onlySelf],
      [callers.manager, "organization-admin", 403, admins],
      [callers.manager, "nobody", 400, absent("nobody")],
      [callers.owner, "owner", 400, absent("owner")],
      [callers.platformAdmin, "outsider", 400, absent("outsider")],
    ];
    for (const [{ key }, username, status, error] of refusals) {
      const answer = await remove(key, username);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
  });

  test.each(ROLES)(
    "a member with role %s removes itself, sees the organization once more, and is out",
    async (role) => {
      await place(role);
      const answer = await remove(target.key, "target");
      expect(answer.status).toBe(200);
      expect(answer.body.members.map(({ username }) => username)).toEqual([
        "organization-admin",
        "manager",
        "evaluator",
      ]);
      expect(answer.body.ownerDetails).toMatchObject({ username: "owner" });
      expect((await api.call("GET", `/organizations/${callers.organizationId}`, { key: target.key })).status).toBe(403);
    },
  );

  test("a platform ADMIN who is an EVALUATOR member keeps every right (D22)", async () => {
    const { platformAdmin } = callers;
    expect((await add(callers.owner.key, { username: platformAdmin.username, role: "EVALUATOR" })).status).toBe(200);
    await place("ADMIN");
    expect((await change(platformAdmin.key, "target", "MANAGER")).status).toBe(200);
    expect((await remove(platformAdmin.key, "target")).status).toBe(200);
    expect((await remove(platformAdmin.key, platformAdmin.username)).status).toBe(200);
  });

  describe("of a user who is in two organizations, or in another one only,", () => {
    let elsewhere: string;
    beforeAll(async () => {
      const owner = await api.newUser();
      ({ id: elsewhere } = await api.newOrganization(owner));
      await api.resources.db
        .insert(members)
        .values({ organizationId: elsewhere, userId: target.id, role: "EVALUATOR" });
    });
    const roleElsewhere = async () => {
      const there = and(eq(members.organizationId, elsewhere), eq(members.userId, target.id));
      const [row] = await api.resources.db.select({ role: members.role }).from(members).where(there);
      return row?.role;
    };

    test("what is changed and removed in one organization stays as it is in the other", async () => {
      await place("EVALUATOR");
      expect((await change(callers.owner.key, "target", "ADMIN")).status).toBe(200);
      expect(await roleElsewhere()).toBe("EVALUATOR");
      expect((await remove(callers.owner.key, "target")).status).toBe(200);
      expect(await roleElsewhere()).toBe("EVALUATOR");
    });

    test("who is no member here is none, whatever it is elsewhere", async () => {
      const changed = await change(callers.owner.key, "target", "ADMIN");
      expect(changed).toMatchObject({
        status: 400,
        body: { error: "INVALID DATA: User with username target is not a member of the organization." },
      });
      const removed = await remove(callers.owner.key, "target");
      expect(removed).toMatchObject({
        status: 400,
        body: { error: `Member with username target not found in organization ${callers.organizationId}.` },
      });
      expect(await roleElsewhere()).toBe("EVALUATOR");
    });
  });

  test("a name that looks like a pattern or a path is nobody's", async () => {
    for (const name of ["%25", "manage_", "..%2F..", "__proto__", "%2A"]) {
      expect((await remove(callers.owner.key, name)).status).toBe(400);
    }
  });
});
