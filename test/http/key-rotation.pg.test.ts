import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { identifyCaller } from "../../src/operations/access.ts";
import { createKeyring, hashApiKey } from "../../src/operations/credentials.ts";
import { createResources } from "../../src/operations/resources.ts";
import { reencryptKeys } from "../../src/operations/accounts/reseal.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

const START = new Date("2025-06-15T10:00:00.000Z");
const MINUTE = 60_000;

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());
beforeEach(() => api.setNow(START));

type Key = { id: string; key: string; scope: string };
type KeyDetails = {
  id: string;
  scope: string;
  name: string | null;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
};
const later = (minutes: number) => new Date(START.getTime() + minutes * MINUTE);
const path = () => `/organizations/${api.callers.organizationId}/api-keys`;

async function addKey(body: object): Promise<Key> {
  const made = await api.call<{ apiKeys: Key[] }>("POST", path(), { key: api.callers.owner.key, body });
  expect(made.status).toBe(200);
  return made.body.apiKeys.at(-1) ?? { id: "", key: "", scope: "" };
}

async function details(id: string): Promise<KeyDetails | undefined> {
  const { body } = await api.call<KeyDetails[]>("GET", path(), { key: api.callers.owner.key });
  return body.find((key) => key.id === id);
}

const statusOf = async (key: string, route = "/services") => (await api.call("GET", route, { key })).status;

it("an organization key works until the moment that it was given, and is then an unknown one", async () => {
  const { id, key } = await addKey({ scope: "EVALUATION", expiresAt: later(10).toISOString() });
  expect(await details(id)).toMatchObject({ scope: "EVALUATION", expiresAt: later(10).toISOString() });
  api.setNow(new Date(later(10).getTime() - 1));
  expect(await statusOf(key)).toBe(200);
  api.setNow(later(10));
  const refused = await api.call("GET", "/services", { key });
  expect(refused).toMatchObject({ status: 401, body: { error: "Invalid Organization API Key" } });
  await expect((async () => identifyCaller(api.resources, key))()).rejects.toMatchObject({ code: "unauthenticated" });
});

it.each([
  ["2027-01-01", "2027-01-01T00:00:00.000Z"],
  ["2027-01-01T12:00", "2027-01-01T12:00:00.000Z"],
  ["2027-01-01T12:00:00+02:00", "2027-01-01T10:00:00.000Z"],
])("a key ends at a moment in ISO 8601, in UTC without an offset: %s", async (expiresAt, moment) => {
  const { id } = await addKey({ scope: "EVALUATION", expiresAt });
  expect(await details(id)).toMatchObject({ expiresAt: moment });
});

it("a key is rotated by adding another one and letting the first end after an overlap", async () => {
  const first = await addKey({ scope: "MANAGEMENT" });
  const second = await addKey({ scope: "MANAGEMENT" });
  const put = await api.call<KeyDetails>("PUT", `${path()}/${first.id}`, {
    key: api.callers.owner.key,
    body: { expiresAt: later(60).toISOString() },
  });
  expect(put).toMatchObject({ status: 200, body: { id: first.id, expiresAt: later(60).toISOString() } });
  expect([await statusOf(first.key), await statusOf(second.key)]).toEqual([200, 200]);
  api.setNow(later(60));
  expect([await statusOf(first.key), await statusOf(second.key)]).toEqual([401, 200]);
  await api.call("PUT", `${path()}/${first.id}`, { key: api.callers.owner.key, body: { expiresAt: null } });
  expect(await statusOf(first.key)).toBe(200);
});

it.each([
  [{ expiresAt: "2025-06-15T10:00:00Z" }, 400, /^INVALID DATA: expiresAt must be in the future/],
  [{ expiresAt: "soon" }, 422, /^The expiresAt field must be an ISO 8601 date or null$/],
  [{ expiresAt: "2026-99-01T00:00:00Z" }, 422, /^The expiresAt field/],
  [{ expiresAt: 5 }, 422, /^The expiresAt field/],
  [{}, 422, /^The name field or the expiresAt field is required$/],
])("the expiry %j is refused", async (body, status, sentence) => {
  const { owner, all } = api.callers;
  const answer = await api.call<{ error: string }>("PUT", `${path()}/${all.id}`, { key: owner.key, body });
  expect(answer.status).toBe(status);
  expect(answer.body.error).toMatch(sentence);
  expect(await statusOf(all.key)).toBe(200);
});

