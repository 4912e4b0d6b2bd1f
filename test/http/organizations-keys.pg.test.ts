import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestApi, type Callers, type Method, type TestApi, type TestUser } from "../support/api.ts";

interface Organization {
  id: string;
  apiKeys: { id: string; key: string; scope: string }[];
  members: unknown[];
  ownerDetails?: unknown;
  error?: string;
}

const INSUFFICIENT = "PERMISSION ERROR: Insufficient organization permissions. Required: OWNER, ADMIN, MANAGER";
const ADD_ALL =
  "PERMISSION ERROR: Only SPACE admins or organization-level OWNER and ADMIN can add API keys with ALL scope.";
const REMOVE_ALL =
  "PERMISSION ERROR: Only SPACE admins or organization-level OWNER and ADMIN can remove API keys with ALL scope.";

let api: TestApi;
let callers: Callers;
let path: string;

beforeAll(async () => {
  api = await createTestApi();
  callers = api.callers;
  path = `/organizations/${callers.organizationId}/api-keys`;
});
afterAll(() => api.close());

const add = (key: string, body: unknown, query = "") =>
  api.call<Organization>("POST", `${path}${query}`, { key, body });
const remove = (key: string, idOrKey: string) => api.call<Organization>("DELETE", `${path}/${idOrKey}`, { key });
const lastOf = (organization: Organization) => {
  const last = organization.apiKeys.at(-1);
  if (last === undefined) throw new Error("no key");
  return last;
};

describe("creating a key (§6.1)", () => {
  test("answers 200 with the organization, its owner's details and the new key last; the key works", async () => {
    for (const scope of ["ALL", "MANAGEMENT", "EVALUATION"]) {
      const answer = await add(callers.owner.key, { scope });
      expect(answer.status).toBe(200);
      expect(answer.body.ownerDetails).toMatchObject({ username: "owner" });
      const made = lastOf(answer.body);
      expect(made).toEqual({
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        key: expect.stringMatching(/^org_[0-9a-f]{64}$/),
        scope,
      });
      expect((await api.call("GET", "/services", { key: made.key })).status).toBe(200);
    }
  });

  test.each<[unknown, string, number, string]>([
    [{}, "", 400, "scope field is required"],
    [[], "", 400, "scope field is required"],
    [{ scope: "" }, "", 400, "scope field is required"],
    [{ scope: null }, "", 400, "scope field is required"],
    [{ scope: "READ" }, "", 400, "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION."],
    [{ scope: "all" }, "", 400, "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION."],
    [{ scope: ["ALL"] }, "", 400, "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION."],
    [{ scope: 5 }, "", 400, "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION."],
    [{ scope: "READ" }, "?scope=ALL", 400, "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION."],
    [undefined, "?scope=READ", 400, "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION."],
  ])("the body %j with the query '%s' is %i", async (body, query, status, error) => {
    const answer = await add(callers.owner.key, body, query);
    expect(answer.body).toEqual({ error });
    expect(answer.status).toBe(status);
  });

  test("the scope may stand in the query when the body has none", async () => {
    const answer = await add(callers.manager.key, undefined, "?scope=EVALUATION");
    expect(answer.status).toBe(200);
    expect(lastOf(answer.body).scope).toBe("EVALUATION");
    const both = await add(callers.manager.key, { scope: "MANAGEMENT" }, "?scope=ALL");
    expect(lastOf(both.body).scope).toBe("MANAGEMENT");
  });

  test.each<[keyof Callers, string[], string]>([
    ["platformAdmin", ["ALL", "MANAGEMENT", "EVALUATION"], ""],
    ["owner", ["ALL", "MANAGEMENT", "EVALUATION"], ""],
    ["organizationAdmin", ["ALL", "MANAGEMENT", "EVALUATION"], ""],
    ["manager", ["MANAGEMENT", "EVALUATION"], ADD_ALL],
    ["evaluator", [], INSUFFICIENT],
    ["outsider", [], INSUFFICIENT],
  ])("%s creates and deletes keys of the scopes %j and no others", async (who, scopes, refusal) => {
    const caller = callers[who] as TestUser;
    for (const scope of ["ALL", "MANAGEMENT", "EVALUATION"]) {
      const made = await add(caller.key, { scope });
      if (scopes.includes(scope)) expect(made.status).toBe(200);
      else expect(made).toMatchObject({ status: 403, body: { error: refusal } });
      const target = lastOf((await add(callers.owner.key, { scope })).body);
      for (const name of [target.id, target.key]) {
        const removed = await remove(caller.key, name);
        if (!scopes.includes(scope)) {
          expect(removed).toMatchObject({ status: 403, body: { error: refusal.replace(ADD_ALL, REMOVE_ALL) } });
        } else if (name === target.id) {
          expect(removed.status).toBe(200);
          expect(removed.body.apiKeys.map(({ id }) => id)).not.toContain(target.id);
          expect((await api.call("GET", "/services", { key: target.key })).status).toBe(401);
        } else expect(removed.status).toBe(400);
      }
    }
  });

  test("who may not touch keys learns nothing about scopes", async () => {
    for (const { key } of [callers.evaluator, callers.outsider]) {
      expect(await add(key, {})).toMatchObject({ status: 403, body: { error: INSUFFICIENT } });
    }
  });
});

