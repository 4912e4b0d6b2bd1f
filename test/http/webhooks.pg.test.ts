import { afterAll, beforeAll, expect, it } from "vitest";
import type { WebhookView } from "../../src/operations/messaging/webhooks.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

const url = "https://hooks.example/faregate";
type Created = WebhookView & { secret: string; error?: string };
const create = (body: unknown, key = api.callers.management.key, path = "/webhooks") =>
  api.call<Created>("POST", path, { key, body });

it("a webhook is created, shown, changed and deleted; its secret is in no answer but the first", async () => {
  const { key } = api.callers.management;
  const created = await create({ url });
  expect(created.status).toBe(201);
  const { secret, ...shown } = created.body;
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(shown).toMatchObject({ url, description: null, codes: null, state: "enabled", failures: 0 });
  const path = `/webhooks/${shown.id}`;
  expect((await api.call("GET", path, { key })).body).toEqual(shown);
  expect((await api.call<unknown[]>("GET", "/webhooks", { key })).body).toEqual([shown]);
  const changes = { codes: ["CONTRACT_CREATED"], description: "Billing", enabled: false };
  const changed = await api.call<WebhookView>("PUT", path, { key, body: changes });
  expect(changed.body).toMatchObject({ url, codes: ["CONTRACT_CREATED"], description: "Billing", state: "disabled" });
  const cleared = await api.call<WebhookView>("PUT", path, { key, body: { codes: null, enabled: true } });
  expect(cleared.body).toMatchObject({ codes: null, description: "Billing", state: "enabled" });
  const rotated = await api.call<Created>("POST", `${path}/secret`, { key });
  expect(rotated.body.secret).not.toBe(secret);
  expect((await api.call<unknown[]>("GET", `${path}/deliveries`, { key })).body).toEqual([]);
  expect((await api.call("DELETE", path, { key })).status).toBe(204);
  for (const method of ["GET", "DELETE"] as const) {
    expect((await api.call(method, path, { key })).body).toEqual({ error: `Webhook ${shown.id} not found` });
  }
});

it("the secret is not in the database in clear", async () => {
  const { body } = await create({ url });
  const [row] = await api.database.connection.client`
    select secret_sealed as sealed from webhook_endpoints where id = ${body.id}`;
  expect(row?.["sealed"]).toMatch(/^v1\$/);
  expect(row?.["sealed"]).not.toContain(body.secret.slice(6, 20));
});

it("a creation with an Idempotency-Key makes one webhook, and a retry gets its secret", async () => {
  const { key } = api.callers.management;
  const headers = { "idempotency-key": "hook of billing" };
  const send = (body: object) => api.call<Created>("POST", "/webhooks", { key, headers, body });
  const answers = await Promise.all(Array.from({ length: 8 }, () => send({ url, description: "once" })));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
  expect(new Set(answers.map(({ body }) => `${body.id} ${body.secret}`)).size).toBe(1);
  expect(answers.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1);
  const listed = await api.call<WebhookView[]>("GET", "/webhooks", { key });
  expect(listed.body.filter(({ description }) => description === "once")).toHaveLength(1);
  expect(await send({ url, description: "another" })).toMatchObject({
    status: 422,
    body: { error: "This Idempotency-Key was already used for a different request" },
  });
  const [stored] = await api.database.connection.client`
    select body from idempotency_keys where key = 'hook of billing'`;
  expect(stored?.["body"]).toMatch(/^v1\$/);
});

const NOT_HTTPS =
  "INVALID DATA: The url must begin with https://. WEBHOOK_ALLOWED_HOSTS of the server allows local receivers";