it("a key may have a name from the beginning, get another one, and lose it; its end stays", async () => {
  const { owner } = api.callers;
  const expiresAt = later(60).toISOString();
  const { id, key } = await addKey({ scope: "EVALUATION", name: " web shop ", expiresAt });
  expect(await details(id)).toMatchObject({ name: "web shop", expiresAt });
  const rename = (name: unknown) => api.call("PUT", `${path()}/${id}`, { key: owner.key, body: { name } });
  expect(await rename("checkout")).toMatchObject({ status: 200, body: { id, name: "checkout", expiresAt } });
  expect(await statusOf(key)).toBe(200);
  expect(await rename(null)).toMatchObject({ status: 200, body: { name: null, expiresAt } });
  expect(await details((await addKey({ scope: "EVALUATION" })).id)).toMatchObject({ name: null });
  for (const wrong of ["", "  ", "x".repeat(101), 5]) {
    const body = { error: "The name field must be a text of 1 to 100 characters, or null" };
    expect(await rename(wrong)).toMatchObject({ status: 422, body });
    const added = { scope: "EVALUATION", name: wrong };
    expect(await api.call("POST", path(), { key: owner.key, body: added })).toMatchObject({ status: 422, body });
  }
});

it("a key of another organization cannot be changed", async () => {
  const { outsider, all } = api.callers;
  const { id } = await api.newOrganization(outsider);
  const answer = await api.call("PUT", `/organizations/${id}/api-keys/${all.id}`, {
    key: outsider.key,
    body: { expiresAt: later(1).toISOString() },
  });
  expect(answer.status).toBe(404);
  expect((await details(all.id))?.expiresAt).toBeNull();
});

it("the last use of a key is written when uses are flushed, and not by the request", async () => {
  const { id, key } = await addKey({ scope: "EVALUATION" });
  api.setNow(later(5));
  await statusOf(key);
  expect((await details(id))?.lastUsedAt).toBeNull();
  await api.resources.keyUses.flush();
  expect((await details(id))?.lastUsedAt).toBe(later(5).toISOString());
  const { owner } = api.callers;
  const shown = await api.call("GET", "/users/owner/api-key", { key: owner.key });
  expect(shown.body).toEqual({ expiresAt: null, lastUsedAt: later(5).toISOString(), previousUntil: null });
});

it("a user's old key works beside the new one for the overlap that was asked for, and no longer", async () => {
  const user = await api.newUser("rotating");
  const route = `/users/rotating/api-key`;
  const body = { overlapSeconds: 600, expiresAt: later(30).toISOString() };
  const rotated = await api.call<{ apiKey: string }>("PUT", route, { key: user.key, body });
  expect(rotated.status).toBe(200);
  const renewed = rotated.body.apiKey;
  expect((await api.call("GET", route, { key: renewed })).body).toMatchObject({
    expiresAt: later(30).toISOString(),
    previousUntil: later(10).toISOString(),
  });
  expect([await statusOf(user.key, "/users/me"), await statusOf(renewed, "/users/me")]).toEqual([200, 200]);
  api.setNow(later(10));
  expect([await statusOf(user.key, "/users/me"), await statusOf(renewed, "/users/me")]).toEqual([401, 200]);
  api.setNow(later(30));
  expect(await statusOf(renewed, "/users/me")).toBe(401);
  const signedIn = await api.call<{ apiKey: string }>("POST", "/users/authenticate", {
    body: { username: "rotating", password: "password" },
  });
  expect(signedIn.body.apiKey).not.toBe(renewed);
  expect(await statusOf(signedIn.body.apiKey, "/users/me")).toBe(200);
});

