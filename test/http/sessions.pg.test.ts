import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../src/http/app.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { browserWith, cookieOf, OWN_ORIGIN, signInByCookie } from "../support/browser-session.ts";

let api: TestApi;
const START = new Date("2025-06-15T10:00:00.000Z");

beforeAll(async () => {
  api = await createTestApi({ settings: { sessionIdleSeconds: 3600, sessionLifetimeSeconds: 86_400 } });
});
afterAll(() => api.close());

type Session = { id: string; current: boolean; via: string; agent: string; address: string; lastUsedAt: string };
const later = (seconds: number) => new Date(START.getTime() + seconds * 1000);
const ENDED = { error: "The session has ended. Please sign in again" };
const FOREIGN = { error: "This request comes from another page" };

describe("signing in", () => {
  test("answers with the user and no key, and sets a cookie that scripts cannot read", async () => {
    const user = await api.newUser("margaret");
    const answer = await api.call("POST", "/sessions", { body: { username: "margaret", password: "password" } });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({ user: { id: user.id, username: "margaret", role: "USER" } });
    expect(JSON.stringify([...answer.headers])).not.toContain("usr_");
    expect(answer.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^faregate_session=[\w-]{43}; Max-Age=86400; Path=\/; HttpOnly; SameSite=Lax$/),
    ]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test("stores the hash of the token alone", async () => {
    const { cookie } = await signInByCookie(api, "margaret");
    const token = cookie.split("=")[1] ?? "";
    const rows = await api.database.connection.client`select to_jsonb(s)::text as row from sessions s`;
    expect(rows.length).toBeGreaterThan(0);
    for (const { row } of rows) expect(row).not.toContain(token);
  });

  test.each([
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["::FFFF:192.0.2.7", "192.0.2.7"],
    ["192.0.2.7", "192.0.2.7"],
    ["2001:db8::7", "2001:db8::7"],
  ])("from %s is listed with the address %s, however the socket is bound", async (remoteAddress, shown) => {
    const { username, key } = await api.newUser();
    const signedIn = await api.app.request(
      "/api/v1/sessions",
      {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username, password: "password" }),
      },
      { incoming: { socket: { remoteAddress } } },
    );
    expect(signedIn.status).toBe(201);
    const list = await api.call<Session[]>("GET", "/sessions", { key });
    expect(list.body.map(({ address }) => address)).toEqual([shown]);
  });

  test("a wrong password is 401 without a cookie, and counts with those of POST /users/authenticate", async () => {
    await api.newUser("guessed");
    const guess = { username: "guessed", password: "wrong" };
    for (let i = 0; i < 5; i += 1) {
      const refused = await api.call("POST", "/sessions", { body: guess });
      expect([refused.status, cookieOf(refused)]).toEqual([401, undefined]);
      await api.call("POST", "/users/authenticate", { body: guess });
    }
    expect((await api.call("POST", "/sessions", { body: { username: "guessed", password: "password" } })).status).toBe(
      429,
    );
  });

  test("a wrong shape is 422, and nothing is signed in", async () => {
    for (const body of [{}, { username: "margaret" }, { username: 5, password: "password" }, { username: null }]) {
      const refused = await api.call("POST", "/sessions", { body });
      expect([refused.status, cookieOf(refused)]).toEqual([422, undefined]);
    }
  });
});

describe("a request with the cookie and no key", () => {
  test("is the user's, with exactly the permissions of the user's key", async () => {
    const owner = await signInByCookie(api, "owner");
    const { organizationId, owner: keyed } = api.callers;
    for (const path of ["/users/me", "/organizations", `/organizations/${organizationId}/contracts`, "/services"]) {
      const [byCookie, byKey] = [await owner.call("GET", path), await api.call("GET", path, { key: keyed.key })];
      expect([byCookie.status, byCookie.body], path).toEqual([byKey.status, byKey.body]);
    }
    for (const path of ["/services", "/contracts", "/features/ada"]) {
      expect((await owner.call("POST", path, { body: {} })).status, path).toBe(403);
    }
    expect((await owner.call("DELETE", "/contracts")).status).toBe(403);
  });

  test("counts for nothing beside a key", async () => {
    const { cookie } = await signInByCookie(api, "owner");
    const { evaluation, outsider } = api.callers;
    const me = await api.call("GET", "/users/me", { key: outsider.key, headers: { cookie } });
    expect(me.body["username"]).toBe("outsider");
    expect((await api.call("GET", "/users/me", { key: evaluation.key, headers: { cookie } })).status).toBe(403);
    expect((await api.call("GET", "/users/me", { key: "usr_unknown", headers: { cookie } })).status).toBe(401);
  });

  test("opens no protocol of agents and flags", async () => {
    const { cookie } = await signInByCookie(api, "owner");
    const headers = { cookie, origin: OWN_ORIGIN };
    const answer = await api.call("POST", "/ofrep/v1/evaluate/flags", { headers, body: {} });
    expect(answer.status).toBe(401);
    expect((await api.app.request("/mcp", { method: "POST", headers, body: "{}" })).status).toBe(401);
  });

  test("follows the event stream, which ends with the session", async () => {
    const app = createApp({
      open: () => api.resources,
      settings: { allowedOrigins: [], baseUrlPath: "" },
      streams: { heartbeatMs: 50 },
    });
    const { cookie, call } = await signInByCookie(api, "owner");
    const url = `/api/v1/events/stream?organizationId=${api.callers.organizationId}`;
    const stream = await app.request(url, { headers: { cookie } });
    expect(stream.status).toBe(200);
    const text = stream.text();
    await call("DELETE", "/sessions/current");
    expect(await text).toContain("retry:");
  });
});