it.each([
  [{}, 422, "The url field is required"],
  [{ url: 7 }, 422, "The url field must be a string"],
  [{ url: "hooks" }, 400, "INVALID DATA: The url is not a valid address"],
  [{ url: "http://hooks.example/" }, 400, NOT_HTTPS],
  [{ url: "ftp://hooks.example/" }, 400, NOT_HTTPS],
  [{ url: "https://me:secret@hooks.example/" }, 400, "INVALID DATA: The url must not contain credentials"],
  [{ url: `https://hooks.example/${"x".repeat(2048)}` }, 400, "INVALID DATA: The url is not a valid address"],
  [{ url, codes: [] }, 422, /^The codes field must be null or a non-empty list of PRICING_CREATED, /],
  [
    { url, codes: Array.from({ length: 1000 }, () => "PRICING_CREATED") },
    422,
    /^The codes field must not have more than \d+ elements$/,
  ],
  [{ url, codes: ["NOPE"] }, 422, /^The codes field must be null or a non-empty list of PRICING_CREATED, /],
  [{ url, description: "x".repeat(201) }, 422, "The description field must not be longer than 200 characters"],
])("%j is refused: %i %s", async (body, status, sentence) => {
  const answer = await create(body);
  expect(answer.status).toBe(status);
  if (typeof sentence === "string") expect(answer.body.error).toBe(sentence);
  else expect(answer.body.error).toMatch(sentence);
});

it("a member manages them below the organization; a platform ADMIN names the organization on the top level", async () => {
  const { organizationId, manager, platformAdmin } = api.callers;
  const below = await create({ url }, manager.key, `/organizations/${organizationId}/webhooks`);
  expect(below.status).toBe(201);
  const { secret: _, ...shown } = below.body;
  const named = `/webhooks/${shown.id}?organizationId=${organizationId}`;
  expect((await api.call("GET", named, { key: platformAdmin.key })).body).toEqual(shown);
  const unnamed = await api.call("GET", `/webhooks/${shown.id}`, { key: platformAdmin.key });
  expect(unnamed.body).toEqual({ error: "INVALID DATA: The organizationId query parameter is required" });
});

it("another organization's webhooks and deliveries look as if there were none", async () => {
  const { body: mine } = await create({ url });
  const stranger = await api.newUser();
  const theirs = await api.newOrganization(stranger);
  for (const [method, path] of [
    ["GET", ""],
    ["PUT", ""],
    ["DELETE", ""],
    ["POST", "/secret"],
    ["GET", "/deliveries"],
    ["POST", "/deliveries/1/resend"],
  ] as const) {
    const body = method === "PUT" ? { enabled: false } : undefined;
    const foreign = await api.call(method, `/webhooks/${mine.id}${path}`, { key: theirs.key, body });
    expect(foreign).toMatchObject({ status: 404, body: { error: `Webhook ${mine.id} not found` } });
    const inside = `/organizations/${theirs.id}/webhooks/${mine.id}${path}`;
    expect((await api.call(method, inside, { key: stranger.key, body })).status).toBe(404);
  }
  expect((await api.call<unknown[]>("GET", "/webhooks", { key: theirs.key })).body).toEqual([]);
  expect((await api.call<WebhookView>("GET", `/webhooks/${mine.id}`, { key: api.callers.all.key })).body.state).toBe(
    "enabled",
  );
});

it("pages and ids of the delivery log are checked", async () => {
  const { body } = await create({ url });
  const { key } = api.callers.all;
  for (const [query, status] of [
    ["?limit=0", 400],
    ["?limit=101", 400],
    ["?status=lost", 400],
    ["?before=x", 404],
    ["?limit=100&status=failed&before=7", 200],
  ] as const) {
    expect((await api.call("GET", `/webhooks/${body.id}/deliveries${query}`, { key })).status).toBe(status);
  }
  for (const delivery of ["7", "x"]) {
    const answer = await api.call("POST", `/webhooks/${body.id}/deliveries/${delivery}/resend`, { key });
    expect(answer).toMatchObject({ status: 404, body: { error: `Delivery ${delivery} not found` } });
  }
  expect((await api.call("GET", "/webhooks/x", { key })).status).toBe(404);
});

it("an organization has at most twenty, also when many are created at once; they go with it", async () => {
  const user = await api.newUser();
  const { id, key } = await api.newOrganization(user);
  const answers = await Promise.all(Array.from({ length: 25 }, () => create({ url }, key)));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
  expect(answers.find(({ status }) => status === 409)?.body.error).toBe(
    "CONFLICT: An organization can have at most 20 webhooks",
  );
  expect((await api.call("DELETE", `/organizations/${id}`, { key: user.key })).status).toBe(204);
  const left = await api.database.connection.client`select 1 from webhook_endpoints where organization_id = ${id}`;
  expect(left).toHaveLength(0);
});
