import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { organizations, users } from "../../src/db/schema.ts";
import { createKeyring } from "../../src/operations/credentials.ts";
import { seedFirstAdmin } from "../../src/operations/accounts/sign-up.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

const signIn = (username: string, password: string) =>
  api.call<{ error?: string }>("POST", "/users/authenticate", { body: { username, password } });

describe("failed sign-ins (contract README, decision 18)", () => {
  test("the eleventh attempt for a name within a minute is 429 with Retry-After, known or unknown", async () => {
    const start = api.resources.now().getTime();
    const user = await api.newUser("guessed");
    for (const name of ["guessed", "no-such-name"]) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => signIn(name, "wrong")));
      expect(answers.map((answer) => answer.status)).toEqual(Array.from({ length: 10 }, () => 401));
    }
    api.setNow(new Date(start + 20_000));
    for (const [name, password] of [
      ["guessed", "password"],
      ["guessed", "wrong"],
      ["no-such-name", "wrong"],
    ] as const) {
      const answer = await signIn(name, password);
      expect(answer.status).toBe(429);
      expect(answer.headers.get("retry-after")).toBe("40");
      expect(answer.body).toEqual({ error: "Too many failed sign-in attempts. Please try again later" });
    }
    // Existing keys keep working, and other names are unaffected.
    expect((await api.call("GET", "/users/me", { key: user.key })).status).toBe(200);
    expect((await signIn("owner", "password")).status).toBe(200);
    api.setNow(new Date(start + 60_001));
    expect((await signIn("guessed", "password")).status).toBe(200);
    api.setNow(new Date(start));
  });

  test("thirty guesses at once do not get more than ten answers", async () => {
    await api.newUser("rushed");
    const answers = await Promise.all(Array.from({ length: 30 }, () => signIn("rushed", "wrong")));
    expect(answers.filter((answer) => answer.status === 401)).toHaveLength(10);
    expect(answers.filter((answer) => answer.status === 429)).toHaveLength(20);
  });

  test("sign-ins that succeed are never counted: thirty at once all pass", async () => {
    await api.newUser("busy");
    const answers = await Promise.all(Array.from({ length: 30 }, () => signIn("busy", "password")));
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
  });
});

describe("after the server's secret for keys was replaced", () => {
  test("old keys are unknown, signing in gives a new one, and organizations can be read and cleaned up", async () => {
    const user = await api.newUser("rotated");
    const { keyring } = api.resources;
    api.resources.keyring = await createKeyring({ apiKeysSecret: "r".repeat(32), jwtSecret: "j", jwtSalt: "s" });
    try {
      expect((await api.call("GET", "/users/me", { key: user.key })).status).toBe(401);
      const { status, body } = await signIn("rotated", "password");
      expect(status).toBe(200);
      const key = String((body as Record<string, unknown>)["apiKey"]);
      expect((await api.call("GET", "/users/rotated", { key })).body["apiKey"]).toBe(key);
      const own = await api.call<{ data: { id: string; apiKeys: { id: string; key: string }[] }[] }>(
        "GET",
        "/organizations",
        { key },
      );
      const [organization] = own.body.data;
      expect(organization?.apiKeys[0]?.key).toBe(`org_xxxxxxxx${"*".repeat(16)}`);
      const path = `/organizations/${organization?.id}/api-keys/${organization?.apiKeys[0]?.id}`;
      expect((await api.call("DELETE", path, { key })).status).toBe(200);
    } finally {
      api.resources.keyring = keyring;
    }
  });
});

describe("closed sign-up (ALLOW_PUBLIC_SIGNUP=false)", () => {
  const closed = <T>(work: () => Promise<T>) => {
    const { settings } = api.resources;
    api.resources.settings = { ...settings, allowPublicSignup: false };
    return work().finally(() => {
      api.resources.settings = settings;
    });
  };

  test("nobody signs up without a key, whatever the body", () =>
    closed(async () => {
      for (const key of [undefined, api.callers.all.key]) {
        const answer = await api.call("POST", "/users", { key, body: {} });
        expect(answer.status).toBe(401);
        expect(answer.body).toEqual({
          error: 'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.',
        });
      }
    }));

  test("a USER creates nobody and a platform ADMIN does", () =>
    closed(async () => {
      const body = { username: "invited", password: "password" };
      const refused = await api.call("POST", "/users", { key: api.callers.owner.key, body });
      expect(refused).toMatchObject({
        status: 403,
        body: { error: "PERMISSION ERROR: Only admins can create users." },
      });
      expect((await api.call("POST", "/users", { key: api.callers.platformAdmin.key, body })).status).toBe(201);
    }));
});

describe("the first ADMIN (§1.10)", () => {
  const seed = (username: string) =>
    seedFirstAdmin(api.resources, { username, password: "p", organizationName: "admin's Organization" });

  test("is not created while there is an ADMIN, and a changed password stays", async () => {
    expect(await seed("platform-admin")).toBe(false);
    expect(await seed("another-admin")).toBe(false);
    expect(await api.resources.db.$count(users, eq(users.username, "another-admin"))).toBe(0);
  });

  test("is created once by processes that start together, with its organization, whatever the length of its name", async () => {
    await api.resources.db.update(users).set({ role: "USER" });
    const results = await Promise.all([seed("su"), seed("su"), seed("su"), seed("su")]);
    expect(results.filter(Boolean)).toHaveLength(1);
    const [root] = await api.resources.db.select().from(users).where(eq(users.role, "ADMIN"));
    expect(root).toMatchObject({ username: "su", role: "ADMIN" });
    const owned = await api.resources.db
      .select()
      .from(organizations)
      .where(eq(organizations.ownerId, root?.id ?? ""));
    expect(owned).toMatchObject([{ name: "admin's Organization", isDefault: true }]);
    const signedIn = await signIn("su", "p");
    expect(signedIn).toMatchObject({ status: 200, body: { username: "su", role: "ADMIN" } });
    // The name is too short for a sign-up, but the user can still be changed (D23).
    const key = String((signedIn.body as Record<string, unknown>)["apiKey"]);
    const renamed = await api.call("PUT", "/users/su", { key, body: { username: "superuser" } });
    expect(renamed).toMatchObject({ status: 200, body: { username: "superuser" } });
  });
});
