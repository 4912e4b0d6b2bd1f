import { eq, inArray } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { contracts, members, organizationKeys, organizations, pricings, services, users } from "../../src/db/schema.ts";
import { createTestApi, type TestApi, type TestUser } from "../support/api.ts";
import { fillOrganization, insertUsers } from "../support/builders.ts";

const LAST_ADMIN = "PERMISSION ERROR: There must always be at least one ADMIN user in the system.";

let api: TestApi;
let admin: TestUser;

beforeAll(async () => {
  api = await createTestApi({ connections: 10 });
  admin = api.callers.platformAdmin;
});
afterAll(() => api.close());

let made = 0;
/** Creates new users named after their role, so that tests do not collide. */
const cast = (...parts: string[]) =>
  insertUsers(
    api.resources,
    parts.map((part) => `${part}-${(made += 1)}`),
  );
const one = async (part: string): Promise<TestUser> => {
  const [user] = await cast(part);
  if (user === undefined) throw new Error("no user");
  return user;
};
const remove = (target: string, key: string) => api.call("DELETE", `/users/${target}`, { key });
const join = (organizationId: string, owner: TestUser, { username }: TestUser, role: string) =>
  api.call("POST", `/organizations/${organizationId}/members`, { key: owner.key, body: { username, role } });
const show = (organizationId: string) =>
  api.call<{ owner: string; default: boolean; members: { username: string; role: string }[] }>(
    "GET",
    `/organizations/${organizationId}`,
    { key: admin.key },
  );