describe("pages of other origins", () => {
  const CHANGES: { title: string; headers: Record<string, string> }[] = [
    { title: "another host", headers: { origin: "http://evil.example" } },
    { title: "another port of this host", headers: { origin: "http://localhost:8080" } },
    { title: "an opaque origin", headers: { origin: "null" } },
    { title: "no page at all", headers: {} },
    { title: "a page of the same site", headers: { origin: OWN_ORIGIN, "sec-fetch-site": "same-site" } },
    { title: "a page of another site", headers: { "sec-fetch-site": "cross-site" } },
    { title: "an address that begins as this one", headers: { origin: "http://localhost.evil.example" } },
  ];
  test.each(CHANGES)("$title changes nothing with the cookie", async ({ headers }) => {
    const { cookie } = await signInByCookie(api, "owner");
    for (const [method, path] of [
      ["POST", "/organizations"],
      ["PUT", "/users/owner"],
      ["DELETE", "/sessions"],
      ["PUT", "/users/owner/api-key"],
    ] as const) {
      const answer = await api.call(method, path, { headers: { cookie, ...headers }, body: {} });
      expect([answer.status, answer.body], path).toEqual([403, FOREIGN]);
    }
  });

  test("this server's own pages may, named by Origin or by Sec-Fetch-Site", async () => {
    const { cookie } = await signInByCookie(api, "owner");
    for (const headers of [{ origin: OWN_ORIGIN }, { "sec-fetch-site": "same-origin" }]) {
      expect((await api.call("PUT", "/users/owner", { headers: { cookie, ...headers }, body: {} })).status).toBe(200);
    }
  });

  test("a script of another origin reads nothing with the cookie, though CORS admits it with a key", async () => {
    const { cookie } = await signInByCookie(api, "owner");
    const origin = "http://localhost:8080";
    const refused = await api.call("GET", "/users/me", { headers: { cookie, origin } });
    // As without a cookie: the session goes on.
    expect(refused).toMatchObject({ status: 401, body: (await api.call("GET", "/users/me")).body });
    const { key } = api.callers.owner;
    expect((await api.call("GET", "/users/me", { key, headers: { cookie, origin } })).status).toBe(200);
    expect((await api.call("POST", "/organizations", { key, headers: { cookie, origin }, body: {} })).status).toBe(422);
  });

  test("no page signs a visitor in to somebody else's account", async () => {
    const answer = await api.call("POST", "/sessions", {
      headers: { origin: "http://evil.example", "content-type": "application/x-www-form-urlencoded" },
      body: "username=owner&password=password",
    });
    expect([answer.status, answer.body, cookieOf(answer)]).toEqual([403, FOREIGN, undefined]);
  });
});

describe("a cookie that admits nobody", () => {
  test("tampered, invented, empty, of another name: 401 on protected routes, as nobody on public ones", async () => {
    const { cookie } = await signInByCookie(api, "owner");
    const flipped = cookie.endsWith("A") ? `${cookie.slice(0, -1)}B` : `${cookie.slice(0, -1)}A`;
    const invented = `faregate_session=${"x".repeat(43)}`;
    for (const wrong of [flipped, invented, "faregate_session=", `faregate_session=${"x".repeat(5000)}`]) {
      const answer = await browserWith(api, wrong).call("GET", "/users/me");
      expect([answer.status, answer.body], wrong.slice(0, 80)).toEqual([401, ENDED]);
      expect((await browserWith(api, wrong).call("GET", "/healthcheck")).status).toBe(200);
    }
    const other = cookie.replace("faregate_session", "__Host-faregate_session");
    expect((await browserWith(api, other).call("GET", "/users/me")).status).toBe(401);
  });

  test("a session fixed by somebody else is replaced at sign-in, and ends if it was real", async () => {
    const attacker = await signInByCookie(api, "outsider");
    const victim = await api.call("POST", "/sessions", {
      headers: { cookie: attacker.cookie, origin: OWN_ORIGIN },
      body: { username: "owner", password: "password" },
    });
    expect(victim.status).toBe(201);
    expect(cookieOf(victim)).not.toBe(attacker.cookie);
    expect((await attacker.call("GET", "/users/me")).status).toBe(401);
    expect((await browserWith(api, cookieOf(victim) ?? "").call("GET", "/users/me")).body["username"]).toBe("owner");
    const invented = await api.call("POST", "/sessions", {
      headers: { cookie: `faregate_session=${"x".repeat(43)}`, origin: OWN_ORIGIN },
      body: { username: "owner", password: "password" },
    });
    expect(cookieOf(invented)).not.toContain("xxxx");
  });
});

