import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { organizations, users } from "../../src/db/schema.ts";
import { createTestApi, type TestApi, type TestUser } from "../support/api.ts";
import { insertUsers } from "../support/builders.ts";
import { processorMs } from "../support/processor-time.ts";

const TAKEN = "INVALID DATA: There is already a user with the username that you are trying to set";
const LAST_ADMIN = "PERMISSION ERROR: There must always be at least one ADMIN user in the system.";

let api: TestApi;
let admin: TestUser;
let marta: TestUser;
let joel: TestUser;

beforeAll(async () => {
  api = await createTestApi();
  admin = api.callers.platformAdmin;
  [marta, joel] = await Promise.all([api.newUser("marta"), api.newUser("joel")]);
});
afterAll(() => api.close());

const signIn = (username: string, password: string) =>
  api.call("POST", "/users/authenticate", { body: { username, password } });
const storedRole = async (username: string) =>
  (await api.resources.db.select({ role: users.role }).from(users).where(eq(users.username, username)))[0]?.role;

describe("shape of fields (§3.2): 422 with the first failing check", () => {
  const USERNAME = "Username must be between 3 and 30 characters";
  const PASSWORD = "Password must have at least 5 characters";
  const ROLE = "Role must be one of: ADMIN, USER";
  test.each<[string, unknown, string]>([
    ["an empty object", {}, "Username is required"],
    ["a list", [], "Username is required"],
    ["username null", { username: null, password: "password" }, "Username must be a string"],
    ["username a number", { username: 5, password: "password" }, "Username must be a string"],
    ["username empty", { username: "", password: "password" }, USERNAME],
    ["username of 2 characters", { username: "ab", password: "password" }, USERNAME],
    ["username of 31 characters", { username: "a".repeat(31), password: "password" }, USERNAME],
    ["username of a letter and blanks", { username: "   a   ", password: "password" }, USERNAME],
    ["no password", { username: "new-user" }, "Password is required"],
    ["password null", { username: "new-user", password: null }, "Password must be a string"],
    ["password of 4 characters", { username: "new-user", password: "1234" }, PASSWORD],
    ["password empty", { username: "new-user", password: "" }, PASSWORD],
    ["password with a blank", { username: "new-user", password: "12 345" }, "Password cannot contain whitespace"],
    ["password with a tab", { username: "new-user", password: "12\t345" }, "Password cannot contain whitespace"],
    ["an unknown role", { username: "new-user", password: "password", role: "ROOT" }, ROLE],
    ["role null", { username: "new-user", password: "password", role: null }, ROLE],
    ["role empty", { username: "new-user", password: "password", role: "" }, ROLE],
    ["role a list", { username: "new-user", password: "password", role: ["USER"] }, ROLE],
    ["username and password wrong", { username: 1, password: 1, role: 1 }, "Username must be a string"],
    ["password and role wrong", { username: "new-user", password: "1", role: 1 }, PASSWORD],
  ])("signing up with %s is refused", async (_, body, error) => {
    const answer = await api.call("POST", "/users", { body });
    expect(answer).toMatchObject({ status: 422, body: { error } });
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
  });

  test.each<[string, unknown, string]>([
    ["username null", { username: null }, "Username must be a string"],
    ["username of 2 characters", { username: "ab" }, USERNAME],
    ["password of 4 characters", { password: "1234" }, PASSWORD],
    ["password null", { password: null }, "Password must be a string"],
    ["an unknown role", { role: "OWNER" }, ROLE],
    ["role as a list", { role: ["USER"] }, ROLE],
  ])("updating with %s is refused", async (_, body, error) => {
    expect(await api.call("PUT", "/users/marta", { key: marta.key, body })).toMatchObject({
      status: 422,
      body: { error },
    });
  });

  test.each<[string, unknown, string]>([
    ["nothing", {}, "Role is required"],
    ["null", { role: null }, ROLE],
    ["an unknown role", { role: "MANAGER" }, ROLE],
  ])("changing the role to %s is refused", async (_, body, error) => {
    expect(await api.call("PUT", "/users/marta/role", { key: admin.key, body })).toMatchObject({
      status: 422,
      body: { error },
    });
  });

  test.each<[string, unknown, string]>([
    ["nothing", {}, "Username is required"],
    ["username a number", { username: 1, password: "password" }, "Username must be a string"],
    ["no password", { username: "marta" }, "Password is required"],
    ["password a number", { username: "marta", password: 1 }, "Password must be a string"],
  ])("signing in with %s is refused", async (_, body, error) => {
    expect(await api.call("POST", "/users/authenticate", { body })).toMatchObject({ status: 422, body: { error } });
  });

  test("a body of another content type counts as empty", async () => {
    const answer = await api.call("POST", "/users", {
      body: JSON.stringify({ username: "new-user", password: "password" }),
      headers: { "content-type": "text/plain" },
    });
    expect(answer).toMatchObject({ status: 422, body: { error: "Username is required" } });
  });

  test("malformed JSON is 400 without a trace of the server", async () => {
    const answer = await api.call("POST", "/users", { body: '{"username":' });
    expect(answer.status).toBe(400);
    expect(answer.body).toEqual({ error: "INVALID DATA: Malformed JSON body" });
  });

  test("a password over 256 bytes is refused before it is hashed, at sign-up, sign-in and update", async () => {
    const error = "Password must have at most 256 bytes";
    const hashed = vi.spyOn(crypto.subtle, "deriveBits");
    for (const password of ["x".repeat(257), "é".repeat(129), "x".repeat(1_000_000)]) {
      for (const answer of [
        await api.call("POST", "/users", { body: { username: "new-user", password } }),
        await signIn("marta", password),
        await api.call("PUT", "/users/marta", { key: marta.key, body: { password } }),
      ]) {
        expect(answer).toMatchObject({ status: 422, body: { error } });
      }
    }
    expect(hashed).not.toHaveBeenCalled();
    hashed.mockRestore();
  });
});