it("without an overlap a user's old key ends at once, also one that was in an overlap before", async () => {
  const user = await api.newUser("hasty");
  const rotate = async (key: string, body?: object) =>
    (await api.call<{ apiKey: string }>("PUT", "/users/hasty/api-key", { key, body })).body.apiKey;
  const second = await rotate(user.key, { overlapSeconds: 600 });
  const third = await rotate(second);
  const statuses = await Promise.all([user.key, second, third].map((key) => statusOf(key, "/users/me")));
  expect(statuses).toEqual([401, 401, 200]);
});

it.each([
  [{ overlapSeconds: -1 }, 422],
  [{ overlapSeconds: 1.5 }, 422],
  [{ overlapSeconds: 2_592_001 }, 422],
  [{ overlapSeconds: "x" }, 422],
  [{ expiresAt: "2025-06-15T09:59:59Z" }, 400],
])("the rotation %j is refused and ends no key", async (body, status) => {
  const { evaluator } = api.callers;
  const answer = await api.call("PUT", "/users/evaluator/api-key", { key: evaluator.key, body });
  expect(answer.status).toBe(status);
  expect(await statusOf(evaluator.key, "/users/me")).toBe(200);
});

it.each([
  ["owner", "evaluator", 403, "PERMISSION ERROR: Only admins can regenerate API keys for other users."],
  ["nobody", "platformAdmin", 404, "INVALID DATA: User not found"],
] as const)(
  "a rotation of %s by %s is refused for that, whatever else is wrong",
  async (username, who, status, error) => {
    const { key } = api.callers[who];
    for (const body of [{ overlapSeconds: "x" }, { expiresAt: "x" }, { expiresAt: "2025-06-15T09:59:59Z" }]) {
      const answer = await api.call("PUT", `/users/${username}/api-key`, { key, body });
      expect(answer).toMatchObject({ status, body: { error } });
    }
  },
);

it("with the secret replaced, keys work while the old one is known, and without it once they are reencrypted", async () => {
  const own = await createTestApi();
  try {
    const { owner, all } = own.callers;
    const secrets = { jwtSecret: "jwt secret of the tests, 32 bytes or more", jwtSalt: "salt" };
    const fresh = { ...secrets, apiKeysSecret: "another secret of the tests, 32 bytes or more" };
    const resourcesWith = async (previousApiKeysSecret?: string) =>
      createResources(own.database.connection, {
        keyring: await createKeyring({ ...fresh, previousApiKeysSecret }),
        settings: own.resources.settings,
        now: () => START,
      });
    const after = await resourcesWith();
    await expect((async () => identifyCaller(after, all.key))()).rejects.toMatchObject({ code: "unauthenticated" });
    const between = await resourcesWith("api keys secret of the tests, 32 bytes or more");
    expect(await identifyCaller(between, all.key)).toMatchObject({ kind: "key", keyId: all.id });
    expect(await identifyCaller(between, owner.key)).toMatchObject({ kind: "user", username: "owner" });
    const { reencrypted, unreadable } = await reencryptKeys(between);
    expect(reencrypted).toBeGreaterThan(10);
    expect(unreadable).toBe(0);
    expect(await identifyCaller(after, all.key)).toMatchObject({ kind: "key", keyId: all.id });
    expect(await identifyCaller(after, owner.key)).toMatchObject({ kind: "user", username: "owner" });
    const [row] = await own.database.connection.client`select key_hash from organization_keys where id = ${all.id}`;
    expect(row?.["key_hash"]).toBe(await hashApiKey(after.keyring, all.key));
    expect(await reencryptKeys(between)).toEqual({ reencrypted, unreadable: 0 });

    // A key replaced by a concurrent transaction is not counted: the update waits for that row and then skips it.
    const { client } = own.database.connection;
    let concurrent: ReturnType<typeof reencryptKeys> | undefined;
    await client.begin(async (tx) => {
      await tx`update organization_keys set key_sealed = 'replaced' where id = ${all.id}`;
      concurrent = reencryptKeys(between);
      await vi.waitFor(
        async () => {
          const blocked = await client`
            select 1 from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query like 'update "organization_keys"%'`;
          expect(blocked).toHaveLength(1);
        },
        { timeout: 20_000 },
      );
    });
    expect(await concurrent).toEqual({ reencrypted: reencrypted - 1, unreadable: 0 });
  } finally {
    await own.close();
  }
});
