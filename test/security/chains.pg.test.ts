import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, statuses, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { pricingText } from "../support/pricings.ts";
import { yamlUpload } from "../support/uploads.ts";

/* The seven attack chains of the audit of the reference service, each from its entry point to its end. */

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
});
afterAll(() => api.close());

test("K1: who signs up and uploads code in a price, an expression, a name or a variable has it run nowhere", async () => {
  const attacker = await api.newUser("attacker-1");
  const { id, key } = await api.newOrganization(attacker, "Acme 1");
  const globals = Object.keys(globalThis);
  const CODE = "globalThis.PWNED=process.exit(7)";
  const expression = (text: string) =>
    pricingText({
      features: `\n  board: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: ${JSON.stringify(text)} }`,
      usageLimits: " {}",
      addOns: " {}",
      plans: "\n  FREE: { price: 0, unit: user/month, features: null }",
    });
  const uploads = [
    pricingText({ plans: `\n  FREE: { price: "(${CODE}, #x)", unit: user/month, features: null }`, addOns: " {}" }),
    pricingText({ plans: `\n  FREE: { price: "#x * ${CODE}", unit: user/month, features: null }`, addOns: " {}" }),
    `variables: { "(a+)+$": 1, "x": "${CODE}" }\n${pricingText({ name: "Variables", plans: '\n  FREE: { price: "#(a+)+$", unit: x, features: null }', addOns: " {}" })}`,
    ...[
      `pricingContext['features']['board'] && (${CODE})`,
      "pricingContext['features']['board'] && import('fs')",
      "pricingContext['features']['board'] && pricingContext.constructor.constructor('return process')().exit(7)",
      "pricingContext['features']['board'] && `${globalThis.PWNED = 1}`",
      "(globalThis.PWNED = 1, pricingContext['features']['board'])",
    ].map(expression),
  ];
  for (const text of uploads) {
    const answer = await api.call<{ error: string }>("POST", `/organizations/${id}/services`, {
      key: attacker.key,
      body: yamlUpload(text),
    });
    expect([400, 422], `${answer.status} ${text}`).toContain(answer.status);
    expect(answer.body.error.length).toBeGreaterThan(10);
  }
  const named = `zo'+(globalThis.PWNED=1)+'m`;
  const answer = await api.call("POST", "/services", { key, body: yamlUpload(pricingText({ name: named })) });
  if (answer.status === 201) {
    await api.call("POST", "/contracts", {
      key,
      body: {
        userContact: { userId: "k1", username: "k1" },
        contractedServices: { [named]: "1.0.0" },
        subscriptionPlans: { [named]: "FREE" },
        subscriptionAddOns: {},
      },
    });
    expect((await api.call("POST", "/features/k1?server=true", { key })).status).toBe(200);
  } else expect(answer.status).toBeLessThan(500);
  expect(Object.keys(globalThis)).toEqual(globals);
  expect("PWNED" in globalThis).toBe(false);
});

test("K2: who signs up learns no key and no member of any organization, whatever id it guesses", async () => {
  const attacker = await api.newUser("attacker-2");
  const { organizationId, owner, all } = api.callers;
  const { body: list } = await api.call<{ data: { id: string }[] }>("GET", "/organizations", { key: attacker.key });
  const own = list.data[0]?.id ?? "";
  const near = Array.from({ length: 20 }, (_, i) => own.slice(0, 16) + i.toString(16).padStart(8, "0"));
  for (const id of [organizationId, ...near]) {
    for (const path of ["", "/api-keys", "/services", "/contracts", "/webhooks", "/audit-log"]) {
      const answer = await api.call("GET", `/organizations/${id}${path}`, { key: attacker.key });
      expect([403, 404]).toContain(answer.status);
      const text = JSON.stringify(answer.body);
      expect(text).not.toMatch(/org_[0-9a-f]{4}/);
      expect(text).not.toContain(owner.username);
    }
  }
  expect((await api.call("GET", "/services", { key: all.key })).status).toBe(200);
});

test("K3: a USER stays a USER whatever it writes about itself", async () => {
  const attacker = await api.newUser("attacker-3");
  for (const body of [
    { $set: { role: "ADMIN" } },
    { "role.": "ADMIN", "$set.role": "ADMIN" },
    { ROLE: "ADMIN" },
    { role: ["ADMIN"] },
    { role: "ADMIN" },
    { role: { toString: "ADMIN" } },
    { __proto__: { role: "ADMIN" } },
  ]) {
    for (const [method, path] of [
      ["PUT", "/users/attacker-3"],
      ["PUT", "/users/attacker-3/role"],
      ["POST", "/users"],
    ] as const) {
      const given = path === "/users" ? { username: "k3-child", ...body } : body;
      const answer = await api.call(method, path, { key: attacker.key, body: given });
      expect(answer.status).toBeLessThan(500);
    }
  }
  const me = await api.call<{ role: string }>("GET", "/users/me", { key: attacker.key });
  expect(me.body.role).toBe("USER");
  expect((await api.call("GET", "/cache/get?key=x", { key: attacker.key })).status).toBe(403);
  const admins = await api.database.connection.client`select username from users where role = 'ADMIN'`;
  expect(admins.map(({ username }) => username)).toEqual(["platform-admin"]);
});