describe("the end of a session", () => {
  test("is in the audit log", async () => {
    await api.newUser("audited");
    const [asks] = [await signInByCookie(api, "audited"), await signInByCookie(api, "audited")];
    await asks.call("DELETE", "/sessions");
    const { body } = await api.call<{ data: object[] }>("GET", "/audit-log?action=session&limit=1", {
      key: api.callers.platformAdmin.key,
    });
    expect(body.data).toEqual([
      expect.objectContaining({ action: "session.end", target: "audited", before: { sessions: 1 } }),
    ]);
  });

  test("idle, unless it is used", async () => {
    const [used, idle] = [await signInByCookie(api, "owner"), await signInByCookie(api, "owner")];
    for (const minutes of [25, 50, 75, 100]) {
      api.setNow(later(minutes * 60));
      expect((await used.call("GET", "/users/me")).status, String(minutes)).toBe(200);
    }
    expect((await idle.call("GET", "/users/me")).body).toEqual(ENDED);
    api.setNow(START);
  });

  test("idle after a few seconds where the operator says so, counted from the last use", async () => {
    const { settings } = api.resources;
    const { call } = await signInByCookie(api, "owner");
    settings.sessionIdleSeconds = 10;
    try {
      for (const seconds of [4, 11, 20]) {
        api.setNow(later(seconds));
        expect((await call("GET", "/users/me")).status, String(seconds)).toBe(200);
      }
      api.setNow(later(30));
      expect((await call("GET", "/users/me")).body).toEqual(ENDED);
    } finally {
      settings.sessionIdleSeconds = 3600;
      api.setNow(START);
    }
  });

  test("old, however often it is used", async () => {
    const { call } = await signInByCookie(api, "owner");
    for (let minutes = 0; minutes < 1440; minutes += 50) {
      api.setNow(later(minutes * 60));
      expect((await call("GET", "/users/me")).status).toBe(200);
    }
    api.setNow(later(86_400));
    expect((await call("GET", "/users/me")).body).toEqual(ENDED);
    api.setNow(START);
  });

  test("by the user: this one, another one, all others", async () => {
    await api.newUser("ender");
    const [first, second, third] = [
      await signInByCookie(api, "ender"),
      await signInByCookie(api, "ender"),
      await signInByCookie(api, "ender"),
    ];
    const list = await first.call<Session[]>("GET", "/sessions");
    expect(list.body.map(({ current, via }) => [current, via])).toEqual([
      [false, "password"],
      [false, "password"],
      [true, "password"],
    ]);
    const out = await third.call("DELETE", "/sessions/current");
    expect([out.status, out.headers.getSetCookie()[0]]).toEqual([
      204,
      expect.stringMatching(/^faregate_session=; Max-Age=0/),
    ]);
    expect((await third.call("GET", "/users/me")).status).toBe(401);
    const outsider = await signInByCookie(api, "outsider");
    const id = list.body[1]?.id ?? "";
    expect((await outsider.call("DELETE", `/sessions/${id}`)).status).toBe(404);
    expect((await second.call("GET", "/users/me")).status).toBe(200);
    expect((await first.call("DELETE", `/sessions/${id}`)).status).toBe(204);
    expect((await second.call("GET", "/users/me")).status).toBe(401);
    expect((await first.call("DELETE", `/sessions/${id}`)).body).toEqual({ error: `Session ${id} not found` });
    const fourth = await signInByCookie(api, "ender");
    expect((await first.call("DELETE", "/sessions")).status).toBe(204);
    expect((await fourth.call("GET", "/users/me")).status).toBe(401);
    expect((await first.call("GET", "/users/me")).status).toBe(200);
  });

  test("by another password: all end, and the one that asked goes on under a new cookie", async () => {
    await api.newUser("changer");
    const [asks, other] = [await signInByCookie(api, "changer"), await signInByCookie(api, "changer")];
    const changed = await asks.call("PUT", "/users/changer", { body: { password: "another-password" } });
    expect(changed.status).toBe(200);
    for (const { call } of [asks, other]) expect((await call("GET", "/users/me")).status).toBe(401);
    const renewed = browserWith(api, cookieOf(changed) ?? "");
    expect((await renewed.call("GET", "/users/me")).status).toBe(200);
  });

  test("by a rotated key only where it says so", async () => {
    const { key } = await api.newUser("rotator");
    const { call } = await signInByCookie(api, "rotator");
    const rotated = await api.call<{ apiKey: string }>("PUT", "/users/rotator/api-key", { key });
    expect((await call("GET", "/users/me")).status).toBe(200);
    await api.call("PUT", "/users/rotator/api-key", { key: rotated.body.apiKey, body: { endSessions: true } });
    expect((await call("GET", "/users/me")).status).toBe(401);
    const wrong = await api.call("PUT", "/users/owner/api-key", {
      key: api.callers.owner.key,
      body: { endSessions: "yes" },
    });
    expect([wrong.status, wrong.body]).toEqual([422, { error: "The endSessions field must be a boolean" }]);
  });

  test("by another role, and by deletion", async () => {
    await api.newUser("riser");
    const { key } = api.callers.platformAdmin;
    const before = await signInByCookie(api, "riser");
    await api.call("PUT", "/users/riser/role", { key, body: { role: "ADMIN" } });
    expect((await before.call("GET", "/users/me")).status).toBe(401);
    const after = await signInByCookie(api, "riser");
    expect((await after.call("GET", "/users/me")).body["role"]).toBe("ADMIN");
    await api.call("DELETE", "/users/riser", { key });
    expect((await after.call("GET", "/users/me")).status).toBe(401);
  });
});