describe("signing in (§3.3)", () => {
  test("answers exactly name, current key and role, and leaves the key as it is", async () => {
    for (let time = 0; time < 2; time += 1) {
      const answer = await signIn("marta", "password");
      expect(answer.status).toBe(200);
      expect(answer.body).toEqual({ username: "marta", apiKey: marta.key, role: "USER" });
    }
  });

  test("answers the same for an unknown user and a wrong password", async () => {
    for (const answer of [await signIn("nobody-there", "password"), await signIn("marta", "wrong-password")]) {
      expect(answer.status).toBe(401);
      expect(answer.body).toEqual({ error: "INVALID DATA: Invalid credentials" });
    }
  });

  test("takes as long for an unknown user as for a wrong password", async () => {
    const time = async (username: string) => {
      const started = performance.now();
      await signIn(username, "wrong-password");
      return performance.now() - started;
    };
    // The shortest of several: another process can only lengthen a call.
    const times: Record<"unknown" | "known", number> = { unknown: Infinity, known: Infinity };
    for (let round = 0; round < 5; round += 1) {
      times.unknown = Math.min(times.unknown, await time("nobody-at-all"));
      times.known = Math.min(times.known, await time("joel"));
    }
    expect(times.unknown).toBeGreaterThan(times.known / 3);
  });

  test("compares names exactly", async () => {
    expect((await signIn("Marta", "password")).status).toBe(401);
    expect((await signIn(" marta", "password")).status).toBe(401);
  });

  test("tells passwords apart beyond 72 bytes", async () => {
    const start = "p".repeat(72);
    await api.call("POST", "/users", { body: { username: "long-password", password: `${start}1` } });
    expect((await signIn("long-password", `${start}2`)).status).toBe(401);
    expect((await signIn("long-password", `${start}1`)).status).toBe(200);
  });

  test("gives a user without a key a new one, and it works", async () => {
    const keyless = await api.newUser("keyless");
    await api.resources.db.update(users).set({ apiKeyHash: null, apiKeySealed: null }).where(eq(users.id, keyless.id));
    const answer = await signIn("keyless", "password");
    expect(answer.body["apiKey"]).toMatch(/^usr_[0-9a-f]{64}$/);
    const me = await api.call("GET", "/users/me", { key: String(answer.body["apiKey"]) });
    expect(me.body).toEqual({ username: "keyless", role: "USER" });
    expect((await signIn("keyless", "password")).body).toEqual(answer.body);
  });

  test("with an organization key is the same as without a key", async () => {
    const answer = await api.call("POST", "/users/authenticate", {
      key: api.callers.evaluation.key,
      body: { username: "marta", password: "password" },
    });
    expect(answer.body).toEqual({ username: "marta", apiKey: marta.key, role: "USER" });
  });
});