test("K4: no identifier brings the process down", async () => {
  const attacker = await api.newUser("attacker-4");
  const unhandled: unknown[] = [];
  const remember = (reason: unknown) => unhandled.push(reason);
  process.on("unhandledRejection", remember);
  try {
    for (const id of ["z".repeat(24), "%00", "..%2f..", "f".repeat(10_000), "%F0%9F%98%80", "%ff", "0", "null"]) {
      for (const [method, path] of [
        ["PUT", ""],
        ["GET", ""],
        ["DELETE", ""],
        ["POST", "/members"],
        ["GET", "/services"],
        ["PUT", "/contracts/x"],
      ] as const) {
        const answer = await api.call(method, `/organizations/${id}${path}`, {
          key: attacker.key,
          ...(method === "GET" || method === "DELETE" ? {} : { body: {} }),
        });
        expect([400, 403, 404, 422], `${method} ${id.slice(0, 30)}${path}`).toContain(answer.status);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(unhandled).toEqual([]);
  } finally {
    process.off("unhandledRejection", remember);
  }
});

test("K5: a USER takes over nobody: not by password, key, name, or deletion", async () => {
  const attacker = await api.newUser("attacker-5");
  const victim = await api.newUser("k5-victim");
  const { id } = await api.newOrganization(victim, "Acme 5");
  await api.call("POST", `/organizations/${id}/members`, {
    key: victim.key,
    body: { username: "attacker-5", role: "EVALUATOR" },
  });
  for (const [method, path, body] of [
    ["PUT", "/users/k5-victim", { password: "chosen-by-k5" }],
    ["PUT", "/users/k5-victim", { apiKey: "usr_chosen" }],
    ["PUT", "/users/k5-victim", { username: "k5-old" }],
    ["PUT", "/users/k5-victim/api-key", {}],
    ["PUT", "/users/k5-victim/role", { role: "USER" }],
    ["DELETE", "/users/k5-victim", undefined],
    ["PUT", `/organizations/${id}`, { owner: "attacker-5" }],
    ["DELETE", `/organizations/${id}/members/k5-victim`, undefined],
  ] as const) {
    const answer = await api.call(method, path, { key: attacker.key, body });
    expect(answer.status, `${method} ${path}`).toBe(403);
  }
  expect((await api.call("GET", "/users/me", { key: victim.key })).status).toBe(200);
  expect((await api.call("GET", "/users/me", { key: "usr_chosen" })).status).toBe(401);
  const login = await api.call("POST", "/users/authenticate", {
    body: { username: "k5-victim", password: "password" },
  });
  expect(login.status).toBe(200);
  const shown = await api.call<{ owner: string }>("GET", `/organizations/${id}`, { key: victim.key });
  expect(shown.body.owner).toBe("k5-victim");
});

test("K6: a MANAGEMENT key poisons nothing by the names it sends", async () => {
  const { management, all } = api.callers;
  await upload(api, all.key, tasker({ name: "Tasker6" }));
  await contract(api, all.key, "k6", {
    contractedServices: { Tasker6: "1.0.0" },
    subscriptionPlans: { Tasker6: "PRO" },
  });
  for (const body of [
    '{"constructor":{"prototype":1}}',
    '{"__proto__":{"consumed":1}}',
    '{"tasker6":{"__proto__":1}}',
    '{"tasker6":{"constructor":1}}',
    '{"toString":{"length":1}}',
  ]) {
    const answer = await api.call("PUT", "/contracts/k6/usageLevels", { key: management.key, body });
    expect([200, 400, 404, 422], body).toContain(answer.status);
  }
  expect(Object.keys(Object.prototype)).toEqual([]);
  const poisoned: string[] = [];
  for (const name in {}) poisoned.push(name);
  expect(poisoned).toEqual([]);
  await expectBalancesMatchLedger(api.database);
});

test("K7: an end user gets no more than the limit: not by waiting, not at once, not in one piece, not below zero", async () => {
  const { all, evaluation } = api.callers;
  await upload(api, all.key, tasker({ name: "Tasker7", maxTasks: 20 }));
  await contract(api, all.key, "k7", {
    billingPeriod: { autoRenew: true, renewalDays: 365 },
    contractedServices: { Tasker7: "1.0.0" },
    subscriptionPlans: { Tasker7: "PRO" },
  });
  const use = (amount: number) =>
    api.call<{ eval: boolean }>("POST", "/features/k7/tasker7-board?strict=true", {
      key: evaluation.key,
      body: { "tasker7-maxTasks": amount },
    });
  const used = async () => {
    const shown = await api.call<{ usageLevels: Record<string, Record<string, { consumed: number }>> }>(
      "GET",
      "/contracts/k7",
      { key: all.key },
    );
    return shown.body.usageLevels["tasker7"]?.["maxTasks"]?.consumed;
  };
  for (const amount of [-1, -1000, 1e308]) expect((await use(amount)).status).toBe(422);
  expect((await use(1000)).body.eval).toBe(false);
  expect(await used()).toBe(0);
  const answers = await Promise.all(Array.from({ length: 50 }, () => use(1)));
  expect(statuses(answers)).toEqual({ 200: 50 });
  expect(answers.filter(({ body }) => body.eval)).toHaveLength(20);
  expect(await used()).toBe(20);
  // After the period the counter resets once, not at every request.
  api.setNow(new Date("2025-07-20T10:00:00Z"));
  for (const amount of [7, 7]) expect((await use(amount)).body.eval).toBe(true);
  expect(await used()).toBe(14);
  expect((await use(7)).body.eval).toBe(false);
  await expectBalancesMatchLedger(api.database);
});
