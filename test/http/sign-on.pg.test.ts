import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { SignOnSettings } from "../../src/operations/state/sign-on-provider.ts";
import { createSignOnProvider } from "../../src/operations/state/sign-on-provider.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { browserWith, signInByCookie } from "../support/browser-session.ts";
import {
  type AccountClaims,
  CLIENT,
  PUBLIC_CLIENT,
  startProvider,
  type TestProvider,
} from "../support/oidc-provider.ts";

const NO_FAULTS = { hangs: undefined, stalls: undefined, drops: undefined, fails: undefined };
const CALLBACK = "http://localhost/api/v1/auth/oidc/callback";

let provider: TestProvider;
let api: TestApi;
let settings: SignOnSettings;

beforeAll(async () => {
  provider = await startProvider(CALLBACK);
  settings = {
    issuer: provider.issuer,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    scopes: "openid profile email",
    name: "Keycloak",
    usernameClaim: "preferred_username",
    roles: [
      { claim: "groups", has: "admins", platform: "ADMIN" },
      { claim: "groups", has: "billing", organization: "Acme", role: "MANAGER" },
      { claim: "groups", has: "leads", organization: "Acme", role: "ADMIN" },
    ],
    allowsSignUp: true,
  };
  api = await createTestApi({ settings: { signOn: settings } });
});
beforeEach(() => api.setNow(new Date()));
afterEach(() => Object.assign(provider, { visitor: "ada", ...NO_FAULTS, forge: undefined }));
afterAll(async () => {
  await api.close();
  await provider.close();
});

interface Visit {
  /** Address of the callback, with its query. */
  callback: string;
  cookie: string;
}

const cookiesOf = (answer: Response) => answer.headers.getSetCookie().map((line) => line.split(";")[0] ?? "");

/** Goes to the provider and comes back, as a browser does. */
async function go(path = "/api/v1/auth/oidc/start", cookies: readonly string[] = [], at = api): Promise<Visit> {
  const started = await at.app.request(path, { headers: { cookie: cookies.join("; ") } });
  expect(started.status, await started.clone().text()).toBe(302);
  const callback = await provider.visit(started.headers.get("location") ?? "");
  return { callback, cookie: [...cookies, ...cookiesOf(started)].join("; ") };
}

const comeBack = ({ callback, cookie }: Visit, at = api) => at.app.request(callback, { headers: { cookie } });

/** The session of an answer; undefined without one. */
const sessionOf = (answer: Response) => cookiesOf(answer).find((pair) => /^faregate_session=./.test(pair));

/** Signs in as an account of the provider, with these claims from now on. */
async function signOn(sub: string, claims?: AccountClaims) {
  if (claims !== undefined) provider.accounts.set(sub, claims);
  provider.visitor = sub;
  const answer = await comeBack(await go());
  const session = sessionOf(answer);
  if (session === undefined) throw new Error(`no session: ${answer.headers.get("location")}`);
  return browserWith(api, session);
}

const nameOf = async (browser: Awaited<ReturnType<typeof signOn>>) =>
  (await browser.call("GET", "/users/me")).body["username"];
const failureOf = (answer: Response) => [answer.status, answer.headers.get("location")];
const failed = (code: string) => [302, `http://localhost/console/sign-in?error=${code}`];