describe("signing up and creating users (§3.4)", () => {
  test("answers 201 with the full user and no Location", async () => {
    const answer = await api.call("POST", "/users", { body: { username: "  anna  ", password: "password" } });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("location")).toBeNull();
    expect(Object.keys(answer.body)).toEqual(["_id", "id", "username", "apiKey", "role", "createdAt", "updatedAt"]);
    expect(answer.body).toMatchObject({
      username: "anna",
      role: "USER",
      apiKey: expect.stringMatching(/^usr_[0-9a-f]{64}$/),
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      createdAt: "2025-06-15T10:00:00.000Z",
      updatedAt: "2025-06-15T10:00:00.000Z",
    });
    expect(answer.body["_id"]).toBe(answer.body["id"]);
  });

  test("creates the default organization with one key of scope ALL and no members", async () => {
    const eva = await api.newUser("eva");
    const own = await api.call<{ data: unknown[] }>("GET", "/organizations", { key: eva.key });
    expect(own.body.data).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        name: "eva's Organization",
        owner: "eva",
        default: true,
        apiKeys: [
          {
            id: expect.stringMatching(/^[0-9a-f]{24}$/),
            key: expect.stringMatching(/^org_[0-9a-f]{64}$/),
            scope: "ALL",
          },
        ],
        members: [],
      },
    ]);
  });

  test.each([
    ["nobody", () => undefined],
    ["an ALL key", () => api.callers.all.key],
    ["an EVALUATION key", () => api.callers.evaluation.key],
  ])("downgrades a requested ADMIN to USER silently for %s", async (who, key) => {
    const username = `wanted-${who.replaceAll(" ", "-")}`;
    const answer = await api.call("POST", "/users", {
      key: key(),
      body: { username, password: "password", role: "ADMIN" },
    });
    expect(answer).toMatchObject({ status: 201, body: { username, role: "USER" } });
    expect(answer.body["apiKey"]).toMatch(/^usr_/);
    expect(await storedRole(username)).toBe("USER");
  });

  test("a USER creates a USER and is shown neither its role nor its key", async () => {
    const answer = await api.call("POST", "/users", {
      key: marta.key,
      body: { username: "made-by-marta", password: "password", role: "USER" },
    });
    expect(answer.status).toBe(201);
    expect(Object.keys(answer.body)).toEqual(["_id", "id", "username", "createdAt", "updatedAt"]);
  });

  test("a USER who asks for an ADMIN is refused", async () => {
    const answer = await api.call("POST", "/users", {
      key: marta.key,
      body: { username: "made-admin", password: "password", role: "ADMIN" },
    });
    expect(answer.status).toBe(403);
    expect(answer.body).toEqual({ error: "PERMISSION ERROR: Only admins can create other admins." });
    expect(await storedRole("made-admin")).toBeUndefined();
  });

  test("a platform ADMIN creates the role it asks for, USER by default, and sees everything", async () => {
    for (const [username, role, expected] of [
      ["second-admin", "ADMIN", "ADMIN"],
      ["plain-user", undefined, "USER"],
    ] as const) {
      const answer = await api.call("POST", "/users", {
        key: admin.key,
        body: { username, password: "password", role },
      });
      expect(answer).toMatchObject({ status: 201, body: { role: expected } });
      expect(answer.body["apiKey"]).toMatch(/^usr_/);
    }
    expect((await api.call("DELETE", "/users/second-admin", { key: admin.key })).status).toBe(204);
  });

  test("a taken name is 404, and wins over the refusal of an ADMIN", async () => {
    for (const [key, role] of [
      [undefined, "USER"],
      [admin.key, "ADMIN"],
      [joel.key, "ADMIN"],
    ] as const) {
      const body = { username: "marta", password: "password", role };
      expect(await api.call("POST", "/users", { key, body })).toMatchObject({ status: 404, body: { error: TAKEN } });
    }
  });

  test("stores nothing of the body but name, password and role (D5)", async () => {
    const answer = await api.call("POST", "/users", {
      body: {
        username: "assigner",
        password: "password",
        apiKey: "usr_chosen",
        _id: "0".repeat(24),
        id: "0".repeat(24),
        createdAt: "2001-01-01T00:00:00.000Z",
        passwordHash: "chosen",
        $set: { role: "ADMIN" },
      },
    });
    expect(answer.status).toBe(201);
    expect(answer.body["apiKey"]).not.toBe("usr_chosen");
    expect(answer.body["id"]).not.toBe("0".repeat(24));
    expect(answer.body["createdAt"]).toBe("2025-06-15T10:00:00.000Z");
    expect(await storedRole("assigner")).toBe("USER");
    expect((await api.call("GET", "/users/me", { key: "usr_chosen" })).status).toBe(401);
  });

  test("keeps no key and no password in clear at rest", async () => {
    const rows = JSON.stringify(await api.resources.db.select().from(users));
    expect(rows).not.toMatch(/usr_[0-9a-f]{8}/);
    expect(rows).not.toContain('"password"');
  });

  test("names with slashes, per cents and non-ASCII letters can be read back", async () => {
    await insertUsers(api.resources, ["a/b?c%d", "ñandú", "__proto__", "authenticate", "..."]);
    for (const username of ["a/b?c%d", "ñandú", "__proto__", "authenticate", "..."]) {
      const answer = await api.call("GET", `/users/${encodeURIComponent(username)}`, { key: admin.key });
      expect(answer).toMatchObject({ status: 200, body: { username } });
    }
  });
});

