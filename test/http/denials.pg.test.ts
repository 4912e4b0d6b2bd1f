import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { createCallCounter } from "../../src/operations/state/call-counter.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

const HOUR = 3_600_000;
const NOON = Date.UTC(2025, 5, 15, 12);
let api: TestApi;
let key: string;
let hours = 0;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker());
  for (const user of ["ada", "bob"]) await contract(api, key, user, { billingPeriod: { renewalDays: 365 } });
  await contract(api, key, "eve", {
    subscriptionPlans: { tasker: "BASIC" },
    subscriptionAddOns: {},
    billingPeriod: { renewalDays: 365 },
  });
});
afterAll(() => api.close());
// Each test starts eight days after the previous one, so that it sees none of its counts.
beforeEach(() => {
  hours += 200;
  api.setNow(new Date(NOON + hours * HOUR));
});

interface Report {
  hours: number;
  total: number;
  features: { featureId: string; total: number; limitReached: number }[];
}
const at = (organizationId: string, what: string) => `/organizations/${organizationId}/${what}`;
const report = async (query = "") =>
  (
    await api.call<Report>("GET", at(api.callers.organizationId, `denials${query}`), {
      key: api.callers.evaluator.key,
    })
  ).body;
const ask = (user: string, feature: string, body: object = {}, headers: Record<string, string> = {}) =>
  api.call<{ eval: boolean }>("POST", `/features/${user}/${feature}`, { key, body, headers });
const use = (userId: string, amounts: Record<string, number>) =>
  api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tasker: amounts } });

it("nobody was denied anything yet", async () => {
  expect(await report()).toEqual({ hours: 24, total: 0, features: [] });
});

it("each refusal of one feature counts, asked for or consumed, with what it was for", async () => {
  for (let i = 0; i < 3; i += 1) expect((await ask("eve", "tasker-darkMode")).body.eval).toBe(false);
  await use("bob", { maxTasks: 20 });
  expect((await ask("bob", "tasker-board")).body.eval).toBe(false);
  expect((await ask("bob", "tasker-board", { "tasker-maxTasks": 1 })).body.eval).toBe(false);
  await use("bob", { maxTasks: -2 });
  expect((await ask("bob", "tasker-board?strict=true", { "tasker-maxTasks": 3 })).body.eval).toBe(false);
  const flag = { context: { targetingKey: "eve" } };
  const evaluated = await api.call("POST", "/ofrep/v1/evaluate/flags/tasker-sla", { key, body: flag });
  expect(evaluated.body).toMatchObject({ value: false });
  const expected = {
    hours: 24,
    total: 7,
    features: [
      { featureId: "tasker-board", total: 3, limitReached: 3 },
      { featureId: "tasker-darkMode", total: 3, limitReached: 0 },
      { featureId: "tasker-sla", total: 1, limitReached: 0 },
    ],
  };
  expect(await report()).toEqual(expected);
  // Counts accumulate across flushes.
  await ask("eve", "tasker-sla");
  expect(await report()).toMatchObject({ total: 8, features: [{}, {}, { total: 2 }] });
  const overview = await api.call("GET", at(api.callers.organizationId, "overview"), {
    key: api.callers.evaluator.key,
  });
  expect(overview.body).toMatchObject({ denials: { hours: 24, total: 8 } });
});

it("what is granted, only tried, about everything, unknown or wrongly asked is no denial; a repeated answer is one", async () => {
  expect((await ask("ada", "tasker-darkMode")).body.eval).toBe(true);
  await ask("eve", "tasker-darkMode?dryRun=true");
  await api.call("POST", "/features/eve", { key });
  await api.call("POST", "/ofrep/v1/evaluate/flags", { key, body: { context: { targetingKey: "eve" } } });
  expect((await ask("eve", "tasker-nothing")).body.eval).toBe(false);
  expect((await ask("ada", "tasker-bulk", { "tasker-maxTasks": 1 })).body).toMatchObject({
    eval: false,
    error: { code: "INVALID_EXPECTED_CONSUMPTION" },
  });
  expect((await report()).total).toBe(0);
  await use("eve", { maxTasks: 5 });
  for (let i = 0; i < 3; i += 1) {
    const answer = await ask("eve", "tasker-board", { "tasker-maxTasks": 1 }, { "Idempotency-Key": "once" });
    expect(answer.body.eval).toBe(false);
  }
  expect(await report()).toMatchObject({ total: 1, features: [{ featureId: "tasker-board", limitReached: 1 }] });
});

it("they are counted by the hour in which they were answered", async () => {
  const start = NOON + hours * HOUR;
  for (const [minute, times] of [
    [0, 1],
    [59, 2],
    [60, 4],
    [180, 8],
  ] as const) {
    api.setNow(new Date(start + minute * 60_000));
    for (let i = 0; i < times; i += 1) await ask("eve", "tasker-darkMode");
  }
  const totals = async () => Promise.all([1, 3, 4, 168].map(async (each) => (await report(`?hours=${each}`)).total));
  expect(await totals()).toEqual([8, 12, 15, 15]);
  api.setNow(new Date(start + 169 * HOUR));
  expect(await totals()).toEqual([0, 0, 0, 8]);
});

it("several processes count into the same rows", async () => {
  const counters = Array.from({ length: 4 }, () => createCallCounter(api.resources.db));
  const now = new Date(NOON + hours * HOUR);
  for (let round = 0; round < 10; round += 1) {
    counters.forEach((counter, i) => {
      const ids = Array.from({ length: 20 }, (_, n) => `tasker-${i % 2 === 0 ? n : 19 - n}`);
      for (const id of ids) counter.countDenial(now, api.callers.organizationId, id, "NOT_GRANTED");
    });
    await Promise.all(counters.map((counter) => counter.flush()));
  }
  const { total, features } = await report();
  expect(total).toBe(800);
  expect(features.map((feature) => feature.total)).toEqual(Array(20).fill(40));
});

it("another organization's are not among them, and those of one that is deleted hold up nobody's", async () => {
  const { outsider } = api.callers;
  const other = await api.newOrganization(outsider);
  await ask("eve", "tasker-darkMode");
  const shown = await api.call<Report>("GET", at(other.id, "denials"), { key: outsider.key });
  expect(shown.body).toEqual({ hours: 24, total: 0, features: [] });
  expect((await api.call("GET", at(api.callers.organizationId, "denials"), { key: outsider.key })).status).toBe(403);
  api.resources.callCounter.countDenial(new Date(NOON + hours * HOUR), other.id, "tasker-board", "NOT_GRANTED");
  const gone = await api.call("DELETE", `/organizations/${other.id}`, { key: outsider.key });
  expect(gone.status).toBe(204);
  expect((await report()).total).toBe(1);
});

it.each(["0", "721", "1.5", "soon", ""])("hours=%s is refused", async (given) => {
  const answer = await api.call("GET", at(api.callers.organizationId, `denials?hours=${given}`), {
    key: api.callers.evaluator.key,
  });
  expect(answer).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: hours must be a whole number from 1 to 720" },
  });
});
