import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createTestApi, type Callers, type TestApi, type TestUser } from "../support/api.ts";
import { OWN_ORIGIN, signInByCookie } from "../support/browser-session.ts";

interface Invited {
  id: string;
  url: string;
  error?: string;
}

let api: TestApi;
let callers: Callers;
let path: string;
let minute = 0;

beforeAll(async () => {
  api = await createTestApi();
  callers = api.callers;
  path = `/organizations/${callers.organizationId}/invitations`;
});
afterAll(() => api.close());
// Unknown links count per minute and address.
beforeEach(() => api.setNow(new Date(Date.UTC(2025, 5, 15, 10, (minute += 1)))));

const INVALID = "NOT FOUND: This invitation link is not valid any more";
const tokenOf = ({ url }: Invited) => url.split("/").at(-1) ?? "";

async function invite(key = callers.owner.key, body: object = { role: "EVALUATOR" }): Promise<Invited> {
  const answer = await api.call<Invited>("POST", path, { key, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer.body;
}
const show = (token: string) => api.call("GET", `/invitations/${token}`);
const accept = (token: string, options: { key?: string; body?: unknown } = {}) =>
  api.call("POST", `/invitations/${token}/accept`, options);
const memberNames = async () => {
  const { body } = await api.call<{ members: { username: string; role: string }[] }>(
    "GET",
    `/organizations/${callers.organizationId}`,
    { key: callers.owner.key },
  );
  return body.members.map(({ username }) => username);
};

/** Runs a call of a user whose deletion commits while the call waits for it. */
async function whileDeleting<T>({ id }: TestUser, call: () => Promise<T>): Promise<T | undefined> {
  const { client } = api.database.connection;
  let calling: Promise<T> | undefined;
  await client.begin(async (tx) => {
    await tx`delete from organizations where owner_id = ${id}`;
    await tx`delete from users where id = ${id}`;
    calling = call();
    await expect
      .poll(
        () => client`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      .toHaveLength(1);
  });
  return calling;
}

describe("creating an invitation", () => {
  it("shows the link once, and the list leaves it out", async () => {
    const made = await invite(callers.owner.key, { role: "MANAGER", email: "grace@example.com", days: 2 });
    expect(made).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      role: "MANAGER",
      email: "grace@example.com",
      url: expect.stringMatching(/^http:\/\/[^/]+\/console\/invitations\/[0-9a-f]{64}$/),
      expiresAt: new Date(api.resources.now().getTime() + 2 * 86_400_000).toISOString(),
      state: "pending",
    });
    const listed = await api.call<Invited[]>("GET", path, { key: callers.manager.key });
    const { url, ...rest } = made;
    expect(listed.body[0]).toEqual({ ...rest, invitedBy: "owner", createdAt: api.resources.now().toISOString() });
    expect(JSON.stringify(listed.body)).not.toContain(tokenOf({ ...made, url }));
    const rows = await api.database.connection.client`select to_jsonb(i)::text as row from invitations i`;
    expect(JSON.stringify(rows)).not.toContain(tokenOf(made));
  });

  it("follows the rules of adding members", async () => {
    const cases: [keyof Callers, string, number][] = [
      ["owner", "ADMIN", 201],
      ["organizationAdmin", "ADMIN", 403],
      ["organizationAdmin", "MANAGER", 201],
      ["manager", "ADMIN", 403],
      ["manager", "MANAGER", 201],
      ["evaluator", "EVALUATOR", 403],
      ["outsider", "EVALUATOR", 403],
      ["platformAdmin", "ADMIN", 201],
      ["all", "EVALUATOR", 403],
    ];
    for (const [who, role, status] of cases) {
      const caller = callers[who];
      const key = typeof caller === "string" ? caller : caller.key;
      expect((await api.call("POST", path, { key, body: { role } })).status, `${who} ${role}`).toBe(status);
    }
  });

  it.each([
    [{}, "Member role is required"],
    [{ role: "OWNER" }, "Member role must be one of ADMIN, MANAGER, EVALUATOR"],
    [{ role: "ADMIN", email: "ada" }, "The email field must be an address such as ada@example.com, or null"],
    [
      { role: "ADMIN", email: "a@b.de\r\nBcc: x@y.de" },
      "The email field must be an address such as ada@example.com, or null",
    ],
    [{ role: "ADMIN", days: 31 }, "The days field must be a whole number from 1 to 30"],
    [{ role: "ADMIN", days: 1.5 }, "The days field must be a whole number from 1 to 30"],
  ])("refuses %j", async (body, error) => {
    const answer = await api.call("POST", path, { key: callers.owner.key, body });
    expect([answer.status, answer.body]).toEqual([422, { error }]);
  });

  it("is bounded to 100 open ones per organization, and 100 mails per inviter and day", async () => {
    const owner = await api.newUser();
    const { id } = await api.newOrganization(owner);
    const create = (email: string | null) =>
      api.call("POST", `/organizations/${id}/invitations`, { key: owner.key, body: { role: "EVALUATOR", email } });
    for (let i = 0; i < 100; i += 1) expect((await create("grace@example.com")).status).toBe(201);
    expect((await create(null)).body).toEqual({
      error: "CONFLICT: An organization can have at most 100 open invitations",
    });
    await api.database.connection.client`update invitations set revoked_at = now() where organization_id = ${id}`;
    expect((await create("grace@example.com")).status).toBe(429);
    expect((await create(null)).status).toBe(201);
  });
});

describe("a link", () => {
  it("shows the organization, and makes a signed-in user a member, once", async () => {
    const made = await invite(callers.manager.key, { role: "MANAGER" });
    const shown = await show(tokenOf(made));
    expect(shown.body).toEqual({
      organization: "Acme",
      role: "MANAGER",
      invitedBy: "manager",
      expiresAt: expect.any(String),
    });
    const grace = await api.newUser("grace");
    const accepted = await accept(tokenOf(made), { key: grace.key });
    expect([accepted.status, accepted.body]).toEqual([
      200,
      { organization: { id: callers.organizationId, name: "Acme" }, role: "MANAGER", username: "grace" },
    ]);
    expect(await memberNames()).toContain("grace");
    for (const answer of [await accept(tokenOf(made), { key: callers.outsider.key }), await show(tokenOf(made))]) {
      expect([answer.status, answer.body]).toEqual([404, { error: INVALID }]);
    }
  });

  it("makes the user of a session a member, and not by a page of another origin", async () => {
    const token = tokenOf(await invite());
    const user = await api.newUser();
    const { cookie } = await signInByCookie(api, user.username);
    const post = (origin: string) =>
      api.call("POST", `/invitations/${token}/accept`, { body: {}, headers: { cookie, origin } });
    const forged = await post("https://evil.example");
    expect([forged.status, forged.body]).toEqual([403, { error: "This request comes from another page" }]);
    expect(await memberNames()).not.toContain(user.username);
    expect((await post(OWN_ORIGIN)).body).toMatchObject({ username: user.username, role: "EVALUATOR" });
  });

  it("makes a new user, also where sign-up is closed", async () => {
    const made = await invite();
    api.resources.settings.allowPublicSignup = false;
    try {
      const body = { username: "newcomer", password: "sesame-open" };
      expect((await api.call("POST", "/users", { body })).status).toBe(401);
      const accepted = await accept(tokenOf(made), { body });
      expect(accepted.body).toMatchObject({ role: "EVALUATOR", username: "newcomer" });
      expect(JSON.stringify(accepted.body)).not.toContain("usr_");
      const signedIn = await api.call("POST", "/users/authenticate", { body });
      expect(signedIn.body).toMatchObject({ role: "USER" });
      expect((await accept(tokenOf(made), { body: { ...body, username: "second" } })).status).toBe(404);
      const found = await api.call<{ data: unknown[] }>("GET", "/users?q=second", { key: callers.platformAdmin.key });
      expect(found.body.data).toEqual([]);
    } finally {
      api.resources.settings.allowPublicSignup = true;
    }
  });

  it("makes nobody who could not sign in, and stays valid", async () => {
    const token = tokenOf(await invite());
    const body = { username: "passwordless", password: "sesame-open" };
    for (const passwordSignIn of ["false", "admins"] as const) {
      api.resources.settings.passwordSignIn = passwordSignIn;
      try {
        const refused = await accept(token, { body });
        expect([refused.status, refused.body]).toEqual([401, { error: "Sign in with the provider" }]);
      } finally {
        api.resources.settings.passwordSignIn = undefined;
      }
    }
    expect((await accept(token, { body })).body).toMatchObject({ username: "passwordless" });
  });

  it("asks a new user for name and password, by the rules of sign-up", async () => {
    const token = tokenOf(await invite());
    for (const [body, status] of [
      [{}, 422],
      [{ username: "ab", password: "sesame-open" }, 422],
      [{ username: "owner", password: "sesame-open" }, 404],
      [{ username: "оwner", password: "sesame-open" }, 422],
    ] as const) {
      expect((await accept(token, { body })).status, JSON.stringify(body)).toBe(status);
    }
    expect((await show(token)).status).toBe(200);
  });

  it("is refused with 409 to members and the owner, with 403 to organization keys, and stays valid", async () => {
    const token = tokenOf(await invite());
    expect((await accept(token, { key: callers.evaluator.key })).status).toBe(409);
    expect((await accept(token, { key: callers.owner.key })).status).toBe(409);
    expect((await accept(token, { key: callers.all.key })).status).toBe(403);
    expect((await show(token)).status).toBe(200);
  });

  it("is 404 when revoked, expired, or when the inviter may no longer add such a member: all alike", async () => {
    const revoked = await invite();
    expect((await api.call("DELETE", `${path}/${revoked.id}`, { key: callers.manager.key })).status).toBe(204);
    const again = await api.call("DELETE", `${path}/${revoked.id}`, { key: callers.owner.key });
    expect([again.status, again.body]).toEqual([409, { error: `CONFLICT: Invitation ${revoked.id} is revoked` }]);
    const [demoted, leaving] = (await Promise.all([api.newUser(), api.newUser()])) as [TestUser, TestUser];
    const members = `/organizations/${callers.organizationId}/members`;
    for (const { username } of [demoted, leaving]) {
      await api.call("POST", members, { key: callers.owner.key, body: { username, role: "MANAGER" } });
    }
    const ofDemoted = await invite(demoted.key, { role: "MANAGER" });
    const ofLeaving = await invite(leaving.key);
    await api.call("PUT", `${members}/${demoted.username}`, { key: callers.owner.key, body: { role: "EVALUATOR" } });
    await api.call("DELETE", `/users/${leaving.username}`, { key: callers.platformAdmin.key });
    const expired = await invite(callers.owner.key, { role: "EVALUATOR", days: 1 });
    api.setNow(new Date(api.resources.now().getTime() + 86_400_000));
    const links = [revoked, ofDemoted, ofLeaving, expired].map(tokenOf);
    for (const token of links) {
      const answers = [await show(token), await accept(token, { key: callers.outsider.key })];
      for (const { status, body } of answers) expect([status, body]).toEqual([404, { error: INVALID }]);
      api.setNow(new Date(api.resources.now().getTime() + 60_000));
    }
    expect(await memberNames()).not.toContain("outsider");
  });

  it("cannot revoke an ADMIN's invitation as a MANAGER, nor another organization's", async () => {
    const made = await invite(callers.owner.key, { role: "ADMIN" });
    expect((await api.call("DELETE", `${path}/${made.id}`, { key: callers.manager.key })).status).toBe(403);
    const stranger = await api.newUser();
    const other = await api.newOrganization(stranger, "Elsewhere");
    const foreign = `/organizations/${other.id}/invitations/${made.id}`;
    expect((await api.call("DELETE", foreign, { key: stranger.key })).status).toBe(404);
    expect((await show(tokenOf(made))).status).toBe(200);
  });

  it("admits one of two who accept it at once", async () => {
    const token = tokenOf(await invite());
    const users = await Promise.all([api.newUser(), api.newUser()]);
    const answers = await Promise.all(users.map(({ key }) => accept(token, { key })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404]);
  });

  it("is not guessed: the eleventh unknown token of an address is 429, and right links wait too", async () => {
    const right = tokenOf(await invite());
    const wrong = ["0".repeat(64), "x", "%27", `${right.slice(0, -1)}x`, right.toUpperCase().replace(/^\d*/, "A")];
    for (let i = 0; i < 10; i += 1) expect((await show(wrong[i % wrong.length] ?? "")).status).toBe(404);
    const blocked = await show("1".repeat(64));
    expect([blocked.status, blocked.headers.get("retry-after")]).toEqual([429, "60"]);
    expect((await accept(right, { key: callers.outsider.key })).status).toBe(429);
    api.setNow(new Date(api.resources.now().getTime() + 60_001));
    expect((await show(right)).status).toBe(200);
  });
});

it("somebody who is deleted meanwhile neither invites nor joins", async () => {
  const [inviter, invited] = [await api.newUser(), await api.newUser()];
  const added = { username: inviter.username, role: "ADMIN" };
  await api.call("POST", path.replace(/invitations$/, "members"), { key: callers.owner.key, body: added });
  const token = tokenOf(await invite());
  const missing = ({ username }: TestUser) => [
    400,
    { error: `INVALID DATA: User with username ${username} does not exist.` },
  ];
  const body = { role: "EVALUATOR" };
  const inviting = await whileDeleting(inviter, () => api.call("POST", path, { key: inviter.key, body }));
  expect([inviting?.status, inviting?.body]).toEqual(missing(inviter));
  const joining = await whileDeleting(invited, () => accept(token, { key: invited.key, body: {} }));
  expect([joining?.status, joining?.body]).toEqual(missing(invited));
  expect((await show(token)).status).toBe(200);
});