describe("listing users (§3.5)", () => {
  type Page = { data: Record<string, unknown>[]; pagination: Record<string, number> };
  const list = (query: string, key = admin.key) => api.call<Page>("GET", `/users${query}`, { key });

  beforeAll(async () => {
    await insertUsers(
      api.resources,
      Array.from({ length: 25 }, (_, i) => `Lister-${String(i).padStart(2, "0")}`),
    );
    await insertUsers(api.resources, ["100%_sure", "1000 sure", "back\\slash", "d.ts"]);
  });

  test("pages with exactly five numbers, 10 by default", async () => {
    const { body } = await list("?q=lister-");
    expect(body.data).toHaveLength(10);
    expect(body.pagination).toEqual({ offset: 0, limit: 10, total: 25, page: 1, pages: 3 });
    expect((await list("?q=lister-&limit=&offset=")).body.pagination).toEqual(body.pagination);
    expect((await list("?q=lister-&limit=7&offset=15")).body.pagination).toEqual({
      offset: 15,
      limit: 7,
      total: 25,
      page: 3,
      pages: 4,
    });
  });

  test("has no pages when nothing matches", async () => {
    const { body } = await list("?q=no-such-name");
    expect(body).toEqual({ data: [], pagination: { offset: 0, limit: 10, total: 0, page: 1, pages: 0 } });
  });

  test("shows every user once, in order of creation, when paged through", async () => {
    const names: unknown[] = [];
    for (let offset = 0; offset < 25; offset += 4) {
      const { body } = await list(`?q=Lister&limit=4&offset=${offset}`);
      names.push(...body.data.map((user) => user["username"]));
    }
    expect(names).toEqual(Array.from({ length: 25 }, (_, i) => `Lister-${String(i).padStart(2, "0")}`));
  });

  test("reads integers by their leading digits", async () => {
    expect((await list("?limit=5abc&offset=1.7")).body.pagination).toMatchObject({ limit: 5, offset: 1 });
  });

  test.each([
    ["limit=0", "Limit must be between 1 and 50"],
    ["limit=51", "Limit must be between 1 and 50"],
    ["limit=abc", "Limit must be between 1 and 50"],
    ["limit=-1", "Limit must be between 1 and 50"],
    ["limit=1e99", "page"],
    ["offset=-1", "Offset must be a non-negative number"],
    ["offset=xyz", "Offset must be a non-negative number"],
    ["limit=0&offset=-1", "Limit must be between 1 and 50"],
  ])("%s is refused or read by its digits", async (query, message) => {
    const answer = await list(`?${query}`);
    if (message === "page") expect(answer.status).toBe(200);
    else expect(answer).toMatchObject({ status: 400, body: { error: `INVALID DATA: ${message}` } });
  });

  test.each(["q=marta&q=joel", "q[x]=marta", "limit=1&limit=2"])(
    "a repeated or bracketed parameter (%s) is 400",
    async (query) => {
      const answer = await api.call<{ error: string }>("GET", `/users?${query}`, { key: admin.key });
      expect(answer.status).toBe(400);
      expect(answer.body.error).toMatch(/^INVALID DATA: /);
    },
  );

  test.each([
    ["MARTA", ["marta", "made-by-marta"]],
    ["  joel  ", ["joel"]],
    ["%25_", ["100%_sure"]],
    ["100%25", ["100%_sure"]],
    ["back\\", ["back\\slash"]],
    ["....", []],
    ["d.ts", ["d.ts"]],
    ["(a%2B)%2B$", []],
    ["[a-z]", []],
    [".*", []],
  ])("finds %s literally and whatever the case", async (q, names) => {
    const { status, body } = await list(`?q=${q}&limit=50`);
    expect(status).toBe(200);
    expect(body.data.map((user) => user["username"])).toEqual(names);
  });

  test("answers a search text of 10 000 characters at once", async () => {
    const spentMs = await processorMs(async () => {
      expect((await list(`?q=${"%".repeat(1)}25${"a".repeat(10_000)}`)).body.data).toEqual([]);
    });
    expect(spentMs).toBeLessThan(1000);
  });

  test.each(["", "?q=", "?q=mar", "?q=%20%20%20%20", "?q=%20mar%20", "?limit=abc"])(
    "a USER without 4 characters to search for (%s) is refused first of all",
    async (query) => {
      const answer = await list(query, marta.key);
      expect(answer.status).toBe(403);
      expect(answer.body).toEqual({
        error:
          "PERMISSION ERROR: Only admins can retrieve the full user list without providing at least 4 characters in the search query",
      });
    },
  );

  test("a USER sees itself in full and others without role and key", async () => {
    const { body } = await list("?q=marta", marta.key);
    const [self, other] = body.data;
    expect(self).toMatchObject({ username: "marta", apiKey: marta.key, role: "USER" });
    expect(Object.keys(other ?? {})).toEqual(["_id", "id", "username", "createdAt", "updatedAt"]);
    expect((await list("?q=marta&limit=0", marta.key)).status).toBe(400);
  });

  test("an ADMIN sees everybody's role and key, and the log says so without the keys", async () => {
    const before = api.logged.length;
    const { body } = await list("?limit=50");
    for (const user of body.data) {
      expect(user["apiKey"]).toMatch(/^usr_[0-9a-f]{64}$/);
      expect(user["role"]).toMatch(/^(ADMIN|USER)$/);
    }
    const lines = api.logged.slice(before);
    expect(lines.some((line) => line.message.startsWith("an ADMIN was shown API keys of other users"))).toBe(true);
    expect(JSON.stringify(api.logged)).not.toMatch(/usr_[0-9a-f]{8}/);
  });
});