describe("what a key may have besides its scope", () => {
  const NAME = { name: 7 };
  const NAMED = "The name field must be a text of 1 to 100 characters, or null";
  const ENDS = "The expiresAt field must be an ISO 8601 date or null";

  test.each<[keyof Callers, string, object, number, string]>([
    ["owner", "{org}", { scope: "EVALUATION", ...NAME }, 422, NAMED],
    ["owner", "{org}", { scope: "EVALUATION", name: "" }, 422, NAMED],
    ["owner", "{org}", { scope: "EVALUATION", expiresAt: "x" }, 422, ENDS],
    [
      "owner",
      "{org}",
      { scope: "READ", ...NAME },
      400,
      "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION.",
    ],
    ["owner", "{org}", NAME, 400, "scope field is required"],
    ["evaluator", "{org}", NAME, 403, INSUFFICIENT],
    ["outsider", "{org}", { scope: "ALL", expiresAt: "x" }, 403, INSUFFICIENT],
    ["manager", "{org}", { scope: "ALL", ...NAME }, 403, ADD_ALL],
    ["owner", "0".repeat(24), NAME, 404, `Organization with ID ${"0".repeat(24)} not found`],
    ["owner", "short", NAME, 422, "organizationId must be a valid 24-character hex string"],
  ])("is looked at after everything else: %s, %s, %j: %i", async (who, id, body, status, error) => {
    const at = `/organizations/${id.replace("{org}", callers.organizationId)}/api-keys`;
    const answer = await api.call("POST", at, { key: (callers[who] as TestUser).key, body });
    expect({ status: answer.status, body: answer.body }).toEqual({ status, body: { error } });
  });
});

describe("deleting a key (§6.2)", () => {
  test("takes the value as well as the id, and the key stops working", async () => {
    for (const by of ["id", "key"] as const) {
      const made = lastOf((await add(callers.owner.key, { scope: "EVALUATION" })).body);
      const answer = await remove(callers.owner.key, made[by]);
      expect(answer.status).toBe(200);
      expect(answer.body.ownerDetails).toMatchObject({ username: "owner" });
      expect(answer.body.apiKeys.map(({ id }) => id)).not.toContain(made.id);
      expect((await api.call("GET", "/services", { key: made.key })).body).toEqual({
        error: "Invalid Organization API Key",
      });
    }
  });

  test("a key that is unknown, masked, or another organization's is 400 and stays", async () => {
    const other = await api.newOrganization(callers.outsider, "Other");
    const theirs = await api.call<Organization>("GET", `/organizations/${other.id}`, { key: callers.outsider.key });
    const masked = `${callers.all.key.slice(0, 12)}${"*".repeat(16)}`;
    for (const name of ["none", "0".repeat(24), "org_unknown", masked, "%25", other.key, lastOf(theirs.body).id]) {
      const answer = await remove(callers.owner.key, name);
      expect(answer.body).toEqual({ error: `API Key not found in organization ${callers.organizationId}.` });
      expect(answer.status).toBe(400);
    }
    expect((await api.call("GET", "/services", { key: other.key })).status).toBe(200);
  });

  test("the last key can go", async () => {
    const { id, key } = await api.newOrganization(callers.owner, "Keyless");
    const answer = await api.call<Organization>("DELETE", `/organizations/${id}/api-keys/${key}`, {
      key: callers.owner.key,
    });
    expect(answer.body.apiKeys).toEqual([]);
  });

  test("the member checks come before the key is looked for", async () => {
    expect(await remove(callers.evaluator.key, "none")).toMatchObject({
      status: 403,
      body: { error: INSUFFICIENT },
    });
    expect((await remove(callers.manager.key, callers.all.key)).body).toEqual({ error: REMOVE_ALL });
  });
});