const defaultOf = async (user: TestUser) => {
  const { body } = await api.call<{ data: { id: string; default: boolean; owner: string }[] }>(
    "GET",
    "/organizations",
    {
      key: user.key,
    },
  );
  return body.data.find((organization) => organization.default && organization.owner === user.username)?.id ?? "";
};
describe("deleting a user (§3.11)", () => {
  test("answers 204 without a body, and the key becomes unknown", async () => {
    const user = await one("leaver");
    const answer = await remove(user.username, user.key);
    expect(answer.status).toBe(204);
    expect(answer.body).toBeUndefined();
    expect((await api.call("GET", "/users/me", { key: user.key })).body).toEqual({
      error: "INVALID DATA: Invalid API Key",
    });
    expect((await api.call("GET", `/users/${user.username}`, { key: admin.key })).status).toBe(404);
  });

  test("refusals come in the documented order", async () => {
    const [user, other] = await cast("refused", "target");
    const refusals: [string, string, number, string][] = [
      ["nobody", user?.key ?? "", 404, "INVALID DATA: User not found"],
      ["nobody", admin.key, 404, "INVALID DATA: User not found"],
      [admin.username, user?.key ?? "", 403, "PERMISSION ERROR: Only admins can delete admin users."],
      [other?.username ?? "", user?.key ?? "", 403, "PERMISSION ERROR: Only admins can delete other users."],
      [admin.username, admin.key, 403, LAST_ADMIN],
    ];
    for (const [target, key, status, error] of refusals) {
      const answer = await remove(target, key);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
  });

  test("an ADMIN deletes a USER, and itself while another ADMIN is left", async () => {
    const user = await one("deleted");
    const [second] = await insertUsers(api.resources, ["second-admin"], "ADMIN");
    expect((await remove(user.username, admin.key)).status).toBe(204);
    expect((await remove("second-admin", second?.key ?? "")).status).toBe(204);
  });

  test("the user leaves every organization it was a member of", async () => {
    const [owner, member] = [await one("owner"), await one("member")];
    const { id } = await api.newOrganization(owner);
    await join(id, owner, member, "ADMIN");
    await remove(member.username, member.key);
    expect((await show(id)).body).toMatchObject({ owner: owner.username, members: [] });
  });

  test.each([
    ["the first ADMIN", ["EVALUATOR", "MANAGER", "ADMIN", "ADMIN", "MANAGER"], 2],
    ["the first MANAGER when there is no ADMIN", ["EVALUATOR", "MANAGER", "MANAGER"], 1],
    ["the first EVALUATOR when there is nobody else", ["EVALUATOR", "EVALUATOR"], 0],
  ])("an organization passes to %s, who is a member no more", async (_, roles, heir) => {
    const owner = await one("owner");
    const { id } = await api.newOrganization(owner);
    await fillOrganization(api.resources, id);
    const joined: { username: string; role: string }[] = [];
    for (const role of roles) {
      const user = await one("member");
      await join(id, owner, user, role);
      joined.push({ username: user.username, role });
    }
    expect((await remove(owner.username, owner.key)).status).toBe(204);
    const after = await show(id);
    expect(after.body.owner).toBe(joined[heir]?.username);
    expect(after.body.members).toEqual(joined.filter((_, i) => i !== heir));
    expect(await api.resources.db.$count(contracts, eq(contracts.organizationId, id))).toBe(1);
  });

  test("the order of joining survives a change of role", async () => {
    const owner = await one("owner");
    const { id } = await api.newOrganization(owner);
    const [first, second] = [await one("first"), await one("second")];
    await join(id, owner, first, "EVALUATOR");
    await join(id, owner, second, "ADMIN");
    await api.call("PUT", `/organizations/${id}/members/${first.username}`, {
      key: owner.key,
      body: { role: "ADMIN" },
    });
    await remove(owner.username, admin.key);
    expect((await show(id)).body.owner).toBe(first.username);
  });

  test("a default organization passes without its flag when the heir has a default one already", async () => {
    const [owner, heir] = [await one("owner"), await one("heir")];
    const id = await defaultOf(owner);
    await join(id, owner, heir, "EVALUATOR");
    await remove(owner.username, owner.key);
    expect((await show(id)).body).toMatchObject({ owner: heir.username, default: false, members: [] });
    expect((await show(await defaultOf(heir))).body.default).toBe(true);
  });

  test("a default organization stays one when the heir has none", async () => {
    const [owner, heir] = [await one("owner"), await one("heir")];
    const [id, heirs] = [await defaultOf(owner), await defaultOf(heir)];
    await api.resources.db.delete(organizations).where(eq(organizations.id, heirs));
    await join(id, owner, heir, "EVALUATOR");
    await remove(owner.username, owner.key);
    expect((await show(id)).body).toMatchObject({ owner: heir.username, default: true });
  });

  test("organizations without members go, with services, pricings, contracts and keys, the default one too", async () => {
    const owner = await one("owner");
    const ids = [await defaultOf(owner), (await api.newOrganization(owner)).id];
    for (const id of ids) await fillOrganization(api.resources, id);
    const key = (await api.newOrganization(owner, "Third")).key;
    const filled = await api.resources.db.$count(pricings);
    expect((await remove(owner.username, owner.key)).status).toBe(204);
    const { db } = api.resources;
    for (const id of ids) expect((await show(id)).status).toBe(404);
    expect(await db.$count(services, inArray(services.organizationId, ids))).toBe(0);
    expect(await db.$count(contracts, inArray(contracts.organizationId, ids))).toBe(0);
    expect(await db.$count(organizationKeys, inArray(organizationKeys.organizationId, ids))).toBe(0);
    expect(await db.$count(pricings)).toBe(filled - 2);
    expect((await api.call("GET", "/services", { key })).body).toEqual({ error: "Invalid Organization API Key" });
  });

  test("who signs up under a freed name has no rights of the one before (C9)", async () => {
    const [owner, member] = [await one("owner"), await one("member")];
    const { id } = await api.newOrganization(owner);
    await join(id, owner, member, "ADMIN");
    await remove(member.username, member.key);
    const successor = await api.newUser(member.username);
    const answer = await api.call("GET", `/organizations/${id}`, { key: successor.key });
    expect(answer.status).toBe(403);
  });
});

describe("what two do at once", () => {
  const admins = async () =>
    (await api.resources.db.select({ username: users.username }).from(users).where(eq(users.role, "ADMIN"))).map(
      (user) => user.username,
    );

  test("two ADMINs who demote each other, or themselves, leave one, 20 times", async () => {
    for (let round = 0; round < 20; round += 1) {
      await api.resources.db.update(users).set({ role: "USER" }).where(eq(users.role, "ADMIN"));
      const [a, b] = await insertUsers(api.resources, [`left-${round}`, `right-${round}`], "ADMIN");
      if (a === undefined || b === undefined) throw new Error("no users");
      const [first, second] = round % 2 === 0 ? [b, a] : [a, b];
      const path = ({ username }: TestUser) => (round % 4 < 2 ? `/users/${username}/role` : `/users/${username}`);
      const answers = await Promise.all([
        api.call("PUT", path(first), { key: a.key, body: { role: "USER" } }),
        api.call("PUT", path(second), { key: b.key, body: { role: "USER" } }),
      ]);
      expect(await admins()).toHaveLength(1);
      expect(answers.map((answer) => answer.status).sort()).toEqual([200, 403]);
    }
  });

  test("two ADMINs who delete themselves or each other leave one, 20 times", async () => {
    for (let round = 0; round < 20; round += 1) {
      await api.resources.db.update(users).set({ role: "USER" }).where(eq(users.role, "ADMIN"));
      const [a, b] = await insertUsers(api.resources, [`mine-${round}`, `yours-${round}`], "ADMIN");
      if (a === undefined || b === undefined) throw new Error("no users");
      const [first, second] = round % 2 === 0 ? [b, a] : [a, b];
      await Promise.all([remove(first.username, a.key), remove(second.username, b.key)]);
      expect(await admins()).toHaveLength(1);
    }
    await api.resources.db.update(users).set({ role: "ADMIN" }).where(eq(users.id, admin.id));
  });

  test("of eight who sign up under one name, one gets it and seven are told that it is taken", async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        api.call("POST", "/users", { body: { username: "contested", password: "password" } }),
      ),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, 404, 404, 404, 404, 404, 404, 404]);
    for (const { status, body } of answers) {
      if (status === 201) continue;
      expect(body).toEqual({
        error: "INVALID DATA: There is already a user with the username that you are trying to set",
      });
    }
    const owned = await api.resources.db
      .select({ id: organizations.id })
      .from(organizations)
      .innerJoin(users, eq(users.id, organizations.ownerId))
      .where(eq(users.username, "contested"));
    expect(owned).toHaveLength(1);
  });

  test("of four who rename themselves alike, one succeeds and three are told that it is taken", async () => {
    const four = await cast("renamer", "renamer", "renamer", "renamer");
    const answers = await Promise.all(
      four.map(({ username, key }) => api.call("PUT", `/users/${username}`, { key, body: { username: "one-name" } })),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 404, 404, 404]);
  });

  test("members who inherit from each other are deleted at once without a dangling owner, 10 times", async () => {
    for (let round = 0; round < 10; round += 1) {
      const [a, b] = [await one("left"), await one("right")];
      const [ofA, ofB] = [await api.newOrganization(a), await api.newOrganization(b)];
      await join(ofA.id, a, b, "ADMIN");
      await join(ofB.id, b, a, "ADMIN");
      const answers = await Promise.all([remove(a.username, a.key), remove(b.username, b.key)]);
      expect(answers.map((answer) => answer.status)).toEqual([204, 204]);
      for (const { id } of [ofA, ofB]) expect((await show(id)).status).toBe(404);
    }
  });

  test("a user who is deleted while it becomes owner, member and creator leaves nothing behind, 10 times", async () => {
    for (let round = 0; round < 10; round += 1) {
      const [giver, user] = [await one("giver"), await one("taker")];
      const { id } = await api.newOrganization(giver);
      const answers = await Promise.all([
        api.call("PUT", `/organizations/${id}`, { key: giver.key, body: { owner: user.username } }),
        remove(user.username, admin.key),
        api.call("POST", "/organizations", { key: user.key, body: { name: "Late", owner: user.username } }),
        join(await defaultOf(giver), giver, user, "ADMIN"),
      ]);
      for (const { status } of answers) expect([200, 201, 204, 400, 401, 403, 503]).toContain(status);
      expect(await api.resources.db.$count(members, eq(members.userId, user.id))).toBe(0);
      expect(await api.resources.db.$count(organizations, eq(organizations.ownerId, user.id))).toBe(0);
    }
  });
});