describe("reading users (§3.6, §3.7)", () => {
  test("GET /users/me answers exactly name and role", async () => {
    expect((await api.call("GET", "/users/me", { key: marta.key })).body).toEqual({
      username: "marta",
      role: "USER",
    });
    expect((await api.call("HEAD", "/users/me", { key: marta.key })).status).toBe(200);
  });

  test("a platform ADMIN and the user itself see the full user, another USER the safe one", async () => {
    for (const key of [admin.key, marta.key]) {
      const { status, body } = await api.call("GET", "/users/marta", { key });
      expect(status).toBe(200);
      expect(Object.keys(body)).toEqual(["_id", "id", "username", "apiKey", "role", "createdAt", "updatedAt"]);
      expect(body["apiKey"]).toBe(marta.key);
    }
    const { status, body } = await api.call("GET", "/users/marta", { key: joel.key });
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(["_id", "id", "username", "createdAt", "updatedAt"]);
  });

  test("an unknown user is 404, also by a name that only looks like one", async () => {
    for (const name of ["nobody", "Marta", "mart", "%25", "mart_", "0".repeat(24)]) {
      const answer = await api.call("GET", `/users/${name}`, { key: admin.key });
      expect(answer).toMatchObject({ status: 404, body: { error: "INVALID DATA: User not found" } });
    }
  });

  test("a name that cannot be decoded or stored is 400, not 500", async () => {
    for (const name of ["%E0%A4%A", "%00"]) {
      const answer = await api.call("GET", `/users/${name}`, { key: admin.key });
      expect(answer.status).toBe(400);
    }
  });
});