describe("a sign-in with the provider", () => {
  test("creates an account, and comes back to the page that asked", async () => {
    provider.accounts.set("ada", { preferred_username: "ada", email: "ada@acme.example", email_verified: true });
    const answer = await comeBack(await go("/api/v1/auth/oidc/start?return=/console/o/1%3Ftab=2"));
    expect(failureOf(answer)).toEqual([302, "/console/o/1?tab=2"]);
    const { call } = browserWith(api, sessionOf(answer) ?? "");
    expect((await call("GET", "/users/me")).body).toEqual({ username: "ada", role: "USER" });
    expect((await call<{ via: string }[]>("GET", "/sessions")).body.map(({ via }) => via)).toEqual(["oidc"]);
    expect((await call<{ data: { name: string }[] }>("GET", "/organizations")).body.data[0]?.name).toBe(
      "ada's Organization",
    );
    const [row] = await api.database.connection
      .client`select email, via, password_hash from users where username = 'ada'`;
    expect(row).toEqual({ email: "ada@acme.example", via: "oidc", password_hash: "none" });
  });

  test("finds the account again, whatever its name has become on either side", async () => {
    const before = await signOn("renamed", { preferred_username: "before" });
    await before.call("PUT", "/users/before", { body: { username: "meanwhile" } });
    expect(await nameOf(await signOn("renamed", { preferred_username: "after-all" }))).toBe("meanwhile");
  });

  test("is not a way to sign in with a password", async () => {
    await signOn("no-password", { preferred_username: "no-password" });
    for (const password of ["none", "", "password"]) {
      const refused = await api.call("POST", "/sessions", { body: { username: "no-password", password } });
      expect(refused.status).toBe(401);
    }
  });

  test("works for a public client, which PKCE alone protects", async () => {
    const { clientSecret: _, ...rest } = settings;
    const own = { ...rest, clientId: PUBLIC_CLIENT };
    const now = api.resources.now;
    const publicApi = {
      ...api.resources,
      signOn: createSignOnProvider(own, now),
      settings: { ...api.resources.settings, signOn: own },
    };
    const before = { ...api.resources };
    Object.assign(api.resources, publicApi);
    try {
      expect(await nameOf(await signOn("public", { preferred_username: "public-client" }))).toBe("public-client");
    } finally {
      Object.assign(api.resources, before);
    }
  });

  test.each([
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/.//evil.example",
    "/console/..//evil.example",
    "/%2e//evil.example",
    "javascript:alert(1)",
    "console",
    "",
  ])("comes back to / instead of %j", async (to) => {
    const answer = await comeBack(await go(`/api/v1/auth/oidc/start?return=${encodeURIComponent(to)}`));
    expect(failureOf(answer)).toEqual([302, "/"]);
  });
});

test("the state of a sign-in fits into a cookie, however long the path is", async () => {
  for (const [path, expected] of [
    [`/console/${"x".repeat(1900)}`, `/console/${"x".repeat(1900)}`],
    [`/console/${"é".repeat(600)}`, "/"],
    [`/console/${"x".repeat(8000)}`, "/"],
  ] as const) {
    const started = await api.app.request(`/api/v1/auth/oidc/start?return=${encodeURIComponent(path)}`);
    expect(started.headers.getSetCookie()[0]?.length).toBeLessThan(4096);
    const cookie = cookiesOf(started).join("; ");
    const callback = await provider.visit(started.headers.get("location") ?? "");
    expect(failureOf(await comeBack({ callback, cookie }))).toEqual([302, expected]);
  }
});