test("a session that another process ended is refused within a second", async () => {
  const { call } = await signInByCookie(api, "owner");
  expect((await call("GET", "/users/me")).status).toBe(200);
  // As any other process does it: this one is notified by the database alone.
  await api.database.connection.client`delete from sessions where user_id = ${api.callers.owner.id}`;
  const deadline = performance.now() + 1000;
  for (let isOver = false; !isOver;) {
    const askedAt = performance.now();
    isOver = (await call("GET", "/users/me")).status === 401;
    if (!isOver) expect(askedAt, "asked within a second").toBeLessThan(deadline);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test("1,000 sign-ins leave the newest 50", async () => {
  const { id } = await api.newUser("many");
  const first = await signInByCookie(api, "many");
  await api.database.connection.client`
    insert into sessions (id, user_id, token_hash, via, created_at, last_used_at, address, agent)
    select lpad(to_hex(n), 24, '0'), ${id}, 'hash ' || n, 'password', ${START.toISOString()}::timestamptz - n * interval '1 second',
      ${START.toISOString()}::timestamptz, '', '' from generate_series(1, 999) n`;
  const last = await signInByCookie(api, "many");
  const { body } = await last.call<Session[]>("GET", "/sessions");
  expect(body).toHaveLength(50);
  expect((await first.call("GET", "/users/me")).status).toBe(200);
  const [row] = await api.database.connection.client`select count(*)::int as n from sessions where user_id = ${id}`;
  expect(row?.["n"]).toBe(50);
});

describe("over https and below a sub-path", () => {
  let secure: TestApi;
  beforeAll(async () => {
    secure = await createTestApi({
      settings: { publicUrl: "https://pricing.example/space" },
      http: { baseUrlPath: "/space" },
    });
  });
  afterAll(() => secure.close());

  test("the cookie is Secure, and of the sub-path", async () => {
    const answer = await secure.call("POST", "/sessions", { body: { username: "owner", password: "password" } });
    expect(answer.headers.getSetCookie()[0]).toMatch(
      /^__Secure-faregate_session=[\w-]{43}; Max-Age=2592000; Path=\/space; HttpOnly; Secure; SameSite=Lax$/,
    );
    const headers = { cookie: cookieOf(answer) ?? "", origin: "https://pricing.example" };
    expect((await secure.call("PUT", "/users/owner", { headers, body: {} })).status).toBe(200);
    // A page over http, such as one that an attacker in the network writes, sets no other name than this.
    const plain = headers.cookie.replace("__Secure-", "");
    expect((await secure.call("GET", "/users/me", { headers: { cookie: plain } })).status).toBe(401);
  });

  test("without a sub-path it is bound to the host", async () => {
    const answer = await api.app.request("https://localhost/api/v1/sessions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "owner", password: "password" }),
    });
    expect(answer.headers.getSetCookie()[0]).toMatch(
      /^__Host-faregate_session=[^;]+; [^;]+; Path=\/; HttpOnly; Secure/,
    );
  });
});