describe("updating users (§3.8)", () => {
  const update = (target: string, key: string, body: unknown) => api.call("PUT", `/users/${target}`, { key, body });

  test("a USER renames itself: the key stays, ownerships and memberships follow, the old name is free", async () => {
    const old = await api.newUser("before");
    const { id: organizationId } = await api.newOrganization(marta, "Renaming");
    await api.call("POST", `/organizations/${organizationId}/members`, {
      key: marta.key,
      body: { username: "before", role: "MANAGER" },
    });
    api.setNow(new Date("2025-06-15T11:00:00.000Z"));
    const answer = await update("before", old.key, { username: " after " });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      username: "after",
      role: "USER",
      createdAt: "2025-06-15T10:00:00.000Z",
      updatedAt: "2025-06-15T11:00:00.000Z",
    });
    expect((await api.call("GET", "/users/me", { key: old.key })).body["username"]).toBe("after");
    const { body } = await api.call<{ data: { name: string; owner: string; members: unknown[] }[] }>(
      "GET",
      "/organizations",
      { key: old.key },
    );
    expect(body.data.map(({ name, owner }) => [name, owner])).toEqual([
      ["before's Organization", "after"],
      ["Renaming", "marta"],
    ]);
    expect(body.data[1]?.members).toEqual([{ username: "after", role: "MANAGER" }]);
    // A new user with the freed name inherits nothing (C9).
    const heir = await api.newUser("before");
    const inherited = await api.call<{ data: { name: string }[] }>("GET", "/organizations", { key: heir.key });
    expect(inherited.body.data).toHaveLength(1);
  });

  test("a new password replaces the old one and leaves the key", async () => {
    const user = await api.newUser("changer");
    expect((await update("changer", user.key, { password: "other-password" })).status).toBe(200);
    expect((await signIn("changer", "password")).status).toBe(401);
    expect((await signIn("changer", "other-password")).body["apiKey"]).toBe(user.key);
  });

  test("an empty body changes nothing and is 200 without ids and key", async () => {
    const answer = await update("joel", joel.key, {});
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body)).toEqual(["username", "role", "createdAt", "updatedAt"]);
    expect(answer.body["updatedAt"]).toBe("2025-06-15T10:00:00.000Z");
  });

  test("refusals come in the documented order", async () => {
    const refusals: [string, string, unknown, number, string][] = [
      ["nobody", joel.key, { role: "ADMIN", username: 1 }, 422, "Username must be a string"],
      ["nobody", joel.key, { role: "ADMIN" }, 403, "PERMISSION ERROR: Only admins can change roles to admin."],
      ["joel", joel.key, { role: "ADMIN" }, 403, "PERMISSION ERROR: Only admins can change roles to admin."],
      ["nobody", joel.key, { username: "marta" }, 404, "INVALID DATA: User not found"],
      [admin.username, joel.key, {}, 403, "PERMISSION ERROR: Only admins can update admin users."],
      ["marta", joel.key, {}, 403, "PERMISSION ERROR: Only admins can update other users."],
      [admin.username, admin.key, { role: "USER", username: "marta" }, 403, LAST_ADMIN],
      ["joel", joel.key, { username: "marta" }, 404, TAKEN],
      ["joel", joel.key, { username: "joel" }, 404, TAKEN],
      ["joel", admin.key, { username: "marta" }, 404, TAKEN],
    ];
    for (const [target, key, body, status, error] of refusals) {
      const answer = await update(target, key, body);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
  });

  test("an ADMIN updates anybody, role included, and may step down while another ADMIN is left", async () => {
    await insertUsers(api.resources, ["helper"]);
    expect((await update("helper", admin.key, { role: "ADMIN", username: "helper-admin" })).body).toMatchObject({
      username: "helper-admin",
      role: "ADMIN",
    });
    expect((await update("helper-admin", admin.key, { role: "USER" })).body["role"]).toBe("USER");
    expect((await update("helper-admin", admin.key, { role: "USER" })).status).toBe(200);
  });

  test.each([
    { $set: { role: "ADMIN" } },
    { $unset: { password: 1 } },
    { ROLE: "ADMIN" },
    { "role[]": "ADMIN" },
    { "__proto__.role": "ADMIN" },
    { apiKey: "usr_chosen", _id: "0".repeat(24), passwordHash: "x", createdAt: "2001-01-01" },
  ])("takes nothing but name, password and role from the body: %j (K3, D5)", async (body) => {
    const before = await api.resources.db.select().from(users).where(eq(users.username, "joel"));
    const answer = await update("joel", joel.key, body);
    expect(answer).toMatchObject({ status: 200, body: { username: "joel", role: "USER" } });
    expect(await api.resources.db.select().from(users).where(eq(users.username, "joel"))).toEqual(before);
  });

  test("a form cannot smuggle a role either (K3)", async () => {
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    for (const body of ["$set[role]=ADMIN", "role[]=ADMIN", "role[$ne]=USER"]) {
      await api.call("PUT", "/users/joel", { key: joel.key, body, headers });
      expect(await storedRole("joel")).toBe("USER");
    }
  });

  test("a USER can neither rename, re-password, re-key nor delete another USER (K5)", async () => {
    const victim = await api.newUser("victim");
    for (const body of [{ username: "stolen" }, { password: "stolen" }, { role: "USER" }, { apiKey: "usr_chosen" }]) {
      expect((await update("victim", joel.key, body)).status).toBe(403);
    }
    expect((await api.call("PUT", "/users/victim/api-key", { key: joel.key })).status).toBe(403);
    expect((await api.call("DELETE", "/users/victim", { key: joel.key })).status).toBe(403);
    expect((await signIn("victim", "password")).body).toEqual({
      username: "victim",
      apiKey: victim.key,
      role: "USER",
    });
  });
});