describe("the callback", () => {
  test("with another state, without a cookie, with somebody else's, or twice: state", async () => {
    const visit = await go();
    const other = await go();
    const forged = new URL(visit.callback);
    forged.searchParams.set("state", "x".repeat(43));
    expect(failureOf(await comeBack({ ...visit, callback: forged.href }))).toEqual(failed("state"));
    expect(failureOf(await comeBack({ ...visit, cookie: "" }))).toEqual(failed("state"));
    expect(failureOf(await comeBack({ ...visit, cookie: other.cookie }))).toEqual(failed("state"));
    expect(failureOf(await comeBack({ ...visit, cookie: "faregate_sign_on=v1$AAAA$AAAA" }))).toEqual(failed("state"));
    expect(sessionOf(await comeBack(visit))).toBeDefined();
    const replayed = await comeBack(visit);
    expect([failureOf(replayed), sessionOf(replayed)]).toEqual([failed("state"), undefined]);
  });

  test("after ten minutes: state", async () => {
    const visit = await go();
    api.setNow(new Date(Date.now() + 601_000));
    expect(failureOf(await comeBack(visit))).toEqual(failed("state"));
  });

  test("with the code of another sign-in, or one that was used: token", async () => {
    const [first, second] = [await go(), await go()];
    const swapped = new URL(second.callback);
    swapped.searchParams.set("code", new URL(first.callback).searchParams.get("code") ?? "");
    expect(failureOf(await comeBack({ ...second, callback: swapped.href }))).toEqual(failed("token"));
  });

  test("of a visitor who refuses: denied, with the provider's words in the log alone", async () => {
    provider.visitor = null;
    const answer = await comeBack(await go());
    expect(failureOf(answer)).toEqual(failed("denied"));
    expect(api.logged.at(-1)).toMatchObject({ level: "warn", detail: expect.stringContaining("access_denied: no") });
  });

  test("with a subject that cannot be stored: token", async () => {
    const now = Math.floor(Date.now() / 1000);
    const claims = { preferred_username: "nul", email: "nul@acme.example", groups: [] };
    provider.forge = (payload) => ({ payload: { ...payload, ...claims, sub: "a\0b", iat: now } });
    expect(failureOf(await comeBack(await go()))).toEqual(failed("token"));
  });

  test("of an issuer that names another: token", async () => {
    const visit = await go();
    const mixed = new URL(visit.callback);
    mixed.searchParams.set("iss", "https://evil.example");
    expect(failureOf(await comeBack({ ...visit, callback: mixed.href }))).toEqual(failed("token"));
  });

  test.each([
    ["another nonce", { nonce: "another" }],
    ["another issuer", { iss: "https://evil.example" }],
    ["another audience", { aud: "somebody-else" }],
    ["its time over", { exp: Math.floor(Date.now() / 1000) - 600 }],
    ["no subject", { sub: undefined as never }],
    ["a subject that is no text", { sub: 5 as never }],
  ])("with an ID token of %s: token", async (_, change) => {
    provider.forge = (payload) => ({ payload: { ...payload, ...change } });
    const answer = await comeBack(await go());
    expect([failureOf(answer), sessionOf(answer)]).toEqual([failed("token"), undefined]);
  });

  test("with alg none, or another key: token", async () => {
    provider.forge = () => null;
    expect(failureOf(await comeBack(await go()))).toEqual(failed("token"));
    provider.forge = () => ({ header: { kid: "unknown" } });
    expect(failureOf(await comeBack(await go()))).toEqual(failed("token"));
  });

  test("after the provider has rotated its keys, also between two sign-ins", async () => {
    expect(await nameOf(await signOn("rotated", { preferred_username: "rotated" }))).toBe("rotated");
    await provider.rotateKeys();
    expect(await nameOf(await signOn("rotated"))).toBe("rotated");
  });

  test.each([
    [60, true],
    [-60, true],
    [600, false],
    [-600, false],
  ])("with a clock that is %i s off: %s", async (seconds, isAllowed) => {
    const shift = (moment: number | undefined) => (moment ?? 0) + seconds;
    // An ID token that is over as soon as it is issued shows the tolerance to both sides.
    provider.forge = (payload) => ({
      payload: { ...payload, iat: shift(payload.iat), exp: shift(payload.iat) + 5 },
    });
    const answer = await comeBack(await go());
    expect(sessionOf(answer) !== undefined).toBe(isAllowed);
    if (!isAllowed) expect(failureOf(answer)).toEqual(failed("token"));
  });

  // Entra dates its tokens back by five minutes.
  test.each([
    [360, true],
    [600, false],
  ])("with an ID token that is %i s old and valid for an hour: %s", async (seconds, isAllowed) => {
    provider.forge = (payload) => ({ payload: { ...payload, iat: (payload.iat ?? 0) - seconds } });
    const answer = await comeBack(await go());
    expect(sessionOf(answer) !== undefined).toBe(isAllowed);
    if (!isAllowed) expect(failureOf(answer)).toEqual(failed("token"));
  });
});