describe("who is shown which key (§6.3)", () => {
  const CLEAR: [keyof Callers, string[]][] = [
    ["platformAdmin", ["ALL", "MANAGEMENT", "EVALUATION"]],
    ["owner", ["ALL", "MANAGEMENT", "EVALUATION"]],
    ["organizationAdmin", ["ALL", "MANAGEMENT", "EVALUATION"]],
    ["manager", ["MANAGEMENT", "EVALUATION"]],
    ["evaluator", []],
    ["outsider", []],
  ];
  /** Calls that return an organization: method, path below it, body. */
  const PAYLOADS: [string, Method, string, unknown][] = [
    ["reading it", "GET", "", undefined],
    ["renaming it", "PUT", "", { name: "Acme" }],
    ["updating nothing", "PUT", "", {}],
    ["adding a member", "POST", "/members", { username: "joiner", role: "EVALUATOR" }],
    ["changing a member", "PUT", "/members/joiner", { role: "MANAGER" }],
    ["removing a member", "DELETE", "/members/joiner", undefined],
    ["creating a key", "POST", "/api-keys", { scope: "EVALUATION" }],
    ["deleting a key", "DELETE", "/api-keys/{last}", undefined],
    ["listing", "GET", "list", undefined],
  ];

  test.each(CLEAR)("%s is shown keys of the scopes %j and the others masked, in every answer", async (who, clear) => {
    await api.newUser("joiner").catch(() => undefined);
    const { key } = callers[who] as TestUser;
    const organization = `/organizations/${callers.organizationId}`;
    for (const [what, method, below, body] of PAYLOADS) {
      const { body: before } = await api.call<Organization>("GET", organization, { key: callers.owner.key });
      const values = new Map(before.apiKeys.map((one) => [one.id, one]));
      const last = before.apiKeys.findLast((one) => one.scope === "EVALUATION")?.id ?? "";
      const answer = await api.call<Organization & { data?: Organization[] }>(
        method,
        below === "list" ? "/organizations" : `${organization}${below.replace("{last}", last)}`,
        { key, body },
      );
      const shown = below === "list" ? answer.body.data?.find(({ id }) => id === callers.organizationId) : answer.body;
      for (const { id, scope, key: seen } of shown?.apiKeys ?? []) {
        const value = values.get(id)?.key ?? seen;
        const expected = clear.includes(scope) ? value : `${value.slice(0, 12)}${"*".repeat(16)}`;
        expect({ what, seen }).toEqual({ what, seen: expected });
      }
      const text = JSON.stringify(shown ?? answer.body);
      const leaked = before.apiKeys.filter(
        ({ scope, key }) => !clear.includes(scope) && text.includes(key.slice(0, 13)),
      );
      expect({ what, leaked }).toEqual({ what, leaked: [] });
      if (clear.length === 0 && below !== "list") expect(text).not.toMatch(/org_[0-9a-f]{16,}/);
      if (who === "owner") expect({ what, status: answer.status }).toEqual({ what, status: 200 });
    }
  });

  test("what is shown follows the role before the operation: who leaves is shown what it saw", async () => {
    const leaver = await api.newUser("leaver");
    const organization = `/organizations/${callers.organizationId}`;
    const body = { username: "leaver", role: "EVALUATOR" };
    await api.call("POST", `${organization}/members`, { key: callers.owner.key, body });
    const left = await api.call<Organization>("DELETE", `${organization}/members/leaver`, { key: leaver.key });
    expect(left.status).toBe(200);
    expect(JSON.stringify(left.body)).not.toMatch(/org_[0-9a-f]{16,}/);
    // A manager demotes itself, and an owner transfers the organization.
    const { key: managerKey } = callers.manager;
    const demoted = await api.call<Organization>("PUT", `${organization}/members/manager`, {
      key: managerKey,
      body: { role: "EVALUATOR" },
    });
    expect(demoted.body.apiKeys.filter(({ key }) => key.includes("*")).every(({ scope }) => scope === "ALL")).toBe(
      true,
    );
    const after = await api.call("GET", organization, { key: managerKey });
    expect(JSON.stringify(after.body)).not.toMatch(/org_[0-9a-f]{16,}/);
    const { id } = await api.newOrganization(callers.owner, "Gift");
    const given = await api.call<Organization>("PUT", `/organizations/${id}`, {
      key: callers.owner.key,
      body: { owner: "outsider" },
    });
    expect(lastOf(given.body).key).toMatch(/^org_[0-9a-f]{64}$/);
  });

  test("no key of anybody is ever in the log", () => {
    expect(JSON.stringify(api.logged)).not.toMatch(/(org|usr)_[0-9a-f]{8}/);
  });
});