describe("regenerating a key (§3.9)", () => {
  test("gives a new key and ends the old one at once", async () => {
    const user = await api.newUser("rotating");
    let key = user.key;
    for (const as of ["self", "admin"]) {
      const answer = await api.call("PUT", "/users/rotating/api-key", { key: as === "self" ? key : admin.key });
      expect(answer.status).toBe(200);
      expect(answer.body).toEqual({ apiKey: expect.stringMatching(/^usr_[0-9a-f]{64}$/) });
      expect((await api.call("GET", "/users/me", { key })).body).toEqual({ error: "INVALID DATA: Invalid API Key" });
      key = String(answer.body["apiKey"]);
      expect((await api.call("GET", "/users/me", { key })).status).toBe(200);
    }
    expect((await signIn("rotating", "password")).body["apiKey"]).toBe(key);
  });

  test("is refused to a USER for somebody else before it is asked whether that user exists", async () => {
    for (const target of ["marta", "nobody"]) {
      expect(await api.call("PUT", `/users/${target}/api-key`, { key: joel.key })).toMatchObject({
        status: 403,
        body: { error: "PERMISSION ERROR: Only admins can regenerate API keys for other users." },
      });
    }
    expect(await api.call("PUT", "/users/nobody/api-key", { key: admin.key })).toMatchObject({
      status: 404,
      body: { error: "INVALID DATA: User not found" },
    });
  });

  test("takes a JSON content type without a body", async () => {
    const answer = await api.call("PUT", `/users/${joel.username}/api-key`, {
      key: joel.key,
      body: "",
      headers: { "content-type": "application/json" },
    });
    expect(answer.status).toBe(200);
    joel = { ...joel, key: String(answer.body["apiKey"]) };
  });
});