describe("a provider in trouble", () => {
  /** Another process: one that has not asked the provider yet. */
  const fresh = () => {
    api.resources.signOn = createSignOnProvider(settings, api.resources.now);
  };

  test.each([
    ["hangs", "unavailable", /^the provider did not answer in time, code unavailable; operation timed out/],
    ["fails", "token", /^the provider's answer proves nothing, code token; /],
  ] as const)(
    "%s: said at the start, and at the callback as %s, of which the log has the reason",
    async (fault, code, reason) => {
      fresh();
      provider[fault] = /./;
      const started = await api.app.request("/api/v1/auth/oidc/start");
      expect(failureOf(started)).toEqual(failed("unavailable"));
      provider[fault] = undefined;
      const visit = await go();
      provider[fault] = /^\/token/;
      const answer = await comeBack(visit);
      expect(failureOf(answer)).toEqual(failed(code));
      expect(await answer.text()).toBe("");
      const warned = api.logged.findLast(({ level }) => level === "warn");
      expect(warned?.detail).toEqual(expect.stringMatching(reason));
    },
  );

  test("hangs in the middle of an answer, or is gone: unavailable", async () => {
    const stalled = await go();
    provider.stalls = /^\/token/;
    expect(failureOf(await comeBack(stalled))).toEqual(failed("unavailable"));
    provider.stalls = undefined;
    const refused = await go();
    provider.drops = /^\/token/;
    expect(failureOf(await comeBack(refused))).toEqual(failed("unavailable"));
  });

  test("goes on with the sessions that there are", async () => {
    const { call } = await signOn("lasting", { preferred_username: "lasting" });
    provider.hangs = /./;
    expect((await call("GET", "/users/me")).status).toBe(200);
  });

  test("without its user information: token, because roles may stand there, and the log names the endpoint", async () => {
    const visit = await go();
    provider.fails = /^\/me/;
    expect(failureOf(await comeBack(visit))).toEqual(failed("token"));
    const words = /the userinfo endpoint sent no valid answer; unexpected HTTP response status code/;
    expect(api.logged.at(-1)).toMatchObject({ level: "warn", detail: expect.stringMatching(words) });
  });
});

describe("names", () => {
  test("an account that exists is never taken over: ada-2, ada-3", async () => {
    await api.newUser("grace");
    await api.newUser("grace-2");
    expect(await nameOf(await signOn("g1", { preferred_username: "grace" }))).toBe("grace-3");
    expect(await nameOf(await signOn("g2", { preferred_username: "grace", email: "grace@acme.example" }))).toBe(
      "grace-4",
    );
    expect(await nameOf(await signOn("g1"))).toBe("grace-3");
  });

  test("nor is one that looks like another", async () => {
    await api.newUser("test1-user");
    expect(await nameOf(await signOn("look", { preferred_username: "testl-user" }))).toBe("testl-user-2");
  });

  test("the part of the address before the @ stands in for a claim that is missing or unfit", async () => {
    expect(await nameOf(await signOn("n1", { email: "only.address@acme.example" }))).toBe("only.address");
    const long = { preferred_username: "x".repeat(31), email: "short.one@acme.example" };
    expect(await nameOf(await signOn("n2", long))).toBe("short.one");
    expect(await nameOf(await signOn("n3", { preferred_username: "y".repeat(30) }))).toBe("y".repeat(30));
    expect(await nameOf(await signOn("n4", { preferred_username: "y".repeat(30) }))).toBe(`${"y".repeat(28)}-2`);
  });

  test.each([
    ["none at all", {}],
    ["two characters", { preferred_username: "ab" }],
    ["a control character", { preferred_username: "evil\u202Ename" }],
    ["mixed scripts", { preferred_username: "аdmin-x" }],
    ["a list", { preferred_username: ["ada"], email: 5 }],
  ])("%s: name, and no account", async (title, claims) => {
    provider.accounts.set(title, claims);
    provider.visitor = title;
    const answer = await comeBack(await go());
    expect([failureOf(answer), sessionOf(answer)]).toEqual([failed("name"), undefined]);
  });

  test("two callbacks of a new identity at once make one account", async () => {
    provider.accounts.set("twice", { preferred_username: "twice" });
    provider.visitor = "twice";
    const visits = [await go(), await go(), await go()];
    const answers = await Promise.all(visits.map((visit) => comeBack(visit)));
    const names = await Promise.all(answers.map((answer) => nameOf(browserWith(api, sessionOf(answer) ?? ""))));
    expect(names).toEqual(["twice", "twice", "twice"]);
  });

  test("where sign-up is closed: signup for who has no account", async () => {
    await signOn("known", { preferred_username: "known-one" });
    settings.allowsSignUp = false;
    try {
      expect(await nameOf(await signOn("known"))).toBe("known-one");
      provider.accounts.set("unknown", { preferred_username: "unknown-one" });
      provider.visitor = "unknown";
      expect(failureOf(await comeBack(await go()))).toEqual(failed("signup"));
    } finally {
      settings.allowsSignUp = true;
    }
  });
});

describe("roles of claims", () => {
  const memberships = async () => {
    const { owner, organizationId } = api.callers;
    const { body } = await api.call<{ members: { username: string; role: string }[] }>(
      "GET",
      `/organizations/${organizationId}`,
      { key: owner.key },
    );
    return Object.fromEntries(body.members.map(({ username, role }) => [username, role]));
  };

  test("come and go with the groups, and the highest of an organization counts", async () => {
    const claims = (...groups: string[]) => ({ preferred_username: "grouped", groups });
    const first = await signOn("grouped", claims("billing", "admins"));
    expect((await first.call("GET", "/users/me")).body["role"]).toBe("ADMIN");
    expect((await memberships())["grouped"]).toBe("MANAGER");
    const second = await signOn("grouped", claims("billing", "leads"));
    expect((await second.call("GET", "/users/me")).body["role"]).toBe("USER");
    expect((await first.call("GET", "/users/me")).status).toBe(401);
    expect((await memberships())["grouped"]).toBe("ADMIN");
    await signOn("grouped", claims());
    expect(await memberships()).not.toHaveProperty("grouped");
    await signOn("grouped", { preferred_username: "grouped", groups: "billing" });
    expect((await memberships())["grouped"]).toBe("MANAGER");
    // The claim is missing, as after a change at the provider.
    await signOn("grouped", { preferred_username: "grouped" });
    expect(await memberships()).not.toHaveProperty("grouped");
  });

  test("leave what was given by hand elsewhere, and the owner of an organization", async () => {
    const { call } = await signOn("by-hand", { preferred_username: "by-hand", groups: [] });
    const other = await api.newOrganization(api.callers.owner, "Elsewhere");
    const path = `/organizations/${other.id}/members`;
    const body = { username: "by-hand", role: "MANAGER" };
    expect((await api.call("POST", path, { key: api.callers.owner.key, body })).status).toBe(200);
    await signOn("by-hand");
    expect((await call("GET", `/organizations/${other.id}`)).status).toBe(200);
  });

  test("are in the audit log as the user's own", async () => {
    const { call } = await signOn("audited", { preferred_username: "audited", groups: ["billing"] });
    expect((await call("GET", "/users/me")).status).toBe(200);
    const { body } = await api.call<{ data: { target: string; action: string; actor: { name: string } }[] }>(
      "GET",
      "/audit-log?target=audited",
      { key: api.callers.platformAdmin.key },
    );
    expect(body.data.map(({ action, actor }) => [action, actor.name])).toEqual([
      ["member.add", "audited"],
      ["user.create", null],
    ]);
  });

  test("the last platform ADMIN keeps the role", async () => {
    const { client } = api.database.connection;
    const last = await signOn("last", { preferred_username: "last-admin", groups: ["admins"] });
    await client`update users set role = 'USER' where username = 'platform-admin'`;
    try {
      const again = await signOn("last", { preferred_username: "last-admin", groups: [] });
      expect((await again.call("GET", "/users/me")).body["role"]).toBe("ADMIN");
      expect((await last.call("GET", "/users/me")).status).toBe(200);
    } finally {
      await client`update users set role = 'ADMIN' where username = 'platform-admin'`;
      await api.resources.invalidationsApplied?.();
    }
    expect((await (await signOn("last")).call("GET", "/users/me")).body["role"]).toBe("USER");
  });

  test("an organization that somebody gives the same name gets no members", async () => {
    await api.newOrganization(api.callers.outsider, "Acme");
    await signOn("named", { preferred_username: "named-org", groups: ["billing"] });
    expect((await memberships())["named-org"]).toBe("MANAGER");
  });
});

describe("linking an identity", () => {
  const link = async (cookie: string) => comeBack(await go("/api/v1/auth/oidc/link?return=/console/account", [cookie]));

  test("adds it to the account, which then signs in either way", async () => {
    await api.newUser("linker");
    const browser = await signInByCookie(api, "linker");
    provider.accounts.set("linker-sub", { preferred_username: "somebody", email: "linker@acme.example" });
    provider.visitor = "linker-sub";
    const answer = await link(browser.cookie);
    expect([failureOf(answer), sessionOf(answer)]).toEqual([[302, "/console/account"], undefined]);
    expect(await nameOf(await signOn("linker-sub"))).toBe("linker");
    expect(await nameOf(await signInByCookie(api, "linker"))).toBe("linker");
    expect(failureOf(await link(browser.cookie))).toEqual([302, "/console/account"]);
  });

  test("one of another account: name", async () => {
    await signOn("taken", { preferred_username: "taken-one" });
    await api.newUser("wanting");
    const { cookie } = await signInByCookie(api, "wanting");
    provider.visitor = "taken";
    expect(failureOf(await link(cookie))).toEqual(failed("name"));
    expect(await nameOf(await signOn("taken"))).toBe("taken-one");
  });

  test("needs a session, of the same account at both ends, and a page of this server", async () => {
    expect((await api.app.request("/api/v1/auth/oidc/link")).status).toBe(401);
    const { cookie } = await signInByCookie(api, "owner");
    for (const site of ["cross-site", "same-site"]) {
      const headers = { cookie, "sec-fetch-site": site };
      expect((await api.app.request("/api/v1/auth/oidc/link", { headers })).status).toBe(403);
    }
    provider.accounts.set("stray", { preferred_username: "stray" });
    provider.visitor = "stray";
    const visit = await go("/api/v1/auth/oidc/link", [cookie]);
    const flow = visit.cookie.split("; ").find((pair) => pair.startsWith("faregate_sign_on=")) ?? "";
    expect(failureOf(await comeBack({ ...visit, cookie: flow }))).toEqual(failed("state"));
    const again = await go("/api/v1/auth/oidc/link", [cookie]);
    const outsider = await signInByCookie(api, "outsider");
    const mixed = again.cookie.replace(cookie, outsider.cookie);
    expect(failureOf(await comeBack({ ...again, cookie: mixed }))).toEqual(failed("state"));
  });
});

describe("back-channel logout", () => {
  const EVENTS = { "http://schemas.openid.net/event/backchannel-logout": {} };
  const logout = (token: string) =>
    api.call("POST", "/auth/oidc/backchannel-logout", {
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ logout_token: token }).toString(),
    });
  const base = (claims: Record<string, unknown>) => ({
    iss: provider.issuer,
    aud: CLIENT.id,
    iat: Math.floor(Date.now() / 1000),
    exp: Math.floor(Date.now() / 1000) + 120,
    jti: crypto.randomUUID(),
    events: EVENTS,
    ...claims,
  });
  const token = (claims: Record<string, unknown>) => provider.sign(base(claims), { typ: "logout+jwt" });

  test("ends the sessions of its subject, once", async () => {
    const [first, second] = [await signOn("leaver", { preferred_username: "leaver" }), await signOn("leaver")];
    const stays = await signOn("stayer", { preferred_username: "stayer" });
    const signed = await token({ sub: "leaver" });
    const answer = await logout(signed);
    expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
    for (const { call } of [first, second]) expect((await call("GET", "/users/me")).status).toBe(401);
    expect((await stays.call("GET", "/users/me")).status).toBe(200);
    const again = await signOn("leaver");
    expect(await logout(signed)).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The logout token was used before" },
    });
    expect((await again.call("GET", "/users/me")).status).toBe(200);
  });

  test("ends the session of its sid alone, and no session with a password", async () => {
    await signOn("sided", { preferred_username: "sided" });
    const { client } = api.database.connection;
    const sid = (await client`select provider_session as sid from sessions where subject = 'sided'`)[0]?.["sid"];
    expect(sid).toEqual(expect.any(String));
    const other = await signOn("sided");
    expect((await logout(await provider.logoutToken("sided", String(sid)))).status).toBe(200);
    expect(await client`select 1 from sessions where provider_session = ${sid}`).toHaveLength(0);
    expect((await other.call("GET", "/users/me")).status).toBe(200);
  });

  test("of a session ends those of its subject whose ID token named none, too", async () => {
    provider.forge = (payload) => ({ payload: { ...payload, sid: undefined } });
    const unnamed = await signOn("unnamed", { preferred_username: "unnamed" });
    const other = await signOn("other-unnamed", { preferred_username: "other-unnamed" });
    expect((await logout(await token({ sub: "unnamed", sid: "a session" }))).status).toBe(200);
    expect((await unnamed.call("GET", "/users/me")).status).toBe(401);
    // Without a subject, only a session that is named so.
    expect((await logout(await token({ sid: "a session" }))).status).toBe(200);
    expect((await other.call("GET", "/users/me")).status).toBe(200);
  });

  test.each([
    ["another issuer", { iss: "https://evil.example", sub: "ada" }],
    ["another audience", { aud: "somebody-else", sub: "ada" }],
    ["no event", { events: {}, sub: "ada" }],
    ["a nonce", { nonce: "n", sub: "ada" }],
    ["no jti", { jti: undefined, sub: "ada" }],
    ["nobody", {}],
    ["a subject that is no text", { sub: 5 }],
    ["its time over", { exp: 1, sub: "ada" }],
    ["an old date", { iat: Math.floor(Date.now() / 1000) - 3600, sub: "ada" }],
  ])("a token of %s is 400", async (_, claims) => {
    expect(await logout(await token(claims))).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The logout token is not valid" },
    });
  });

  test("an ID token, alg none, garbage and nothing are refused", async () => {
    const idToken = await provider.sign(base({ events: undefined, sub: "ada", nonce: "n" }));
    const [header, payload] = (await token({ sub: "ada" })).split(".");
    const none = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`;
    for (const wrong of [idToken, none, `${header}.${payload}.AAAA`, "garbage"]) {
      expect((await logout(wrong)).status).toBe(400);
    }
    const sentence = "INVALID DATA: The logout token is not valid";
    for (const body of [{}, { logout_token: null }, { logout_token: ["a"] }, { logout_token: "a".repeat(16_385) }]) {
      const refused = await api.call("POST", "/auth/oidc/backchannel-logout", { body });
      expect([refused.status, refused.body]).toEqual([400, { error: sentence }]);
    }
  });
});

describe("PASSWORD_SIGN_IN", () => {
  const attempt = async (path: string, username: string, password = "password") =>
    api.call("POST", path, { body: { username, password } });
  afterEach(() => {
    api.resources.settings.passwordSignIn = undefined;
  });

  test("false refuses every password, admins all but those of platform ADMINs", async () => {
    const refused = { error: "Sign in with Keycloak" };
    for (const path of ["/users/authenticate", "/sessions"]) {
      api.resources.settings.passwordSignIn = "false";
      expect((await attempt(path, "owner")).body).toEqual(refused);
      expect((await attempt(path, "platform-admin")).body).toEqual(refused);
      api.resources.settings.passwordSignIn = "admins";
      expect(await attempt(path, "owner")).toMatchObject({ status: 401, body: refused });
      expect((await attempt(path, "platform-admin")).status).toBeLessThan(300);
      // A wrong password reveals nothing about the account.
      expect((await attempt(path, "owner", "wrong")).body).toEqual({ error: "INVALID DATA: Invalid credentials" });
    }
    const { key } = api.callers.owner;
    expect((await api.call("GET", "/users/me", { key })).status).toBe(200);
  });

  test("is shown to the sign-in page", async () => {
    api.resources.settings.passwordSignIn = "admins";
    expect((await api.call("GET", "/auth/methods")).body).toEqual({
      password: "admins",
      provider: { name: "Keycloak" },
      user: null,
      signUp: true,
    });
  });
});

test("without a provider there is none to sign in with", async () => {
  const { signOn } = api.resources;
  api.resources.signOn = undefined;
  try {
    for (const path of ["start", "callback"]) {
      const { status, body } = await api.call("GET", `/auth/oidc/${path}`);
      expect([status, body]).toEqual([404, { error: "Single sign-on is not configured" }]);
    }
  } finally {
    api.resources.signOn = signOn;
  }
});
