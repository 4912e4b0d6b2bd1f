import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { users } from "../../src/db/schema.ts";
import { hashesWaiting, inTurn } from "../../src/operations/state/hashing-queue.ts";
import { fillUsernameSkeletons } from "../../src/operations/accounts/username-skeletons.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

/* Attacks on other accounts by a stranger with or without an account. */

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi({ http: { trustedProxies: 1 } });
});
afterAll(() => api.close());

const from = (address: string) => ({ "x-forwarded-for": address });
const signUp = (username: string, key?: string) =>
  api.call("POST", "/users", { key, body: { username, password: "password" } });
const signIn = (username: string, password: string, address: string) =>
  api.call("POST", "/users/authenticate", { body: { username, password }, headers: from(address) });

describe("look-alike names (contract README, decision 23)", () => {
  const similar = { status: 409, body: { error: "CONFLICT: The username is too similar to an existing one" } };
  const notAllowed = { status: 422, body: { error: "The username contains characters that are not allowed" } };

  test.each([
    ["a zero-width space", "platform-admin\u200b"],
    ["a Cyrillic а", "pl\u0430tform-admin"],
    ["a right-to-left override", "\u202eplatform-admin"],
  ])("a sign-up with %s is refused with 422", async (_, username) => {
    expect(await signUp(username)).toMatchObject(notAllowed);
    const { key } = api.callers.outsider;
    expect(await api.call("PUT", `/users/${api.callers.outsider.username}`, { key, body: { username } })).toMatchObject(
      notAllowed,
    );
  });

  test("a name of 1.9 MB costs no more than its length is checked", async () => {
    const username = `${"1".repeat(1_900_000)}я\u05d0`;
    const started = process.cpuUsage();
    const error = "Username must be between 3 and 30 characters";
    expect(await signUp(username)).toMatchObject({ status: 422, body: { error } });
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(500);
  });

  test("a name that looks like an old one with an invisible character is a conflict", async () => {
    const old = await api.newUser("invisible");
    await api.resources.db
      .update(users)
      .set({ username: "hid\u200bden", usernameSkeleton: null })
      .where(eq(users.id, old.id));
    await fillUsernameSkeletons(api.resources);
    expect(await signUp("hidden")).toMatchObject(similar);
  });

  test.each(["José", "Мария", "李小明", "김철수", "佐藤さくら"])("%s signs up", async (username) => {
    expect((await signUp(username)).status).toBe(201);
  });

  test("a name of other characters that look the same is a conflict, for strangers and for an ADMIN", async () => {
    expect((await signUp("modern-1")).status).toBe(201);
    for (const username of ["modem-1", "modern-l", "modem-I"]) {
      expect(await signUp(username)).toMatchObject(similar);
      expect(await signUp(username, api.callers.platformAdmin.key)).toMatchObject(similar);
    }
    // One script only, but the same glyphs.
    expect((await signUp("раура")).status).toBe(201);
    expect(await signUp("paypa")).toMatchObject(similar);
    // The accent as a separate combining character.
    expect(await signUp("Jose\u0301")).toMatchObject(similar);
    // The normalized name is unchanged.
    expect(await signUp("modern-1")).toMatchObject({ status: 404 });
  });

  test("of look-alikes that sign up at once one gets the name", async () => {
    const answers = await Promise.all(["rival-1", "rival-l", "rivaI-1", "rivaI-l"].map((name) => signUp(name)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
  });

  test("a user takes a look-alike of their own name, of nobody else's, and leaves the name to others", async () => {
    const own = await api.newUser("grace-1");
    await api.newUser("hopper-1");
    const rename = (username: string, to: string) =>
      api.call("PUT", `/users/${username}`, { key: own.key, body: { username: to } });
    expect(await rename("grace-1", "hopper-l")).toMatchObject(similar);
    expect((await rename("grace-1", "grace-l")).status).toBe(200);
    expect((await rename("grace-l", "renamed")).status).toBe(200);
    expect((await signUp("grace-I")).status).toBe(201);
  });

  test("names from before the check stay, and guard theirs once their skeletons are filled in", async () => {
    const old = await api.newUser("ancient-1");
    await api.resources.db.update(users).set({ usernameSkeleton: null }).where(eq(users.id, old.id));
    expect((await signUp("ancient-l")).status).toBe(201);
    await fillUsernameSkeletons(api.resources);
    expect((await api.call("GET", "/users/me", { key: old.key })).status).toBe(200);
    expect(await signUp("ancient-I")).toMatchObject(similar);
  });
});

describe("the first ADMIN (contract README, decision 23)", () => {
  test("is given no name that nobody could sign up with", async () => {
    const { db } = api.resources;
    const admins = await db.update(users).set({ role: "USER" }).where(eq(users.role, "ADMIN")).returning();
    try {
      const seed = (username: string) =>
        seedFirstAdmin(api.resources, { username, password: "password", organizationName: "Admins" });
      await expect(seed("\u0430dmin")).rejects.toMatchObject({ code: "unprocessable" });
      await expect(seed("platforrn-admin")).rejects.toMatchObject({ code: "conflict" });
    } finally {
      for (const { id } of admins) await db.update(users).set({ role: "ADMIN" }).where(eq(users.id, id));
    }
  });
});

describe("lock-out (contract README, decision 22)", () => {
  test("ten wrong passwords from one address keep nobody out who comes from another", async () => {
    for (const { username } of [await api.newUser("locked"), api.callers.platformAdmin]) {
      const guesses = await Promise.all(Array.from({ length: 12 }, () => signIn(username, "wrong", "198.51.100.7")));
      expect(guesses.map(({ status }) => status).sort()).toEqual([...Array<number>(10).fill(401), 429, 429]);
      expect((await signIn(username, "password", "198.51.100.7")).status).toBe(429);
      expect((await signIn(username, "password", "192.0.2.1")).status).toBe(200);
    }
  });

  test("addresses that a client invents in front of the proxy's entry are one address", async () => {
    await api.newUser("spoofed");
    const guess = (i: number) => signIn("spoofed", "wrong", `10.0.0.${i}, 198.51.100.8`);
    const guesses = await Promise.all(Array.from({ length: 15 }, (_, i) => guess(i)));
    expect(guesses.filter(({ status }) => status === 401)).toHaveLength(10);
  });

  test("a name is limited over all addresses too", async () => {
    const { username } = await api.newUser("botnet");
    const { client } = api.database.connection;
    await signIn(username, "wrong", "198.51.100.9");
    // Adds 499 failures, as other processes would count them.
    await client`update rate_counters set count = 500`;
    const answer = await signIn(username, "password", "192.0.2.55");
    expect(answer).toMatchObject({ status: 429 });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    await client`delete from rate_counters`;
    expect((await signIn(username, "password", "192.0.2.55")).status).toBe(200);
  });
});

describe("password hashing", () => {
  /** Hashes of one account that may wait. */
  const SHARE = 15;
  beforeAll(() => {
    api.resources.settings = { ...api.resources.settings, passwordIterations: undefined };
  });

  test("an ADMIN signs in while one account has asked for 600 password changes", async () => {
    const mallory = await api.newUser("mallory");
    // Nothing is hashed until all have arrived, so that the order does not depend on the speed of the machine.
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const slots = [inTurn(() => gate), inTurn(() => gate)];
    let [changed, refused] = [0, 0];
    const changes = Array.from({ length: 600 }, async () => {
      const { status } = await api.call("PUT", "/users/mallory", { key: mallory.key, body: { password: "another" } });
      if (status === 200) changed += 1;
      if (status === 429) refused += 1;
    });
    await expect.poll(() => refused, { timeout: 20_000 }).toBe(600 - SHARE);
    const admin = signIn("platform-admin", "password", "192.0.2.1");
    await expect.poll(hashesWaiting).toBe(slots.length + SHARE + 1);
    open();
    expect((await admin).status).toBe(200);
    expect(changed).toBeLessThanOrEqual(6);
    await Promise.all([...slots, ...changes]);
    expect([changed, refused]).toEqual([SHARE, 600 - SHARE]);
  });

  test("calls of a USER key count for the address, and those of a platform ADMIN do not", async () => {
    const { settings } = api.resources;
    api.resources.settings = { ...settings, accountCallsPerMinute: 2 };
    try {
      const create = (key: string, username: string) =>
        api.call("POST", "/users", { key, headers: from("203.0.113.4"), body: { username, password: "password" } });
      const made = [];
      for (let i = 0; i < 3; i += 1) made.push((await create(api.callers.outsider.key, `counted-${i + 2}`)).status);
      expect(made).toEqual([201, 201, 429]);
      expect((await create(api.callers.platformAdmin.key, "uncounted")).status).toBe(201);
    } finally {
      api.resources.settings = settings;
    }
  });

  test("work of a connection that closed is dropped before its turn", async () => {
    const user = await api.newUser("hung-up");
    const connection = new AbortController();
    const ask = () =>
      api.app.request("/api/v1/users/hung-up", {
        method: "PUT",
        headers: { "x-api-key": user.key, "content-type": "application/json" },
        body: JSON.stringify({ password: "another" }),
        signal: connection.signal,
      });
    const asked = Array.from({ length: 12 }, ask);
    // Where the database is slow, the first ones are done before the last ones arrive.
    await expect.poll(hashesWaiting, { interval: 1 }).toBeGreaterThan(4);
    const waiting = hashesWaiting();
    connection.abort();
    expect(hashesWaiting()).toBe(2);
    const dropped = (await Promise.all(asked)).filter(({ status }) => status === 429);
    expect(dropped.length).toBeGreaterThanOrEqual(waiting - 2);
  });
});