describe("changing a role (§3.10)", () => {
  const change = (target: string, key: string, role: string) =>
    api.call("PUT", `/users/${target}/role`, { key, body: { role } });

  test("refusals come in the documented order", async () => {
    const refusals: [string, string, string, number, string][] = [
      ["marta", joel.key, "ADMIN", 403, "PERMISSION ERROR: Only admins can assign the role ADMIN."],
      ["joel", joel.key, "ADMIN", 403, "PERMISSION ERROR: Only admins can assign the role ADMIN."],
      ["marta", joel.key, "USER", 403, "PERMISSION ERROR: Only admins can change roles for other users."],
      [admin.username, joel.key, "USER", 403, "PERMISSION ERROR: Only admins can change roles for other users."],
      ["nobody", joel.key, "USER", 403, "PERMISSION ERROR: Only admins can change roles for other users."],
      ["nobody", admin.key, "USER", 404, "INVALID DATA: User not found"],
      [admin.username, admin.key, "USER", 403, LAST_ADMIN],
    ];
    for (const [target, key, role, status, error] of refusals) {
      const answer = await change(target, key, role);
      expect(answer.body).toEqual({ error });
      expect(answer.status).toBe(status);
    }
  });

  test("an ADMIN promotes and demotes; the same role again is accepted", async () => {
    await insertUsers(api.resources, ["promoted"]);
    for (const role of ["ADMIN", "ADMIN", "USER", "USER"]) {
      const answer = await change("promoted", admin.key, role);
      expect(answer.status).toBe(200);
      expect(Object.keys(answer.body)).toEqual(["username", "role", "createdAt", "updatedAt"]);
      expect(answer.body["role"]).toBe(role);
    }
    expect((await change(admin.username, admin.key, "ADMIN")).status).toBe(200);
    expect((await change("joel", joel.key, "USER")).status).toBe(200);
  });
});

test("every user owns exactly one default organization", async () => {
  const counted = await api.resources.db.$count(organizations, eq(organizations.isDefault, true));
  expect(counted).toBe(await api.resources.db.$count(users));
});
