import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { CallLimits } from "../../src/operations/state/call-limits.ts";
import { createTestApi, type Callers, type TestApi } from "../support/api.ts";
import { signInByCookie } from "../support/browser-session.ts";

let api: TestApi;
let callers: Callers;
let minute = 0;

beforeAll(async () => {
  api = await createTestApi({ settings: { sendsMail: true } });
  callers = api.callers;
});
afterAll(() => api.close());
// Requests and unknown links count per minute and address.
beforeEach(() => api.setNow(new Date(Date.UTC(2025, 5, 15, 10, (minute += 1)))));

const INVALID = { error: "NOT FOUND: This recovery link is not valid any more" };
const request = (username: unknown) => api.call("POST", "/recovery", { body: { username } });
const recover = (token: string, password: unknown = "sesame-open") =>
  api.call("POST", `/recovery/${token}`, { body: { password } });
const signIn = async (username: string, password: string) =>
  (await api.call("POST", "/users/authenticate", { body: { username, password } })).status;
const mails = (userId: string | null) =>
  api.database.connection.client<{ status: string }[]>`
    select status from mails where user_id is not distinct from ${userId} order by id`.then((rows) =>
    rows.map(({ status }) => status),
  );

async function link(username: string): Promise<string> {
  const answer = await api.call<{ url: string; expiresAt: string }>("POST", `/users/${username}/recovery`, {
    key: callers.platformAdmin.key,
  });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    url: expect.stringMatching(/\/console\/recovery\/[0-9a-f]{64}$/),
    expiresAt: new Date(api.resources.now().getTime() + 3_600_000).toISOString(),
  });
  return answer.body.url.split("/").at(-1) ?? "";
}

it("a platform ADMIN makes a link, which sets a new password once", async () => {
  const { username } = await api.newUser();
  const token = await link(username);
  expect(await signIn(username, "password")).toBe(200);
  expect((await recover(token)).status).toBe(204);
  expect([await signIn(username, "password"), await signIn(username, "sesame-open")]).toEqual([401, 200]);
  const again = await recover(token, "another-sesame");
  expect([again.status, again.body]).toEqual([404, INVALID]);
  expect(await signIn(username, "sesame-open")).toBe(200);
});

it("a new password by a link ends every session, and leaves the key", async () => {
  const { username, key } = await api.newUser();
  const { cookie } = await signInByCookie(api, username);
  const me = async () => (await api.call("GET", "/users/me", { headers: { cookie } })).status;
  const token = await link(username);
  expect(await me()).toBe(200);
  expect((await recover(token)).status).toBe(204);
  expect(await me()).toBe(401);
  expect((await api.call("GET", "/users/me", { key })).status).toBe(200);
});

it("nobody else makes one", async () => {
  const { owner, organizationAdmin, outsider, all } = callers;
  for (const { key } of [owner, organizationAdmin, outsider, all]) {
    expect((await api.call("POST", "/users/owner/recovery", { key })).status).toBe(403);
  }
  expect((await api.call("POST", "/users/owner/recovery", {})).status).toBe(401);
  const key = callers.platformAdmin.key;
  expect((await api.call("POST", "/users/nobody-here/recovery", { key })).status).toBe(404);
});

it("nobody gets a link who is deleted meanwhile", async () => {
  const { client } = api.database.connection;
  const { id, username } = await api.newUser();
  let made: Promise<{ status: number; body: object }> | undefined;
  await client.begin(async (tx) => {
    await tx`delete from organizations where owner_id = ${id}`;
    await tx`delete from users where id = ${id}`;
    made = api.call("POST", `/users/${username}/recovery`, { key: callers.platformAdmin.key });
    await expect
      .poll(
        () => client`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      .toHaveLength(1);
  });
  const answer = await made;
  expect([answer?.status, answer?.body]).toEqual([404, { error: "INVALID DATA: User not found" }]);
});

it("a link ends after an hour, with another link's use, and with a new password", async () => {
  const { username, key } = await api.newUser();
  const [late, used, other] = [await link(username), await link(username), await link(username)];
  const start = api.resources.now().getTime();
  api.setNow(new Date(start + 3_600_000));
  expect((await recover(late)).status).toBe(404);
  api.setNow(new Date(start));
  expect((await recover(used)).status).toBe(204);
  expect((await recover(other)).status).toBe(404);
  const last = await link(username);
  await api.call("PUT", `/users/${username}`, { key, body: { password: "by-myself" } });
  expect((await recover(last)).status).toBe(404);
  expect(await signIn(username, "by-myself")).toBe(200);
});

it("two uses of a link at once have one effect", async () => {
  const { username } = await api.newUser();
  const token = await link(username);
  const answers = await Promise.all([recover(token, "first-one"), recover(token, "second-one")]);
  expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 404]);
});

it("a password obeys the rules of sign-up, and a refused one leaves the link", async () => {
  const { username } = await api.newUser();
  const token = await link(username);
  for (const password of [null, "abc", "with space", 5, "x".repeat(257)]) {
    expect((await recover(token, password)).status).toBe(422);
  }
  expect((await recover(token)).status).toBe(204);
});

it("guesses are throttled: the eleventh unknown link of an address is 429", async () => {
  for (let i = 0; i < 10; i += 1) expect((await recover(String(i).repeat(64))).status).toBe(404);
  expect((await recover("f".repeat(64))).status).toBe(429);
});

it("guesses of several processes are counted together", async () => {
  const before = api.resources.callLimits;
  const unknown = "0".repeat(64);
  try {
    for (let guess = 1; guess <= 10; guess += 1) {
      // Each process counts in its own memory, too.
      api.resources.callLimits = new CallLimits();
      expect((await recover(unknown)).status).toBe(404);
    }
    api.resources.callLimits = new CallLimits();
    const refused = await recover(unknown);
    expect([refused.status, Number(refused.headers.get("retry-after"))]).toEqual([429, 60]);
  } finally {
    api.resources.callLimits = before;
  }
});

it("tokens are stored hashed, and no mail's row contains one", async () => {
  const token = await link("owner");
  const { client } = api.database.connection;
  const rows = await client`
    select to_jsonb(r)::text as row from recoveries r union all select to_jsonb(m)::text from mails m`;
  expect(JSON.stringify(rows)).not.toContain(token);
});

it("a request is answered alike for every name, and queues a mail only for a user with an address", async () => {
  const [without, having] = await Promise.all([api.newUser(), api.newUser()]);
  await api.database.connection.client`update users set email = 'ada@example.com' where id = ${having.id}`;
  const answers = [await request(without.username), await request(having.username), await request("nobody-at-all")];
  for (const { status, body } of answers) {
    expect([status, body]).toEqual([202, { message: "A link is on its way if the account has an email address" }]);
  }
  expect([await mails(without.id), await mails(having.id), await mails(null)]).toEqual([
    ["void"],
    ["pending"],
    ["void"],
  ]);
});

it("users give and remove their address themselves, and another one ends mailed links", async () => {
  const { username, key, id } = await api.newUser();
  const set = (email: unknown, by = key) => api.call("PUT", `/users/${username}`, { key: by, body: { email } });
  expect((await set("ada@example.com")).status).toBe(200);
  await request(username);
  expect(await mails(id)).toEqual(["pending"]);
  const token = await link(username);
  expect((await set("grace@example.com", callers.platformAdmin.key)).status).toBe(200);
  expect((await recover(token)).status).toBe(404);
  expect((await set("mallory@example.com", callers.outsider.key)).status).toBe(403);
  expect((await set("ada")).body).toEqual({
    error: "The email field must be an address such as ada@example.com, or null",
  });
  expect((await set(null)).status).toBe(200);
  await request(username);
  expect(await mails(id)).toEqual(["pending", "void"]);
});

it("requests are throttled as failed sign-ins, and a user gets five mails per hour", async () => {
  const { username, id } = await api.newUser();
  await api.database.connection.client`update users set email = 'ada@example.com' where id = ${id}`;
  for (let i = 0; i < 10; i += 1) expect((await request(username)).status).toBe(202);
  expect((await request(username)).status).toBe(429);
  // A sign-in with the right password is not throttled by requests.
  expect(await signIn(username, "password")).toBe(200);
  expect((await mails(id)).filter((status) => status === "pending")).toHaveLength(5);
});

it("a request without a name is 422", async () => {
  expect((await api.call("POST", "/recovery", { body: {} })).body).toEqual({ error: "Username is required" });
  expect((await request(5)).body).toEqual({ error: "Username must be a string" });
});
